"""Which seat a suite is judged from: read off the suite, or tried with a reference solution."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import Case, Submission, Suite, verify, warm
from harness.seats import choose_seat
from runners.pool import Pool

SUBMISSION = Submission.from_code("def f(): ...")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with warm("bubblewrap", size=1, freshness="fork") as ready:
        yield ready


@pytest.mark.parametrize(
    "code",
    [
        "from solution import f\ndef test(): assert f(1) == 2",
        "import solution\nfrom unittest import TestCase\nclass T(TestCase):\n def test(self): self.fail(solution.f())",
        "import pytest, solution\n@pytest.mark.parametrize('x', [1])\ndef test(x): assert solution.f(x)",
        "import pathlib\nDATA = (pathlib.Path(__file__).parent / 'x.json').read_text()\ndef test(): pass",
        "from solution import f\ndef test(monkeypatch): monkeypatch.setattr(f, 'x', 1)",
        "import sys, os\nsys.path.insert(0, os.path.dirname(__file__))\nfrom solution import *\ndef test(): pass",
        "from solution import Point\ndef test(): assert Point(1) == Point(1)",
        "from solution import *\ndef testing(): pass\ndef test(tested): assert testing() == tested",
        "from hypothesis import given, strategies as st\nfrom solution import f\n@given(st.none())\ndef test(x): f(x)",
    ],
)
def test_a_suite_that_only_calls_is_judged_apart(code):
    """
    Calls, fixtures, parameters, Hypothesis and the suite's own files are no obstacle.
    """
    assert choose_seat(Suite.from_code(code), SUBMISSION).seat == "separate"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("from solution import Node\nclass Mine(Node): ...", "test_solution.py:2 subclasses Node"),
        ("import inspect", "test_solution.py:1 imports inspect"),
        ("import solution\n@solution.cached\ndef helper(): ...", "decorates helper with solution"),
        ("def test(tmp_path): ...", "uses tmp_path"),
        ("import solution\ndef test(monkeypatch): monkeypatch.setenv('A', 'b')", "patches its own process"),
        ("from unittest import mock\n@mock.patch('builtins.open')\ndef test(): ...", "patches its own process"),
        ("import random\ndef test(): random.seed(1)", "seeds the random numbers"),
        ("from solution import f\ndef test(): f.__code__", "looks at __code__"),
        ("def test(): exec('1')", "uses exec"),
        ("import asyncio, solution\ndef test(): assert asyncio.iscoroutinefunction(solution.f)", "looks at code"),
        ("import threading", "imports threading"),
        ("from solution import S\ndef test(s): s.items.append(1)", "changes what an object holds"),
        ("from solution import V\ndef test(): assert V(1) == 1", "compares an object with a plain value"),
        (
            "from solution import V\ndef test():\n v = V(1)\n assert v == (1, 2)",
            "compares an object with a plain value",
        ),
        ("def test(): open('out.txt')", "works on files"),
        ("async def helper(): ...", "has a coroutine of its own"),
        ("def test(:", "does not compile"),
        ("from solution import test_prime\ndef test(): assert test_prime(2)", "takes for a test"),
        ("from solution import *\ndef test(): assert test_prime(2)", "takes for a test"),
        ("import pytest\ndef test():\n with pytest.warns(UserWarning): ...", "uses warns"),
    ],
)
def test_what_cannot_be_done_from_another_process_is_named(code, reason):
    """
    The reason names the line and what stands there.
    """
    choice = choose_seat(Suite.from_code(code), SUBMISSION)

    assert choice.seat == "in_process"
    assert reason in choice.reason


def test_the_submissions_text_decides_nothing():
    """
    A candidate cannot ask for the weaker seat.
    """
    suite = Suite.from_code("from solution import f\ndef test(): assert f() == 1")
    asking = Submission.from_code("import inspect, threading\nclass f(int): seat = 'in_process'")

    assert choose_seat(suite, asking) == choose_seat(suite, SUBMISSION)


def test_cases_need_no_seat():
    """
    Declarative cases are compared outside of the sandbox.
    """
    suite = Suite.from_cases([Case(call="solution.f", expected=None)])

    assert choose_seat(suite, SUBMISSION).seat == "cases"


def test_a_required_seat_is_an_error_before_anything_runs(pool):
    """
    Who trains on the result wants no verdict from a weaker seat.
    """
    suite = Suite.from_code("import inspect\ndef test(): pass")

    with pytest.raises(ValueError, match=r"separate is required.*imports inspect"):
        verify(SUBMISSION, suite, runner=pool, require_seat="separate")


def test_a_reference_knows_better_than_the_reading(pool):
    """
    A suite that looks as if it needed in_process, and does not, is judged apart.
    """
    suite = Suite.from_code("import threading\nfrom solution import f\ndef test(): assert f() == 1")
    right, wrong = Submission.from_code("def f(): return 1"), Submission.from_code("def f(): return 2")

    report = verify(wrong, suite, runner=pool, reference=right)

    assert report.verdict == "failed"
    assert report.integrity is not None and report.integrity.seat == "separate"
    assert "same outcomes in both seats" in report.integrity.reason


def test_a_reference_that_is_judged_otherwise_apart_needs_in_process(pool):
    """
    The reading sees nothing wrong with comparing an unknown result with a number; the trial does.
    """
    suite = Suite.from_code("from solution import f\ndef test(): assert f() == 1")
    right = Submission.from_code("class One:\n def __eq__(self, other): return other == 1\ndef f(): return One()")

    report = verify(right, suite, runner=pool, reference=right)

    assert report.passed
    assert report.integrity is not None and report.integrity.seat == "in_process"
    assert "test_solution.py::test is passed, and failed from another process" in report.integrity.reason
