"""The pytest plugin that tells what happens, as it happens. Nothing is parsed from text.

Data is taken from pytest's own objects in the process that runs the test and
travels with the report (`report.reproof`), so that xdist's workers, whose
reports are serialised, tell as much as a single process does.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import signal
import time
import unittest

import pytest

from . import failures
from .child import OutOfTime, TestClock

TYPE_CHECKING = False

if TYPE_CHECKING:
    import warnings
    from collections.abc import Generator, Sequence
    from pathlib import Path
    from typing import Any

    from .child import Channel
    from .guard import Guard
    from .judging import Watch

TEXT = 32_000
WARNINGS = 100
IDS_PER_EVENT = 1_000
WORKER_VARIABLE = "REPROOF_WORKER"

_SKIPS = re.compile("skip|xfail", re.IGNORECASE)

listener: Listener = None  # type: ignore[assignment]  # set by whoever runs pytest; in an xdist worker, by pytest_configure


def for_workers(job: dict[str, Any], path: str) -> None:
    """Leave what an xdist worker has to know where it will look for it."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"suite": job["suite"], "limits": job["limits"], "seed": job["seed"]}, file)
    os.environ[WORKER_VARIABLE] = path


class Silent:
    """A channel to nowhere: an xdist worker's reports go to the controller, which has the real one."""

    heard = False

    def send(self, event: dict[str, Any]) -> None:
        self.heard = True

    hold = send

    def flush(self) -> None:
        pass


class AlarmClock(TestClock):
    """In an xdist worker no supervisor sees a test start; the alarm clock does."""

    def arm(self) -> None:
        signal.signal(signal.SIGALRM, self._ring)

    def begin(self) -> None:
        super().begin()
        signal.setitimer(signal.ITIMER_REAL, self.seconds, 0.25)

    def stop(self) -> None:
        super().stop()
        signal.setitimer(signal.ITIMER_REAL, 0)


class Listener:
    def __init__(
        self, channel: Channel | Silent, describe: failures.Describer, clock: TestClock, job: dict[str, Any]
    ) -> None:
        self.channel = channel
        self.describe = describe
        self.clock = clock
        self.seed = job["seed"]
        self.guard: Guard | None = None
        self.watch: Watch | None = None
        """Over the candidate, where it has a process of its own."""
        self.finished: frozenset[str] = frozenset(job.get("finished", ()))
        self.comparison: dict[str, Any] | None = None
        self.warnings = 0
        self.counted: dict[str, int] = {}
        self.distributed = False

    @property
    def warnings_cut(self) -> int:
        return max(0, self.warnings - WARNINGS)

    def say(self, event: dict[str, Any]) -> None:
        """What the next event follows at once; unless tests run in other processes, which may all hang."""
        (self.channel.send if self.distributed else self.channel.hold)(event)

    def collection_failed(self, nodeid: str, exc: BaseException) -> None:
        failure = self.describe(exc, exc.__traceback__)
        self.channel.send({"e": "collect_error", "id": nodeid, "failure": failure})

    def refused(self, message: str) -> None:
        self.channel.send({"e": "refused", "message": failures.cut(message, failures.MESSAGE)})

    # --- failures -----------------------------------------------------------

    def failure(self, exc: BaseException) -> dict[str, Any]:
        exc = _unwrap(exc)
        failure = self.describe(exc, exc.__traceback__)
        assertion = self._assertion(exc)
        if assertion:
            failure["assertion"] = assertion
        example = _falsifying_example(exc)
        if example:
            failure["hypothesis"] = {"example": example, "seed": self.seed}
        return failure

    def _assertion(self, exc: BaseException) -> dict[str, Any] | None:
        if not isinstance(exc, AssertionError):
            return None
        message = failures.safe_str(exc)
        compared = self.comparison
        if compared and (not compared["explanation"] or compared["explanation"][0] in message):
            explanation = compared["explanation"]
            return {
                "operator": compared["operator"],
                "left": failures.safe_repr(compared["left"], failures.OPERAND),
                "right": failures.safe_repr(compared["right"], failures.OPERAND),
                "diff": failures.cut("\n".join(explanation[1:]), TEXT).strip("\n"),
            }
        return _unittest_assertion(exc)

    def skip(self, excinfo: pytest.ExceptionInfo[BaseException], item: pytest.Item | None = None) -> dict[str, Any]:
        """Who decided that a test does not count, and where.

        The suite says so in its own text: in the very line that raised, or, for a mark, which
        raises nothing of its own, anywhere; and the test had that mark before any test ran. A skip
        that no line of the suite speaks of is the submission's, whatever name it was called by.
        """
        place = self._raised_at(excinfo)
        reason = failures.cut(failures.safe_str(excinfo.value), 500)
        if place is None:
            said = any(_SKIPS.search(text) for text in self.describe.texts.values())
            marked = self.guard is None or item is None or self.guard.was_marked(item)
            return {"by": "suite" if said and marked else "submission", "place": None, "reason": reason}
        path, line = place
        lines = self.describe.texts.get(path, "").splitlines()
        said = path in self.describe.texts and 0 < line <= len(lines) and bool(_SKIPS.search(lines[line - 1]))
        return {"by": "suite" if said else "submission", "place": f"{path}:{line}", "reason": reason}

    def _raised_at(self, excinfo: pytest.ExceptionInfo[BaseException]) -> tuple[str, int] | None:
        """Where skip or xfail was called; None for a mark."""
        if not isinstance(excinfo.value, (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)):
            return None
        place, traceback = None, excinfo.value.__traceback__
        if isinstance(excinfo.value.__context__, unittest.SkipTest):  # pytest raises one of its own for a unittest's
            traceback = excinfo.value.__context__.__traceback__
        while traceback is not None:
            path = self.describe.relative(traceback.tb_frame.f_code.co_filename)
            if path is not None:
                place = (path, traceback.tb_lineno)
            traceback = traceback.tb_next
        return place


