"""What goes in and what comes out: frozen values that name what is wrong with them."""

from __future__ import annotations

import datetime
import pickle
import re
from decimal import Decimal
from typing import get_args

import pytest

from harness import Case, Environment, Failure, Limits, Report, Submission, Suite, TestResult
from harness.models import Assertion, ErrorInfo, Frame, HypothesisInfo, Isolation, Measurements, Verdict, WarningInfo

LIMITS = ("wall_seconds", "cpu_seconds", "test_seconds", "memory_mb", "processes", "disk_mb", "output_kb")


def full_report() -> Report:
    frame = Frame(path="solution.py", line=2, function="f", source="return 1", owner="submission", locals={"x": "1"})
    cause = ErrorInfo(type="KeyError", module="builtins", message="'a'", frames=(frame,))
    error = ErrorInfo(
        type="ValueError", message="bad", notes=("note",), cause=cause, explicit_cause=True, group=(cause,)
    )
    warning = WarningInfo(category="UserWarning", message="careful", path="solution.py", line=1, nodeid="t.py::test")
    failure = Failure(
        nodeid="t.py::test[ünï\n]",
        phase="call",
        kind="exception",
        message="ValueError: bad",
        exception=error,
        assertion=Assertion(operator="==", left="1", right="2", diff="- 1\n+ 2"),
        frames=(frame,),
        place="solution.py:2",
        hypothesis=HypothesisInfo(example="f(x=0)", seed=3),
        stdout="\x00\x1b[0m",
        warnings=(warning,),
        seconds=0.25,
    )
    return Report(
        verdict="failed",
        reason="1 of 1 tests did not pass",
        counts={"failed": 1},
        tests=(TestResult(nodeid="t.py::test", outcome="failed", seconds=0.25),),
        failures=(failure,),
        warnings=(warning,),
        notes=("a note",),
        output="noise",
        runner="bubblewrap",
        isolation=Isolation(
            runner="bubblewrap", network="none", filesystem="ro", processes="own", memory="m", user="u"
        ),
        limits=Limits(wall_seconds=3),
        measurements=Measurements(total_seconds=1.5, peak_memory_mb=30),
        seed=7,
        python="3.11.7",
        pytest="9.0",
        version="0.1.0",
    )


# --- wrong fields -------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Submission(files={"../x": ""}), "Submission.files"),
        (lambda: Submission(files={"a.py": 7}), "Submission.files.a.py"),
        (lambda: Submission(files="x"), "Submission.files"),
        (lambda: Submission(), "Submission.files"),
        (lambda: Submission(files={}, colour="red"), "Submission.colour: no such field"),
        (lambda: Submission(files={"a": "", "a/b": ""}), "Submission.files"),
        (lambda: Submission(files={"a.py": "\ud800"}), "Submission.files"),
        (lambda: Suite(), "Suite: has neither files nor cases"),
        (lambda: Suite.from_code("", workers=-1), "Suite.workers"),
        (lambda: Suite.from_code("", workers="many"), "Suite.workers"),
        (lambda: Suite.from_code("", path="/x"), "Suite.files"),
        (lambda: Suite(cases=[{"call": "f"}]), "Suite.cases.0"),
        (lambda: Environment(requirements=("-e .",)), "Environment.requirements"),
        (lambda: Environment(requirements=("x @ https://example.org/x.whl",)), "Environment.requirements"),
        (lambda: Environment(variables={"A": 1}), "Environment.variables.A"),
        (lambda: Environment(variables={"PYTHONHASHSEED": "random"}), "Environment.variables: PYTHONHASHSEED"),
        (lambda: Report(verdict="great", reason=""), "Report.verdict"),
        (lambda: Case(call="solution.f", expected=1, approx=-1), "Case.approx"),
        (lambda: Case(call="solution.f", expected=1, args=3), "Case.args"),
        (lambda: Case(call="solution.f", expected=1, answer=3), "Case.answer: no such field"),
        *[(lambda name=name: Limits(**{name: 0}), f"Limits.{name}") for name in LIMITS],
        *[(lambda name=name: Limits(**{name: "x"}), f"Limits.{name}") for name in LIMITS],
        (lambda: Limits(wall_seconds=float("nan")), "Limits.wall_seconds"),
        (lambda: Limits(wall_seconds=float("inf")), "Limits.wall_seconds"),
        (lambda: Limits(memory=512), "Limits.memory: no such field"),
    ],
)
def test_a_wrong_field_is_a_value_error_that_names_it(build, field):
    """
    Whatever is wrong is a plain ValueError that names the field; no pydantic exception gets out.
    """
    with pytest.raises(ValueError, match=re.escape(field)) as caught:
        build()

    assert type(caught.value) is ValueError
    assert "pydantic" not in str(caught.value)


