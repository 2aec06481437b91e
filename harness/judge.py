"""Events and evidence in, verdict and failures out.

The events were sent from the process in which the candidate runs, so nothing in
them is trusted to be well-formed; the evidence comes from the supervisor. The
order of the questions below decides which verdict a run with several troubles
gets: who wrote the events, what the kernel and our limits say, whether the run
came to its end, and only then what the tests said.
"""

from __future__ import annotations

import errno
import re
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.contract import Evidence, Limits, Outcome

from . import cases as declarative
from .failures import describe_failure, number
from .integrity import Watcher
from .models import Case, Failure, Integrity, Seat, TestResult, Verdict, WarningInfo

__all__ = ["Judgement", "judge"]

Event = dict[str, Any]


@dataclass
class Judgement:
    verdict: Verdict = "invalid"
    reason: str = ""
    tests: list[TestResult] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    warnings: list[WarningInfo] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    integrity: Integrity | None = None


def judge(outcome: Outcome, cases: tuple[Case, ...], limits: Limits, seat: Seat = "in_process") -> Judgement:
    record = _Record(dict(zip(declarative.case_ids(cases), cases, strict=True)))
    for event in outcome.events:
        record.add(event)
    record.add_endings(outcome.parts.values(), limits)
    for evidence in outcome.parts.values():
        if evidence.stopped is not None and (evidence.stopped_at or evidence.stack):
            record.add_stopped(evidence, limits)
    record.close()
    result = Judgement(
        tests=list(record.tests.values()), failures=record.failures, warnings=record.warnings, notes=record.notes
    )
    result.counts = dict(Counter(test.outcome for test in result.tests))
    result.integrity = record.watcher.conclude(seat, record.all_went_well)
    result.verdict, result.reason = _verdict(record, outcome, limits, result.integrity)
    for evidence in outcome.parts.values():
        if evidence.leftover_processes:
            left = evidence.leftover_processes
            result.notes.append(f"{left} process(es) were still running at the end, and were killed")
        if len(evidence.candidates) > 1:
            anew = len(evidence.candidates) - 1
            result.notes.append(f"the candidate's process ended early, and was started anew {anew} time(s)")
        if evidence.restarts:
            result.notes.append(f"a test would not stop: the run went on in a new process {evidence.restarts} time(s)")
    return result


# --- the record: events → tests and failures ---------------------------------


