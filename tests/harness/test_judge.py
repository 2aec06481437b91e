"""Events and evidence → verdict. The values here are what a guest and its supervisor send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Case, Limits
from harness.judge import Judgement, judge
from runners.contract import Evidence, Isolation, Outcome

ISOLATION = Isolation(runner="x", network="", filesystem="", processes="", memory="", user="")
Event = dict[str, Any]


def event(kind: str, **more: Any) -> Event:
    return {"e": kind, "part": "pytest", **more}


READY, FINISH = event("ready"), event("finish", status=0)


def collected(*ids: str) -> Event:
    return event("collected", ids=list(ids))


def passed(nodeid: str) -> list[Event]:
    phases = [
        event("phase", id=nodeid, when=when, outcome="passed", seconds=0.1) for when in ("setup", "call", "teardown")
    ]
    return [event("start", id=nodeid), *phases, event("stop", id=nodeid)]


def failed(nodeid: str, when: str = "call", **failure: Any) -> list[Event]:
    described = {"type": "AssertionError", "message": "assert 1 == 2", **failure}
    broken = event("phase", id=nodeid, when=when, outcome="failed", seconds=0.1, failure=described)
    return [event("start", id=nodeid), broken, event("stop", id=nodeid)]


def skipped(nodeid: str, by: str = "suite", **more: Any) -> list[Event]:
    skip = {"by": by, "place": "solution.py:3" if by == "submission" else None, "reason": "why not"}
    return [event("start", id=nodeid), event("phase", id=nodeid, when="call", outcome="skipped", skip=skip, **more)]


def judged(
    *events: Event, cases: tuple[Case, ...] = (), parts: tuple[str, ...] = ("pytest",), **evidence: Any
) -> Judgement:
    """What the judge says of these events and this evidence, with an exit status of 0 unless told otherwise."""
    found = {"exit_code": None if "signal" in evidence else 0, **evidence}
    outcome = Outcome(events, {part: Evidence(**found) for part in parts}, ISOLATION, {}, {})
    return judge(outcome, cases, Limits(wall_seconds=7, memory_mb=100, processes=9, disk_mb=11, output_kb=13))


RUN = (READY, collected("t.py::a", "t.py::b"))
GOOD = (*RUN, *passed("t.py::a"), *passed("t.py::b"), FINISH)
IMPORT_ERROR = {
    "type": "ModuleNotFoundError",
    "bases": ["ImportError"],
    "message": "No module named 'x'",
    "missing": "x",
}
SUBMITTED_SYNTAX = {"path": "solution.py", "line": 3, "owner": "submission"}
SUITE_SYNTAX = {"path": "t.py", "line": 3, "owner": "suite"}


@pytest.mark.parametrize(
    ("events", "evidence", "verdict", "reason"),
    [
        (GOOD, {}, "passed", "2 tests passed"),
        (
            (*RUN, *passed("t.py::a"), *failed("t.py::b"), FINISH),
            {},
            "failed",
            "1 of 2 tests did not pass; first t.py::b",
        ),
        ((*RUN, *passed("t.py::a"), *failed("t.py::b", "setup"), FINISH), {}, "failed", "1 of 2 tests did not pass"),
        ((*GOOD[:-1], *failed("t.py::b", "teardown"), FINISH), {}, "failed", "1 of 2 tests did not pass"),
        ((READY, FINISH), {}, "no_tests", "the suite holds no test"),
        ((*RUN, *skipped("t.py::a"), *skipped("t.py::b"), FINISH), {}, "no_tests", "all 2 tests are skipped"),
        (
            (*RUN, *passed("t.py::a"), *skipped("t.py::b"), FINISH),
            {},
            "passed",
            "1 test passed, 1 skipped by the suite",
        ),
        (
            (*RUN, *passed("t.py::a"), *skipped("t.py::b", "submission"), FINISH),
            {},
            "failed",
            "the submission skipped its own test at solution.py:3",
        ),
        ((*RUN, *passed("t.py::a"), *skipped("t.py::b", xfail="known"), FINISH), {}, "passed", "1 test passed"),
        (
            (*RUN, *passed("t.py::a"), *skipped("t.py::b", "submission", xfail=""), FINISH),
            {},
            "failed",
            "the submission skipped its own test",
        ),
        (
            (
                READY,
                event("collect_skip", id="t.py", skip={"by": "submission", "place": "solution.py:1", "reason": "no"}),
                FINISH,
            ),
            {},
            "failed",
            "the submission skipped its own test",
        ),
        ((*RUN, *passed("t.py::a"), FINISH), {}, "crashed", "1 of 2 tests were never reported; first t.py::b"),
        (
            (READY, event("collect_error", id="t.py", failure=IMPORT_ERROR), FINISH),
            {},
            "broken",
            "t.py could not be collected: ModuleNotFoundError: No module named 'x'",
        ),
        (
            (
                READY,
                event("collect_error", id="t.py", failure={"type": "SyntaxError", "syntax": SUBMITTED_SYNTAX}),
                FINISH,
            ),
            {},
            "broken",
            "solution.py:3",
        ),
        (
            (READY, event("collect_error", id="t.py", failure={"type": "SyntaxError", "syntax": SUITE_SYNTAX}), FINISH),
            {},
            "invalid",
            "the suite itself does not compile",
        ),
        (
            (READY, event("refused", message="unknown option --x"), FINISH),
            {},
            "invalid",
            "pytest refused the suite's configuration: unknown option --x",
        ),
        (
            (*RUN, event("start", id="t.py::a"), event("interrupted", failure={"type": "KeyboardInterrupt"}), FINISH),
            {},
            "crashed",
            "the run was ended from inside",
        ),
        (
            (READY, event("internal_error", failure={"type": "SystemExit", "message": "0"}), FINISH),
            {},
            "broken",
            "SystemExit: 0 on import",
        ),
        (
            (*RUN, event("start", id="t.py::a"), event("internal_error", failure={"type": "SystemExit"}), FINISH),
            {},
            "crashed",
            "the run was broken from inside",
        ),
        ((), {}, "invalid", "the sandbox could not prepare the job (exited with status 0)"),
        ((), {"exit_code": 70, "output": "No space left"}, "invalid", "No space left"),
        ((READY,), {}, "crashed", "exited with status 0 before reporting any test"),
        (RUN, {"exit_code": 1}, "crashed", "exited with status 1 before reporting any test"),
        (
            (*RUN, event("start", id="t.py::a")),
            {"signal": 11, "stopped_at": "t.py::a"},
            "crashed",
            "killed by SIGSEGV while running t.py::a",
        ),
        ((*RUN, *passed("t.py::a")), {"signal": 64}, "crashed", "before the run was finished"),
        (
            (*RUN, event("start", id="t.py::a")),
            {"stopped": "wall", "stopped_at": "t.py::a"},
            "timeout",
            "not done after 7 seconds (wall_seconds) while running t.py::a",
        ),
        ((READY,), {"stopped": "wall"}, "timeout", "before any test ran"),
        (RUN, {"stopped": "cpu"}, "timeout", "cpu_seconds"),
        (RUN, {"stopped": "test", "stopped_at": "t.py::a"}, "timeout", "t.py::a ran past"),
        (
            RUN,
            {"stopped": "memory", "peak_memory_mb": 123},
            "out_of_memory",
            "used more than 100 MB (memory_mb); 123 MB measured",
        ),
        (RUN, {"stopped": "output"}, "limit", "wrote more than 13 kB of output (output_kb)"),
        (RUN, {"stopped": "processes"}, "limit", "started more than 9 processes"),
        (RUN, {"stopped": "disk"}, "limit", "wrote more than 11 MB of files (disk_mb)"),
        (GOOD, {"output_bytes": 14 * 1024}, "limit", "wrote 14 kB of output, over 13 kB"),
        (RUN, {"signal": 9, "oom_kills": 1}, "out_of_memory", "the kernel killed 1 process(es)"),
        (
            (*RUN, *failed("t.py::a"), *passed("t.py::b"), FINISH),
            {"oom_kills": 1},
            "out_of_memory",
            "the kernel killed",
        ),
        ((*RUN, *failed("t.py::a"), *passed("t.py::b"), FINISH), {"processes_denied": True}, "limit", "processes"),
        (
            (*RUN, *failed("t.py::a"), *passed("t.py::b"), FINISH),
            {"disk_full": True},
            "limit",
            "filled its 11 MB of disk",
        ),
        (GOOD, {"oom_kills": 1, "disk_full": True, "processes_denied": True}, "passed", "2 tests passed"),
        (RUN, {"signal": 9}, "crashed", "killed by SIGKILL"),
        (
            GOOD,
            {"garbled": "the checksum of a frame does not match"},
            "tampered",
            "the checksum of a frame does not match",
        ),
        ((*GOOD, event("trust_me")), {}, "tampered", "an event of an unknown kind: 'trust_me'"),
    ],
)
def test_every_situation_has_its_verdict(events, evidence, verdict, reason):
    """
    The table of situations: what was seen, the verdict, and the words that tell why.
    """
    found = judged(*events, **evidence)

    assert (found.verdict, reason in found.reason) == (verdict, True), found.reason


@pytest.mark.parametrize("before", [GOOD, RUN, ()], ids=["finished", "running", "nothing"])
def test_a_sandbox_that_the_kernel_killed_for_memory_is_out_of_memory(before):
    """
    When memory ran out so that the guest went too, the kernel's word is the verdict: it is no fault of ours.
    """
    events = before or (READY,)

    found = judged(*events, parts=("sandbox",), exit_code=None, oom_kills=1)

    assert found.verdict == "out_of_memory"


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"e": None},
        {"e": 3},
        event("start"),
        event("collected"),
        event("collected", ids=3),
        event("phase", id="x"),
        event("phase", id="x", when="call", outcome="great"),
        event("phase", id="x", when="call", outcome="failed", failure={}),
        event("phase", id="x", when="call", outcome="failed", failure={"type": "E", "frames": [{}]}),
        event("phase", id="x", when="call", outcome="failed", failure={"type": "E", "frames": 1}),
        event("phase", id="x", when="call", outcome="failed", lost=""),
        event("phase", id="x", when="call", outcome="failed", lost="\n"),
        event("phase", id="x", when="call", outcome="skipped", skip="submission"),
        event("collect_error"),
        event("warning"),
        event("warning", id="", category="", message="", path="", line=1e400),
        event("warning", id="", category="", message="", path="", line="x"),
        event("case", id="case[7] nothing"),
        event("deselected"),
        event("add", id="x"),
        event(
            "phase",
            id="x",
            when="call",
            outcome="failed",
            failure=json.loads('{"type":"E","cause":' * 900 + "1" + "}" * 900),
        ),
    ],
    ids=lambda value: ascii(value)[:70],
)
def test_a_malformed_event_is_tampering(forged):
    """
    Our plugin writes no malformed event, so whoever did is not our plugin, and the candidate has not passed.
    """
    found = judged(*GOOD, forged)

    assert found.verdict in ("tampered", "failed")
    assert found.verdict == "tampered" or found.failures


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "e": st.sampled_from(
                    ["start", "stop", "phase", "collected", "case", "warning", "stuck", "collect_error", "refused"]
                )
            },
            optional={
                name: st.recursive(
                    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: (
                        st.lists(inner, max_size=2)
                        | st.dictionaries(
                            st.sampled_from(["type", "message", "cause", "by", "frames", "$int"]), inner, max_size=2
                        )
                    ),
                    max_leaves=4,
                )
                for name in (
                    "id",
                    "ids",
                    "when",
                    "outcome",
                    "failure",
                    "skip",
                    "seconds",
                    "value",
                    "message",
                    "lost",
                    "line",
                )
            },
        ),
        max_size=3,
    )
)
def test_no_event_brings_the_judge_down(forged):
    """
    Whatever events a candidate forges, there is a verdict, and it is the candidate's and not ours.
    """
    found = judged(*GOOD[:-1], *[{**one, "part": "pytest"} for one in forged], FINISH)

    assert found.verdict != "passed" or not found.failures
    assert found.reason


def test_a_test_that_would_not_stop_keeps_the_others():
    """
    A test whose process had to be killed is a timeout, and the tests after it count as they ended.
    """
    stuck = event("stuck", id="t.py::a", stack="File solution.py, line 2", seconds=12.0)

    found = judged(*RUN, event("start", id="t.py::a"), stuck, READY, *passed("t.py::b"), FINISH, restarts=1)

    assert found.verdict == "timeout"
    assert found.counts == {"timeout": 1, "passed": 1}
    assert found.failures[0].stack == "File solution.py, line 2"
    assert any("new process" in note for note in found.notes)


def test_the_worst_phase_is_a_tests_outcome():
    """
    A test that passes and then fails in teardown is an error, with the seconds of all its phases.
    """
    found = judged(*RUN[:1], collected("t.py::a"), *passed("t.py::a"), *failed("t.py::a", "teardown"), FINISH)

    assert [test.outcome for test in found.tests] == ["error"]
    assert found.tests[0].seconds == pytest.approx(0.2)


def test_a_failed_subtest_fails_its_test():
    """
    A subtest that failed is a failure, although the test around it passes.
    """
    inner = failed("t.py::a")[1] | {"subtest": "(i=3)"}

    found = judged(READY, collected("t.py::a"), event("start", id="t.py::a"), inner, *passed("t.py::a")[1:], FINISH)

    assert found.verdict == "failed"
    assert found.failures[0].subtest == "(i=3)"
    assert found.counts == {"failed": 1}


def test_warnings_belong_to_the_failure_of_their_test():
    """
    A failure carries the warnings of its own test and not those of another.
    """
    warnings = [
        event("warning", id=f"t.py::{name}", category="UserWarning", message=name, path="", line=1) for name in "ab"
    ]

    found = judged(*RUN, *warnings, *failed("t.py::a"), *passed("t.py::b"), FINISH)

    assert [warning.message for warning in found.warnings] == ["a", "b"]
    assert [warning.message for warning in found.failures[0].warnings] == ["a"]


def test_leftovers_and_deselections_are_noted():
    """
    What did not decide but is worth knowing is in the notes.
    """
    found = judged(READY, event("deselected", count=3, ids=[]), *GOOD[1:], leftover_processes=2)

    assert found.verdict == "passed"
    assert "3 tests were deselected by the suite's options" in found.notes
    assert any(note.startswith("2 process") and "still running" in note for note in found.notes)


CASES = (Case(call="solution.f", expected=1), Case(call="solution.g", expected=2))


def case(index: int, name: str, **more: Any) -> Event:
    return {"e": "case", "part": "cases", "id": f"case[{index}] solution.{name}", "seconds": 0, **more}


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([case(0, "f", value=1), case(1, "g", value=2)], "passed"),
        ([case(0, "f", value=1), case(1, "g", value=3)], "failed"),
        ([case(0, "f", value=1)], "crashed"),
        ([], "crashed"),
        ([case(0, "f", value=1), case(1, "g", timeout="too long")], "timeout"),
        ([case(0, "f", value=1), case(1, "g", value=[])], "failed"),
        ([case(0, "f", value=1), case(1, "g", failure={"type": "SystemExit", "message": "0"})], "failed"),
        ([case(0, "f", value=0), case(0, "f", value=1), case(1, "g", value=2)], "failed"),
    ],
    ids=["right", "wrong", "missing", "none", "slow", "other", "exit", "second-thoughts"],
)
def test_cases_are_judged_by_what_came_back(results, verdict):
    """
    A case without an answer has not passed, and a second answer does not undo a wrong one.
    """
    ready, finish = {"e": "ready", "part": "cases"}, {"e": "finish", "part": "cases"}

    found = judged(ready, *results, finish, cases=CASES, parts=("cases",))

    assert found.verdict == verdict


def test_both_parts_must_come_to_their_end():
    """
    With cases and pytest files in one suite, a part that did not finish is not made good by the other.
    """
    cases = [{"e": "ready", "part": "cases"}, case(0, "f", value=1), case(1, "g", value=2)]

    found = judged(*cases, *GOOD, cases=CASES, parts=("cases", "pytest"))

    assert found.verdict == "crashed"