def test_what_was_given_is_shown_but_never_at_length():
    """
    An error shows the value that was given, and cuts it when it is long.
    """
    with pytest.raises(ValueError, match=r"given: 'xxx") as caught:
        Limits(memory_mb="x" * 10_000)

    assert len(str(caught.value)) < 250


def test_a_number_too_long_to_print_is_still_named():
    """
    A limit of 5000 digits is refused by name, although Python will not print it.
    """
    with pytest.raises(ValueError, match=r"Limits\.memory_mb"):
        Limits(memory_mb=10**5000)


def test_a_submission_that_no_sandbox_is_ever_sent_is_refused():
    """
    Files that are too large together are refused where they are given, and not when they are sent.
    """
    with pytest.raises(ValueError, match=r"Submission\.files.*128 MB"):
        Submission(files={"a": bytes(70 << 20), "b": bytes(70 << 20)})


@pytest.mark.parametrize(
    "value",
    [Submission.from_code(""), Suite.from_code(""), Limits(), Environment(), full_report()],
    ids=lambda v: type(v).__name__,
)
def test_values_are_frozen(value):
    """
    What was handed in or handed back cannot be changed afterwards.
    """
    field = next(iter(type(value).model_fields))

    with pytest.raises(ValueError, match="frozen"):
        setattr(value, field, None)


# --- submission and suite -----------------------------------------------------


def test_text_and_bytes_are_both_files():
    """
    A file is given as text or as bytes and is kept as bytes.
    """
    made = Submission.from_files({"a.py": "é", "b.bin": b"\xff"})

    assert made.files == {"a.py": "é".encode(), "b.bin": b"\xff"}


def test_code_is_a_file_of_the_usual_name():
    """
    Code alone is solution.py, and a suite's code is test_solution.py, unless another path is given.
    """
    assert set(Submission.from_code("").files) == {"solution.py"}
    assert set(Suite.from_code("").files) == {"test_solution.py"}
    assert set(Submission.from_code("", path="pkg/mod.py").files) == {"pkg/mod.py"}


def test_a_name_that_is_not_utf8_is_a_name(tmp_path):
    """
    A file whose name is not UTF-8 is taken like any other.
    """
    with open(bytes(tmp_path) + b"/caf\xe9.py", "wb"):
        pass

    assert set(Submission.from_path(tmp_path).files) == {"caf\udce9.py"}


def test_cases_and_files_go_together():
    """
    One suite holds pytest files and cases.
    """
    suite = Suite.from_code("def test(): pass", cases=(Case(call="solution.f", expected=1),))

    assert len(suite.files) == len(suite.cases) == 1