class _Record:
    def __init__(self, cases: dict[str, Case]) -> None:
        self.cases = cases
        self.tests: dict[str, TestResult] = {nodeid: TestResult(nodeid=nodeid, outcome="not_run") for nodeid in cases}
        self.failures: list[Failure] = []
        self.warnings: list[WarningInfo] = []
        self.notes: list[str] = []
        self.ready: set[str] = set()
        self.finished: set[str] = set()
        self.running: str | None = None
        self.last: str | None = None
        self.broken: list[Failure] = []
        self.uncompilable: Failure | None = None
        """What the guest has found to be no Python, of the suite's own text."""
        self.interrupted: Failure | None = None
        self.internal: Failure | None = None
        self.refused: str | None = None
        self.misfit: tuple[int, str] | None = None
        self.lost_worker: str | None = None
        self.garbled: str | None = None
        self.started = 0
        self.watcher = Watcher()

    @property
    def all_went_well(self) -> bool:
        """As far as the tests say: pytest came to its end, and nothing failed on the way."""
        return "pytest" in self.finished and not (self.failures or self.lost_worker)

    def add(self, event: Event) -> None:
        handler = getattr(self, f"_on_{event.get('e')}", None)
        if isinstance(event.get("id"), str) and self.watcher.is_canary(event["id"]):
            handler = self._on_canary
        if handler is None:
            self.garbled = f"an event of an unknown kind: {event.get('e')!r}"
            return
        try:
            handler(event)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as exc:
            self.garbled = f"a malformed {event.get('e')} event: {exc!r}"

    def add_stopped(self, evidence: Evidence, limits: Limits) -> None:
        """The test that was running when a limit ended the run, and where in it the run was stuck."""
        verdict, reason = _stopped(evidence, limits) or ("limit", f"stopped for {evidence.stopped}")
        kind = {"timeout": "timeout", "out_of_memory": "memory"}.get(verdict, "limit")
        phase = "call" if evidence.stopped_at else "collect"
        told = {"nodeid": evidence.stopped_at or "", "phase": phase, "kind": kind, "message": reason}
        self._fail(Failure.model_validate({**told, **_stuck(evidence.stack)}))
        if evidence.stopped_at and not self.watcher.is_canary(evidence.stopped_at):
            self._set(evidence.stopped_at, "timeout" if kind == "timeout" else "error", 0)

    def add_endings(self, parts: Iterable[Evidence], limits: Limits) -> None:
        """A test that lost the candidate's process failed by the way in which that ended: the supervisor saw it."""
        endings = {ended.get("during"): ended for part in parts for ended in part.candidates}
        for index, failure in enumerate(self.failures):
            ending = endings.get(failure.nodeid)
            if ending is None or failure.kind not in ("lost", "timeout"):
                continue
            if ending.get("stopped") == "test":
                late = f"the test ran longer than its {limits.test_seconds:g} seconds"
                changed = {"kind": "timeout", "message": late, **_stuck(ending.get("stack"))}
                self._set(failure.nodeid, "timeout", 0)
            elif ending.get("stopped") is None:
                changed = {"message": f"the candidate's process {_ending(ending)}"}
            else:
                continue
            self.failures[index] = failure.model_copy(update=changed)

    def close(self) -> None:
        """Warnings belong to the failure of their test, too."""
        by_test: dict[str, list[WarningInfo]] = {}
        for warning in self.warnings:
            by_test.setdefault(warning.nodeid, []).append(warning)
        self.failures = [
            failure.model_copy(update={"warnings": tuple(by_test.get(failure.nodeid, ()))}) for failure in self.failures
        ]

    def _on_canary(self, event: Event) -> None:
        if event["e"] == "phase" and event["when"] == "teardown":
            if event["outcome"] == "failed" and self.last is not None:  # of fixtures that the suite's own tests share
                self._on_phase({**event, "id": self.last})
        elif event["e"] == "phase":
            self.watcher.phase(event)

    def _on_plan(self, event: Event) -> None:
        self.watcher.note(event)
        self.watcher.plan(event)

    def _on_flood(self, event: Event) -> None:
        """The supervisor has heard it, and ends the run."""

    def _on_asked(self, event: Event) -> None:
        self.watcher.asked += int(event["count"])

    def _on_integrity(self, event: Event) -> None:
        self.watcher.note(event)

    def _on_rejected(self, event: Event) -> None:
        place = str(event["place"])
        message = f"the submission rejected the input of its own test at {place}"
        told = {"nodeid": self.running or "", "phase": "call", "kind": "skip", "message": message, "place": place}
        self._fail(Failure.model_validate(told))
        if self.running in self.tests:
            self._set(self.running, "failed", 0)

    def _on_forged(self, event: Event) -> None:
        self.garbled = "an event that does not bear our seal"

    def _on_ready(self, event: Event) -> None:
        self.watcher.restart()
        self.ready.add(str(event["part"]))

    def _on_misfit(self, event: Event) -> None:
        self.misfit = (int(event["errno"] or 0), str(event["message"]))

    def _on_finish(self, event: Event) -> None:
        self.watcher.note(event)
        self.finished.add(str(event["part"]))
        self.running = None

    def _on_session(self, event: Event) -> None:
        if event.get("warnings_cut"):
            self.notes.append(f"{event['warnings_cut']} more warnings were cut")

    def _on_collected(self, event: Event) -> None:
        for nodeid in event["ids"]:
            if self.watcher.collect(str(nodeid)):
                self.tests.setdefault(str(nodeid), TestResult(nodeid=str(nodeid), outcome="not_run"))

    def _on_deselected(self, event: Event) -> None:
        self.notes.append(f"{event['count']} tests were deselected by the suite's options")

    def _on_start(self, event: Event) -> None:
        self.running = self.last = str(event["id"])
        self.started += 1
        self.watcher.start(self.running)

    def _on_stop(self, event: Event) -> None:
        self.running = None

    def _on_stuck(self, event: Event) -> None:
        nodeid, seconds = str(event["id"]), number(event.get("seconds"))
        self._fail(
            Failure(
                nodeid=nodeid,
                phase="call",
                kind="timeout",
                message="it ran past its time limit and would not stop",
                stack=event.get("stack"),
                seconds=seconds,
            )
        )
        self._set(nodeid, "timeout", seconds)

    def _on_collect_error(self, event: Event) -> None:
        failure = describe_failure(str(event["id"]), "collect", event)
        self.failures.append(failure)
        self.broken.append(failure)
        syntax = (event.get("failure") or {}).get("syntax") or {}
        if failure.kind == "syntax" and syntax.get("owner") == "suite" and self.uncompilable is None:
            self.uncompilable = failure

    def _on_collect_skip(self, event: Event) -> None:
        self._skipped(str(event["id"]), "collect", event, 0.0)

    def _on_warning(self, event: Event) -> None:
        self.warnings.append(
            WarningInfo(
                category=str(event["category"]),
                message=str(event["message"]),
                path=str(event["path"]),
                line=int(event["line"] or 0),
                nodeid=str(event["id"] or ""),
            )
        )

    def _on_internal_error(self, event: Event) -> None:
        self.internal = describe_failure(self.running or "", "call" if self.running else "collect", event)
        self.failures.append(self.internal)

    def _on_interrupted(self, event: Event) -> None:
        self.interrupted = describe_failure(self.running or "", "call" if self.running else "collect", event)
        self.failures.append(self.interrupted)

    def _on_refused(self, event: Event) -> None:
        self.refused = str(event["message"])

    def _on_lost_worker(self, event: Event) -> None:
        self.lost_worker = str(event["message"]).strip().splitlines()[-1]
        self.notes.append(f"a worker of pytest-xdist died: {self.lost_worker}")

    def _on_case(self, event: Event) -> None:
        nodeid = str(event["id"])
        test, failure = declarative.judge(self.cases[nodeid], event)
        self.tests[nodeid] = test
        if failure is not None:
            self._fail(failure)

    def _on_phase(self, event: Event) -> None:
        nodeid, when, outcome = str(event["id"]), str(event["when"]), event["outcome"]
        seconds = number(event.get("seconds"))
        if outcome == "failed":
            self._failed_phase(nodeid, when, event)
        elif outcome == "skipped":
            self._skipped(nodeid, when, event, seconds)
        elif outcome == "passed":
            if when == "call" and "subtest" not in event:
                self._set(nodeid, "xpassed" if "xfail" in event else "passed", seconds)
        else:
            raise ValueError(f"outcome {outcome!r}")

    def _failed_phase(self, nodeid: str, when: str, event: Event) -> None:
        phase = when if when in ("setup", "call", "teardown") else "call"
        failure = describe_failure(nodeid, phase, event)
        self._fail(failure)
        if failure.kind == "timeout":
            self._set(nodeid, "timeout", failure.seconds)
        else:
            self._set(nodeid, "failed" if phase == "call" else "error", failure.seconds)

    def _skipped(self, nodeid: str, when: str, event: Event, seconds: float) -> None:
        """A skip is the suite's to decide; one that came out of the candidate's code is a failure."""
        skip = event.get("skip") or {}
        xfail = event.get("xfail")
        reason = str(xfail if xfail is not None else skip.get("reason", ""))
        if skip.get("by") == "submission":
            place = skip.get("place")
            phase = when if when in ("collect", "setup", "call", "teardown") else "call"
            message = f"the submission skipped its own test at {place}: {reason}"
            skipped = {"nodeid": nodeid, "phase": phase, "kind": "skip", "message": message, "place": place}
            self._fail(Failure.model_validate(skipped))
            self._set(nodeid, "failed", seconds, reason)
        elif "subtest" not in event:
            self._set(nodeid, "xfailed" if xfail is not None else "skipped", seconds, reason)

    def _fail(self, failure: Failure) -> None:
        self.failures.append(failure)

    _WORSE = ("not_run", "passed", "xpassed", "skipped", "xfailed", "failed", "timeout", "error")

    def _set(self, nodeid: str, outcome: str, seconds: float, reason: str = "") -> None:
        """The worst of a test's phases is its outcome."""
        before = self.tests.get(nodeid)
        if before is not None and self._WORSE.index(before.outcome) > self._WORSE.index(outcome):
            outcome, reason = before.outcome, before.reason
        spent = seconds + (before.seconds if before is not None else 0)
        changed = {"nodeid": nodeid, "outcome": outcome, "seconds": spent, "reason": reason}
        self.tests[nodeid] = TestResult.model_validate(changed)