def _unwrap(exc: BaseException) -> BaseException:
    """pytest wraps errors of collection; the candidate's own is inside."""
    inner = getattr(exc, "cause", None)
    if isinstance(inner, BaseException) and type(exc).__name__ == "ConftestImportFailure":
        return inner
    if isinstance(exc, pytest.Collector.CollectError) and exc.__cause__ is not None:
        return exc.__cause__
    return exc


_WORDS = ("test case", "example", "explicit")
_EXAMPLES = tuple(f"{verb} {what}" for verb in ("Failing", "Falsifying") for what in _WORDS)


def _falsifying_example(exc: BaseException) -> str | None:
    for note in getattr(exc, "__notes__", None) or ():
        if isinstance(note, str) and note.startswith(_EXAMPLES):
            return failures.cut(note.partition(": ")[2], failures.MESSAGE)
    return None


_UNITTEST = {
    "assertEqual": ("==", "first", "second"),
    "assertNotEqual": ("!=", "first", "second"),
    "assertAlmostEqual": ("≈", "first", "second"),
    "assertIs": ("is", "expr1", "expr2"),
    "assertIsNot": ("is not", "expr1", "expr2"),
    "assertIn": ("in", "member", "container"),
    "assertNotIn": ("not in", "member", "container"),
    "assertLess": ("<", "a", "b"),
    "assertLessEqual": ("<=", "a", "b"),
    "assertGreater": (">", "a", "b"),
    "assertGreaterEqual": (">=", "a", "b"),
    "assertIsInstance": ("isinstance", "obj", "cls"),
}


def _unittest_assertion(exc: BaseException) -> dict[str, Any] | None:
    """unittest's assert methods have their operands as arguments, in a frame of the traceback."""
    traceback = exc.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_name in _UNITTEST and frame.f_code.co_filename.endswith(os.path.join("unittest", "case.py")):
            operator, left, right = _UNITTEST[frame.f_code.co_name]
            return {
                "operator": operator,
                "left": failures.safe_repr(frame.f_locals.get(left), failures.OPERAND),
                "right": failures.safe_repr(frame.f_locals.get(right), failures.OPERAND),
                "diff": "",
            }
        traceback = traceback.tb_next
    return None