# --- cases --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "needs `call`"),
        ({"call": "add", "expected": 1}, "write e.g. solution.add"),
        ({"call": "solution.add()", "expected": 1}, "not a dotted name"),
        ({"call": "", "expected": 1}, "not a dotted name"),
        ({"call": "solution.f"}, "expects nothing"),
        ({"stdin": "x"}, "expects nothing"),
        ({"call": "solution.f", "expected": 1, "raises": "ValueError"}, "both `expected` and `raises`"),
        ({"call": "solution.f", "expected": 1, "match": "x"}, "`match` goes with `raises`"),
        ({"call": "solution.f", "raises": "ValueError", "match": "("}, "match"),
        ({"stdin": "", "stdout": "", "program": "../x.py"}, "leaves the workspace"),
        ({"stdin": "", "expected": 5}, "expected"),
        ({"stdin": "", "raises": "ValueError"}, "raises"),
        ({"call": "solution.C.f", "init_kwargs": {"a": 1}, "expected": 5}, "init"),
        ({"call": "solution.f", "args": [object()], "expected": 1}, "args: .* cannot cross"),
        ({"call": "solution.f", "expected": {1: {object()}}}, "expected: .* cannot cross"),
        ({"call": "solution.f", "expected": True, "kwargs": {"a": test_values_are_frozen}}, "kwargs: .* cannot cross"),
    ],
    ids=lambda value: ascii(value)[:40] if isinstance(value, dict) else "",
)
def test_a_case_that_makes_no_sense_is_refused(fields, reason):
    """
    A case that could not decide anything, or not what it says, is refused when it is made.
    """
    with pytest.raises(ValueError, match=reason) as caught:
        Case(**fields)

    assert type(caught.value) is ValueError


def test_none_can_be_expected():
    """
    `expected=None` expects None; leaving it out expects nothing.
    """
    assert Case(call="solution.f", expected=None).expects_value
    assert not Case(call="solution.f", raises="ValueError").expects_value


def test_a_case_from_a_job_line_has_pythons_values():
    """
    Values that JSON lacks are written with a tag and become what they stand for.
    """
    line = {
        "call": "solution.f",
        "args": [{"$tuple": [1, {"$set": [2]}]}, {"$bytes": "YWI="}],
        "kwargs": {"when": {"$date": "2024-02-29"}},
        "expected": {"$decimal": "1.50"},
    }

    case = Case.from_json(line)

    assert case.args == [(1, {2}), b"ab"]
    assert case.kwargs == {"when": datetime.date(2024, 2, 29)}
    assert case.expected.as_tuple() == Decimal("1.50").as_tuple()


@pytest.mark.parametrize("expected", [{"$tuple": 1}, {"$nothing": 1}, {"$int": "x"}], ids=str)
def test_a_wrong_tag_in_a_job_line_is_a_value_error(expected):
    """
    A tag that is unknown, or holds something else, is told.
    """
    with pytest.raises(ValueError, match=r"\$"):
        Case.from_json({"call": "solution.f", "expected": expected})


# --- reports ------------------------------------------------------------------


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_the_reward_follows_the_verdict(verdict):
    """
    Passed is 1, what we could not find out is None, and everything else of the candidate's is 0.
    """
    reward = Report(verdict=verdict, reason="").reward

    assert reward == {"passed": 1.0, "invalid": None}.get(verdict, 0.0)


def test_a_report_survives_json():
    """
    A report that was written as JSON and read again is the same report, with its reward in the JSON.
    """
    report = full_report()

    written = report.model_dump_json()

    assert Report.model_validate_json(written) == report
    assert '"reward":0.0' in written


@pytest.mark.parametrize("mode", ["json", "text", "dump"])
def test_a_report_can_be_written_whatever_the_candidate_said(mode):
    """
    A lone surrogate in a candidate's message does not keep its report from being written as UTF-8.
    """
    report = Report(verdict="failed", reason="ValueError: \ud800")
    write = {
        "json": report.model_dump_json,
        "text": report.__str__,
        "dump": lambda: str(report.model_dump(mode="json")),
    }

    assert write[mode]().encode("utf-8")


def test_a_report_can_be_pickled():
    """
    A report goes through multiprocessing as it is.
    """
    report = full_report()

    assert pickle.loads(pickle.dumps(report)) == report


def test_printing_a_report_says_the_verdict_first():
    """
    `print(report)` is for a person, who wants the verdict and its reason first.
    """
    assert str(full_report()).splitlines()[0] == "FAILED: 1 of 1 tests did not pass"