# --- the verdict --------------------------------------------------------------


def _verdict(record: _Record, outcome: Outcome, limits: Limits, integrity: Integrity) -> tuple[Verdict, str]:
    parts = outcome.parts
    if "sandbox" in parts:
        return "out_of_memory", (
            f"the kernel killed the whole sandbox for exceeding its memory limit (memory_mb={limits.memory_mb})"
        )
    for evidence in parts.values():
        garbled = evidence.garbled or record.garbled
        if garbled:
            return "tampered", f"something other than our plugin wrote to the event channel: {garbled}"
    if integrity.findings:
        more = len(integrity.findings) - 1
        return "tampered", integrity.findings[0] + (f" (and {more} more)" if more else "")
    for evidence in parts.values():
        stopped = _stopped(evidence, limits)
        if stopped:
            return stopped
    said = _by_the_tests(record, parts)
    if said[0] != "passed":
        blamed = _exhausted(parts, limits)
        if blamed and said[0] not in ("no_tests", "invalid"):
            return blamed
    return said


def _stopped(evidence: Evidence, limits: Limits) -> tuple[Verdict, str] | None:
    """The limit for which we ended the run, if we did."""
    running = f" while running {evidence.stopped_at}" if evidence.stopped_at else ""
    peak = f"{evidence.peak_memory_mb:.0f} MB"
    if evidence.stopped == "wall":
        where = running or (" before any test ran" if not evidence.stopped_at else "")
        return "timeout", f"not done after {limits.wall_seconds:g} seconds (wall_seconds){where}"
    if evidence.stopped == "cpu":
        return "timeout", f"used {limits.cpu_seconds:g} seconds of CPU time (cpu_seconds){running}"
    if evidence.stopped == "test":
        test = evidence.stopped_at
        return "timeout", f"{test} ran past {limits.test_seconds:g} seconds (test_seconds) and would not stop"
    if evidence.stopped == "memory":
        return "out_of_memory", f"used more than {limits.memory_mb} MB (memory_mb); {peak} measured{running}"
    if evidence.stopped == "output":
        return "limit", f"wrote more than {limits.output_kb} kB of output (output_kb){running}"
    if evidence.stopped == "processes":
        return "limit", f"started more than {limits.processes} processes and threads (processes){running}"
    if evidence.stopped == "disk":
        return "limit", f"wrote more than {limits.disk_mb} MB of files (disk_mb){running}"
    if evidence.output_bytes > limits.output_kb * 1024:
        return "limit", f"wrote {evidence.output_bytes // 1024} kB of output, over {limits.output_kb} kB (output_kb)"
    return None