# --- hooks ------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    global listener
    if hasattr(config, "workerinput"):
        with open(os.environ[WORKER_VARIABLE], encoding="utf-8") as file:
            handed = json.load(file)
        clock = AlarmClock(handed["limits"]["test_seconds"])
        clock.arm()
        suite = handed["suite"]
        describe = failures.Describer(str(config.rootpath), [path for path, _ in suite], failures.texts(suite))
        listener = Listener(Silent(), describe, clock, handed)
    listener.distributed = bool(getattr(config.option, "numprocesses", None)) or hasattr(config, "workerinput")


def pytest_plugin_registered(plugin: object) -> None:
    if listener is not None and listener.guard is not None:
        listener.guard.registered(plugin)


def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:  # its dots and summaries are for a terminal, and there is none
        reporter._tw._file = open(os.devnull, "w")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Only the suite's files are tests; a submission's own do not count.

    Doctests of the submission's modules are collected if the suite asks for them.
    """
    if collection_path.is_dir():
        return None
    path = listener.describe.relative(str(collection_path))
    if path is None or path in listener.describe.suite:
        return None
    if config.getoption("doctestmodules", False) and collection_path.suffix == ".py":
        patterns = [*config.getini("python_files"), "conftest.py"]
        return any(fnmatch.fnmatch(collection_path.name, pattern) for pattern in patterns) or None
    return None if collection_path.name == "__init__.py" else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    if listener.guard is not None:
        listener.guard.remember(session)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    if listener.finished:  # a process before this one has already reported them
        items[:] = [item for item in items if item.nodeid not in listener.finished]
    if listener.guard is not None:
        listener.guard.add_canaries(session, items)


def pytest_collection_finish(session: pytest.Session) -> None:
    if not listener.distributed:
        _send_ids([item.nodeid for item in session.items])
    if listener.guard is not None:
        listener.guard.collected(session)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    if "collected" not in listener.counted:
        listener.counted["collected"] = True
        _send_ids(list(ids))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    if error:
        listener.channel.send({"e": "lost_worker", "message": failures.cut(str(error).strip(), failures.MESSAGE)})


def _send_ids(ids: list[str]) -> None:
    for start in range(0, len(ids), IDS_PER_EVENT):
        listener.say({"e": "collected", "ids": ids[start : start + IDS_PER_EVENT]})


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    if items:
        ids = [item.nodeid for item in items]
        listener.channel.send({"e": "deselected", "count": len(ids), "ids": ids[:100]})


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    if listener.watch is not None:
        listener.watch.begin(f"the collection of {collector.nodeid}")
    report = yield
    if listener.guard is not None:
        listener.guard.let_go()
    call = getattr(report, "call", None)
    if call is not None and call.excinfo is not None:
        if report.outcome == "skipped":
            report.reproof = {"skip": listener.skip(call.excinfo)}
        else:
            report.reproof = {"failure": listener.failure(call.excinfo.value)}
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.outcome == "passed":
        if listener.guard is not None:
            listener.guard.complete.add(report.nodeid)
        return
    event: dict[str, Any] = {
        "e": "collect_error" if report.outcome == "failed" else "collect_skip",
        "id": report.nodeid,
    }
    event.update(getattr(report, "reproof", {}))
    listener.channel.send(event)


def pytest_runtest_logstart(nodeid: str, location: tuple[str, int | None, str]) -> None:
    listener.comparison = None
    if not _is_quiet(nodeid):
        listener.channel.send({"e": "start", "id": nodeid})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    clock, session, option = listener.clock, item.session, item.config.option
    failed, most = session.testsfailed, option.maxfail
    if listener.watch is not None:
        listener.watch.begin(item.nodeid)
    if listener.guard is not None:
        listener.guard.before(item)
    if _is_canary(item):
        option.maxfail = 0
    clock.begin()
    try:
        return (yield)
    except OutOfTime:
        raise  # between two phases: the supervisor ends the process
    finally:
        clock.stop()
        if _is_canary(item):  # it is none of the suite's, and counts for nothing
            session.testsfailed, option.maxfail = failed, most


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    if listener.guard is not None:
        listener.guard.before_call(item)
    try:
        result = yield
    finally:
        if listener.guard is not None:
            listener.guard.let_go()
    if listener.watch is not None:
        listener.watch.check(item.nodeid)
    return result


def _is_quiet(nodeid: str) -> bool:
    return listener.guard is not None and nodeid in listener.guard.quiet


def _is_canary(item: pytest.Item) -> bool:
    return listener.guard is not None and listener.guard.is_canary(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    listener.clock.running = False  # describing a failure is not the test's time
    # pytest takes a unittest's exception from where it was kept, and replaces a skip by one of its own.
    raised = call.excinfo or next(iter(getattr(item, "_excinfo", None) or ()), None)
    report = yield
    described: dict[str, Any] = {}
    if raised is not None and not (call.when != "teardown" and _is_canary(item)):
        if report.outcome == "skipped":
            described["skip"] = listener.skip(raised, item)
        elif report.outcome == "failed":
            described["failure"] = listener.failure((call.excinfo or raised).value)
    report.reproof = described
    if _is_canary(item):
        report.quiet = True
    listener.clock.running = call.when != "teardown"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_assertrepr_compare(
    config: pytest.Config, op: str, left: object, right: object
) -> Generator[None, list[list[str]], list[list[str]]]:
    explanations = yield
    listener.comparison = {
        "operator": op,
        "left": left,
        "right": right,
        "explanation": next((lines for lines in explanations if lines), []),
    }
    return explanations


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """How a canary ended is not for the summary that pytest writes for nobody."""
    return ("", "", "") if hasattr(report, "quiet") else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.outcome == "passed" and report.when != "call" and hasattr(report, "quiet"):
        return
    event: dict[str, Any] = {
        "e": "phase",
        "id": report.nodeid,
        "when": report.when,
        "outcome": report.outcome,
        "seconds": round(report.duration, 6),
    }
    event.update(getattr(report, "reproof", {}))
    if hasattr(report, "wasxfail"):
        event["xfail"] = failures.cut(str(report.wasxfail), 500)
    if hasattr(report, "_sub_test_description"):
        event["subtest"] = failures.cut(report._sub_test_description(), 500)
    if report.outcome == "failed":
        event["stdout"] = failures.cut(report.capstdout, TEXT)
        event["stderr"] = failures.cut(report.capstderr, TEXT)
        event["log"] = failures.cut(report.caplog, TEXT)
        if "failure" not in event:  # xdist's own word for a worker that died
            event["lost"] = failures.cut(str(report.longrepr), failures.MESSAGE)
    if report.when == "teardown" or report.outcome == "failed":
        event["out"] = _newly_printed(report)
    urgent = report.outcome == "failed" and not hasattr(report, "quiet")
    (listener.channel.send if urgent else listener.say)(event)


def _newly_printed(report: pytest.TestReport) -> int:
    printed = sum(len(text) for name, text in report.sections)
    before = listener.counted.pop(report.nodeid, 0)
    if report.when != "teardown":
        listener.counted[report.nodeid] = printed
    return max(0, printed - before)


def pytest_runtest_logfinish(nodeid: str, location: tuple[str, int | None, str]) -> None:
    if not _is_quiet(nodeid):
        listener.say({"e": "stop", "id": nodeid})


def pytest_warning_recorded(
    warning_message: warnings.WarningMessage, when: str, nodeid: str, location: tuple[str, int, str] | None
) -> None:
    listener.warnings += 1
    if listener.warnings <= WARNINGS:
        listener.channel.send(
            {
                "e": "warning",
                "id": nodeid,
                "when": when,
                "category": warning_message.category.__name__,
                "message": failures.cut(failures.safe_str(warning_message.message), 1000),
                "path": listener.describe.relative(warning_message.filename) or "",
                "line": warning_message.lineno,
            }
        )


def pytest_internalerror(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    listener.channel.send({"e": "internal_error", "failure": listener.failure(excinfo.value)})


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    if isinstance(excinfo.value, pytest.Session.Interrupted):
        return  # pytest's own: it stops after errors in collection, or when the suite's options say so
    listener.channel.send({"e": "interrupted", "failure": listener.failure(excinfo.value)})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
    listener.channel.flush()
    yield
    if listener.watch is not None:
        listener.watch.end()
    if listener.guard is not None:
        listener.guard.look("at the end")
    listener.channel.hold(
        {
            "e": "session",
            "status": int(exitstatus),
            "collected": session.testscollected,
            "warnings_cut": listener.warnings_cut,
            "at": time.time(),
        }
    )
