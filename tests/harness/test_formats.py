"""A report as text, JSON, JUnit XML and GitHub annotations."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Case, Failure, Limits, Report, Submission, Suite, TestResult, verify
from harness.formats import github, junit, text
from harness.models import Assertion, ErrorInfo, Frame

SUBMISSION = """\
import warnings

def half(number):
    warnings.warn("halving")
    print("printed \\x1b[31m\\x00 by the candidate")
    try:
        return {1: 0.5}[number]
    except KeyError as exc:
        raise ValueError(f"cannot halve {number}") from exc

def twice(number):
    return number + 1
"""
SUITE = """\
import pytest
from solution import half, twice

@pytest.mark.parametrize("number", [1, 5])
def test_twice(number):
    assert twice(number) == number * 2

def test_half():
    assert half(3) == 1.5

@pytest.mark.skip(reason="not today")
def test_later():
    pass

@pytest.fixture
def broken():
    raise RuntimeError("a fixture, and % and\\nanother line")

def test_with_fixture(broken):
    pass
"""


@pytest.fixture(scope="module")
def report() -> Report:
    """What a real sandbox made of a candidate with something wrong in every way."""
    suite = Suite.from_code(SUITE, cases=(Case(call="solution.twice", args=[4], expected=8),))
    return verify(Submission.from_code(SUBMISSION), suite, runner="bubblewrap")


@pytest.fixture(scope="module")
def crash() -> Report:
    """What a real sandbox made of a candidate that dies in the middle."""
    suite = "from solution import f\ndef test_a(): pass\ndef test_b(): f()\ndef test_c(): pass"
    submission = Submission.from_code("import os\ndef f(): os._exit(0)")
    return verify(submission, Suite.from_code(suite), runner="bubblewrap", seat="in_process")


def failing(**more: Any) -> Report:
    nodeid = more.pop("nodeid", "t.py::test")
    failure = Failure(**{"nodeid": nodeid, "phase": "call", "kind": "exception", "message": "E: bad", **more})
    return Report(
        verdict="failed", reason="1 of 1", tests=(TestResult(nodeid=nodeid, outcome="failed"),), failures=(failure,)
    )


# --- text ---------------------------------------------------------------------


def test_text_begins_with_the_verdict_and_why(report):
    """
    The first line is the verdict and the reason for it.
    """
    first = text.render(report).splitlines()[0]

    assert first.startswith("FAILED: 4 of 6 tests did not pass; first case[0] solution.twice")


@pytest.mark.parametrize(
    "evidence",
    [
        "✗ test_solution.py::test_twice[5]",
        "assert 6 == (5 * 2)",
        "test_solution.py:6 in test_twice: assert twice(number) == number * 2",
        "ValueError: cannot halve 3",
        "because of KeyError: 3",
        "solution.py:9 in half",
        "with number=3",
        "✗ test_solution.py::test_with_fixture in setup",
        "UserWarning: halving",
        "1 error, 3 failed, 1 passed, 1 skipped",
        "sandbox: bubblewrap",
    ],
)
def test_text_tells_what_an_engineer_wants_to_know(report, evidence):
    """
    A failure is shown with its values, its places, its causes and what was printed.
    """
    assert evidence in text.render(report)


def test_text_sends_nothing_to_the_terminal_that_the_candidate_chose(report):
    """
    Escape sequences and other control characters of a candidate never reach the terminal.
    """
    shown = text.render(report)

    assert "by the candidate" in shown
    assert not [char for char in shown if char < " " and char not in "\n\t"]


def test_text_says_how_many_failures_it_does_not_show():
    """
    Of many failures the first are shown, and how many more there are is said.
    """
    one = failing().failures[0]
    many = Report(verdict="failed", reason="many", failures=(one,) * (text.MOST_FAILURES + 5))

    shown = text.render(many)

    assert shown.count("✗") == text.MOST_FAILURES
    assert "and 5 more failures" in shown


def test_text_says_how_many_lines_it_does_not_show():
    """
    Of a long message the first lines are shown, and how many are cut is said.
    """
    message = "\n".join(f"line {number}" for number in range(text.MOST_LINES + 12))

    shown = text.render(failing(exception=ErrorInfo(type="E", message=message)))

    assert "12 lines cut" in shown
    assert f"line {text.MOST_LINES + 5}" not in shown


def test_text_says_how_many_frames_it_does_not_show():
    """
    Of a deep recursion both ends are shown, and how many frames are missing between them.
    """
    frames = tuple(
        Frame(path="solution.py", line=number, function="f", source="f()", owner="submission")
        for number in range(1, 31)
    )

    shown = text.render(failing(frames=frames, frames_cut=900, exception=ErrorInfo(type="RecursionError")))

    assert "solution.py:1 in f" in shown
    assert "solution.py:30 in f" in shown
    assert "922 frames more" in shown


def test_text_says_that_locals_are_cut():
    """
    Variables that are not shown are counted.
    """
    frame = Frame(
        path="solution.py",
        line=1,
        function="f",
        source="f()",
        owner="submission",
        locals={f"name_{number}": "1" for number in range(20)},
        locals_cut=7,
    )

    shown = text.render(failing(frames=(frame,), exception=ErrorInfo(type="E")))

    assert "19 more" in shown


def test_text_shows_a_long_comparison_within_bounds():
    """
    A comparison of two huge values takes no more than a screen or two.
    """
    huge = "x" * 100_000
    assertion = Assertion(operator="==", left=huge, right=huge, explanation=f"assert {huge} == {huge}")

    assert len(text.render(failing(assertion=assertion, exception=ErrorInfo(type="AssertionError")))) < 20_000


def test_text_of_a_crash_says_what_was_running(crash):
    """
    A candidate that dies is told with its exit status and the test that it died in.
    """
    assert text.render(crash).splitlines()[0] == "CRASHED: exited with status 0 while running test_solution.py::test_b"


@given(st.text(), st.text())
def test_text_is_made_of_anything(message, stdout):
    """
    Whatever a candidate said, its report can be rendered.
    """
    assert text.render(failing(message=message, stdout=stdout, exception=ErrorInfo(type="E", message=message)))


def test_a_falsifying_example_is_told():
    """
    What Hypothesis found is in the failure as data, with the seed that finds it again, and in the text.
    """
    suite = (
        "from hypothesis import given, strategies as st\nfrom solution import f\n"
        "@given(st.integers())\ndef test(x): assert f(x)"
    )

    report = verify(
        Submission.from_code("def f(x): return x < 10"), Suite.from_code(suite), runner="bubblewrap", seed=5
    )

    assert report.failures[0].hypothesis is not None
    assert "x=10" in report.failures[0].hypothesis.example
    assert report.failures[0].hypothesis.seed == 5
    assert "x=10" in str(report)


# --- JSON ---------------------------------------------------------------------


def test_json_holds_the_whole_report(report):
    """
    A real report that is written as JSON and read again is the same report.
    """
    written = report.model_dump_json(indent=2)

    assert Report.model_validate_json(written) == report
    assert json.loads(written)["reward"] == 0


# --- JUnit --------------------------------------------------------------------


def test_junit_counts_as_ci_servers_do(report):
    """
    Every test is a testcase; failures, errors and skips are counted apart.
    """
    suite = ET.fromstring(junit.render(report)).find("testsuite")

    counts = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}

    assert counts == {"tests": 6, "failures": 3, "errors": 1, "skipped": 1}
    assert len(suite.findall("testcase")) == 6
    assert len(suite.findall("testcase/failure")) == 3
    assert len(suite.findall("testcase/error")) == 1


def test_junit_names_a_test_by_its_file_and_name(report):
    """
    The class is the file, the name is the rest, parameters included.
    """
    root = ET.fromstring(junit.render(report))

    named = {(case.get("classname"), case.get("name")) for case in root.iter("testcase")}

    assert ("test_solution", "test_twice[5]") in named


def test_junit_shows_no_test_as_passed_that_did_not_run(crash):
    """
    A test that was never reached has no result, and a CI server must not take it for a pass.
    """
    cases = {case.get("name"): case for case in ET.fromstring(junit.render(crash)).iter("testcase")}

    assert len(cases["test_c"]) == 1
    assert len(cases["test_a"]) == 0


def test_junit_of_a_verdict_without_a_failure_is_an_error():
    """
    A run that did not pass and has no failing test still turns a CI server red.
    """
    suite = ET.fromstring(junit.render(Report(verdict="timeout", reason="not done"))).find("testsuite")

    assert suite.get("errors") == "1"
    assert suite.find("testcase/error").get("message") == "not done"


@given(st.text(st.characters()), st.text(st.characters(categories=("Cc", "Cs", "Co", "Cn"))))
def test_junit_is_xml_whatever_the_candidate_said(first, second):
    """
    Control characters, surrogates and markup in a report leave well-formed XML.
    """
    report = failing(nodeid=first or "x", message=second, stdout=first, exception=ErrorInfo(type="E", message=second))

    rendered = junit.render(report).encode("utf-8")

    assert ET.fromstring(rendered).tag == "testsuites"


# --- GitHub -------------------------------------------------------------------


def test_github_annotates_the_line_that_failed(report):
    """
    A failure is an annotation at the candidate's own line, or at the test's where there is none.
    """
    lines = github.render(report).splitlines()

    assert any(
        line.startswith("::error file=solution.py,line=9,title=test_solution.py%3A%3Atest_half::") for line in lines
    )
    assert any(line.startswith("::error file=test_solution.py,line=6,") for line in lines)
    assert lines[-1].startswith("::error title=Reproof::failed: ")


def test_github_writes_one_command_per_line(report):
    """
    Nothing that a candidate says begins a line of its own, where it would be a command.
    """
    lines = github.render(report).splitlines()

    assert len(lines) == len(report.failures) + 1
    assert all(line.startswith("::error ") for line in lines)


@given(st.text(st.sampled_from("%:,\r\n\x0b\x0c\x1c\x85\u2028 a"), max_size=20))
def test_github_escapes_what_would_be_a_command(said):
    """
    A line break, a percent sign, a colon or a comma of a candidate cannot end or begin a command.
    """
    rendered = github.render(failing(nodeid=said, message=said, place=f"{said}:3"))
    command, _, _ = rendered.removeprefix("::error ").partition("::")

    assert rendered.count("\n") == 2
    assert "\r" not in rendered
    assert [part.partition("=")[0] for part in command.split(",")] in (["file", "line", "title"], ["title"])


@pytest.mark.parametrize(
    ("verdict", "level"), [("passed", "notice"), ("invalid", "warning"), ("timeout", "error"), ("tampered", "error")]
)
def test_github_has_a_level_for_each_verdict(verdict, level):
    """
    A pass is a notice, what we could not find out a warning, and the rest an error.
    """
    assert github.render(Report(verdict=verdict, reason="100%")) == f"::{level} title=Reproof::{verdict}: 100%25\n"


def test_the_limit_that_was_passed_is_named():
    """
    A real run into a limit says which one it was, and how far it goes.
    """
    submission = Submission.from_code("def f():\n    while True: pass")
    suite = Suite.from_code("from solution import f\ndef test(): f()")

    shown = str(verify(submission, suite, runner="bubblewrap", limits=Limits(wall_seconds=1)))

    assert shown.startswith("TIMEOUT: not done after 1 seconds (wall_seconds) while running test_solution.py::test")
    assert "solution.py" in shown.partition("\n")[2]