def _exhausted(parts: Any, limits: Limits) -> tuple[Verdict, str] | None:
    """What ran out, if the run did not pass: the likelier reason for it than what the tests say."""
    for evidence in parts.values():
        if evidence.oom_kills:
            return "out_of_memory", (
                f"the kernel killed {evidence.oom_kills} process(es) for exceeding the sandbox's memory limit "
                f"(memory_mb={limits.memory_mb})"
            )
        if evidence.processes_denied:
            return "limit", f"started more than {limits.processes} processes and threads (processes)"
        if evidence.disk_full:
            return "limit", f"filled its {limits.disk_mb} MB of disk (disk_mb)"
    return None


def _by_the_tests(record: _Record, parts: Any) -> tuple[Verdict, str]:
    if record.misfit is not None:
        number, message = record.misfit
        full = number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        reason = f"the submission's files cannot be written: {message}"
        return ("limit", f"{reason} (disk_mb)") if full else ("broken", reason)
    for name, evidence in parts.items():
        if name not in record.finished:
            return _died(record, name, evidence)
    if record.refused is not None:
        return "invalid", f"pytest refused the suite's configuration: {record.refused}"
    if record.interrupted is not None:
        return "crashed", f"the run was ended from inside: {_told(record.interrupted)}"
    if record.internal is not None:
        return _internal(record.internal)
    lost = [failure for failure in record.failures if failure.kind == "lost"]
    if lost and (record.broken or len(lost) == len(record.failures)):
        return _lost(lost[0], parts)
    if record.broken:
        return _broken(record)
    return _by_outcomes(record)


def _lost(failure: Failure, parts: Any) -> tuple[Verdict, str]:
    """The candidate's process ended while it was asked for something; the supervisor knows how."""
    endings = [ended for part in parts.values() for ended in part.candidates if ended.get("stopped") is None]
    while_doing = f"while running {failure.nodeid}" if failure.phase != "collect" else "before reporting any test"
    if not endings:
        return "crashed", f"{failure.message} {while_doing}"
    return "crashed", f"{_ending(endings[0]).removeprefix('was ')} {while_doing}"


def _stuck(stack: Any) -> dict[str, Any]:
    """Where it was stuck, without our own folders; and the innermost place of it in the candidate's code."""
    if not isinstance(stack, str):
        return {}
    own = re.search(r'File "[^"\n]*/candidate/([^"\n]+)", line (\d+)', stack)
    found = {"stack": re.sub(r'File "[^"\n]*/candidate/', 'File "', stack)}
    return {**found, "place": f"{own[1]}:{own[2]}"} if own else found


def _ending(process: Mapping[str, Any]) -> str:
    if process.get("signal") is not None:
        return f"was killed by {_signal_name(process['signal'])}"
    return f"exited with status {process.get('exit_code')}"


def _died(record: _Record, part: str, evidence: Evidence) -> tuple[Verdict, str]:
    ending = _ending({"signal": evidence.signal, "exit_code": evidence.exit_code}).removeprefix("was ")
    if part not in record.ready:
        return "invalid", f"the sandbox could not prepare the job ({ending}): {evidence.output.strip()[-500:]}"
    if evidence.stopped_at:
        return "crashed", f"{ending} while running {evidence.stopped_at}"
    if not record.started:
        return "crashed", f"{ending} before reporting any test"
    return "crashed", f"{ending} before the run was finished"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _internal(failure: Failure) -> tuple[Verdict, str]:
    """pytest itself fell over. Only candidate code, or what it did to the process, makes it do that."""
    if failure.kind == "exit" and failure.phase == "collect":
        return "broken", f"{_told(failure)} on import"
    return "crashed", f"the run was broken from inside: {_told(failure)}"


def _broken(record: _Record) -> tuple[Verdict, str]:
    failure = record.uncompilable
    if failure is not None and failure.place is None and failure.test_place:
        return "invalid", f"the suite itself does not compile: {failure.message} ({failure.test_place})"
    first = record.broken[0]
    more = f" (and {len(record.broken) - 1} more)" if len(record.broken) > 1 else ""
    return "broken", f"{first.nodeid} could not be collected: {_told(first)}{more}"


def _told(failure: Failure) -> str:
    place = failure.place or failure.test_place
    return f"{failure.message} at {place}" if place else failure.message


def _by_outcomes(record: _Record) -> tuple[Verdict, str]:
    tests = list(record.tests.values())
    if not tests and record.lost_worker is not None:
        return "crashed", f"no worker of pytest-xdist lived long enough to collect: {record.lost_worker}"
    if not tests:
        return "no_tests", "the suite holds no test that pytest collects"
    bad = [test for test in tests if test.outcome in ("failed", "error", "timeout")]
    if bad or record.failures:
        count = len(bad) or len(record.failures)
        first = record.failures[0]
        if all(failure.kind == "timeout" for failure in record.failures):
            late = f"{count} of {len(tests)} tests ran past their time limit (test_seconds)"
            return "timeout", f"{late}; first {first.nodeid}"
        return "failed", f"{count} of {len(tests)} tests did not pass; first {first.nodeid}: {_told(first)}"
    missing = [test for test in tests if test.outcome == "not_run"]
    if missing:
        return "crashed", f"{len(missing)} of {len(tests)} tests were never reported; first {missing[0].nodeid}"
    passed = sum(test.outcome in ("passed", "xpassed") for test in tests)
    if not passed:
        return "no_tests", f"all {len(tests)} tests are skipped or expected to fail: {tests[0].reason}"
    skipped = sum(test.outcome == "skipped" for test in tests)
    told = f"{passed} test{'s' * (passed != 1)} passed"
    return "passed", told + (f", {skipped} skipped by the suite" if skipped else "")
