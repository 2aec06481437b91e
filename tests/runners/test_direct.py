"""Simple suites, whose tests are called without a session of pytest's, tell what they would tell with one.

Each runs three times, always with the candidate in a process of its own: in a guest that has begun a
session before it knew of any job, in a new guest that has not even imported pytest, and, as stock
pytest does it, with a session around it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import pytest

from harness import Environment, Limits, Report, Runner, Submission, Suite, verify
from harness.judge import judge
from harness.verify import prepare, run_blocking
from runners import session
from runners.contract import Job, Outcome
from tests.runners.test_zygote import Warm, told

LIMITS = Limits(wall_seconds=30, test_seconds=20, memory_mb=256, processes=48, disk_mb=32, output_kb=1024)

SOLUTION = """
import logging
import sys
import unittest
import warnings

def add(a, b):
    return a + b

def warn():
    warnings.warn("old", DeprecationWarning, stacklevel=2)

def say(text):
    print(text)
    print(text, file=sys.stderr)
    logging.getLogger("solution").warning("it is %s", text)

def fail(kind="KeyError"):
    raise {"KeyError": KeyError, "SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt,
           "SkipTest": unittest.SkipTest, "GeneratorExit": GeneratorExit}[kind](kind)

class ParseError(ValueError):
    pass

def parse(text):
    raise ParseError(text)

def leave():
    import os
    os._exit(3)
"""

SIMPLE = {
    "passing": "from solution import add\ndef test_it(): assert add(1, 2) == 3",
    "several": "from solution import *\ndef test_b(): assert add(1, 2) == 3\ndef test_a(): assert add(0, 0) == 0",
    "a helper": """
        from solution import add
        METADATA = {"author": "someone"}
        def check(candidate):
            assert candidate(1, 2) == 3
            assert candidate([1], [2]) == [1, 3], "lists, too"
        def test_add(): check(add)
    """,
    "nothing to test": "from solution import add\nassert add",
    "long difference": "def test_it(): assert list(range(100)) == list(range(50)) + list(range(51, 101))",
    "texts": "def test_it():\n    a = 'one\\ntwo\\n' * 20\n    assert a == a.replace('two', 'zwei', 1)",
    "sets and dicts": """
        def test_set(): assert {1, 2} == {2, 3}
        def test_dict(): assert {"a": 1, "b": [2]} == {"a": 1, "b": [3]}
        def test_in(): assert "x" in "abc"
        def test_not(): assert not [1]
        def test_chain(): assert 1 < 3 < 2
        def test_percent(): assert "100%" == "%s"
    """,
    "a message": "def test_it(): assert 1 == 2, {'what': ['is', 'this']}",
    "the second of two": """
        import pytest
        def test_it():
            with pytest.raises(AssertionError):
                assert [1] == [2]
            assert (3, 4) == (3, 5)
        def test_own():
            with pytest.raises(AssertionError):
                assert [1] == [2]
            raise AssertionError("of my own")
    """,
    "approx and raises": """
        import pytest
        from pytest import approx
        from solution import add, parse, ParseError
        def test_approx(): assert add(0.1, 0.2) == approx(0.3)
        def test_not_approx(): assert add(0.1, 0.2) == approx(0.4)
        def test_raises():
            with pytest.raises(ParseError, match="bad") as caught: parse("bad")
            assert caught.value.args == ("bad",)
        def test_raises_not():
            with pytest.raises(ValueError): add(1, 2)
        def test_fail(): pytest.fail("on purpose")
    """,
    "raising": "from solution import fail\ndef test_it(): fail()\ndef test_own(): dict()['x']",
    "leaving": "from solution import fail\ndef test_it(): fail('SystemExit')\ndef test_own(): raise SystemExit(2)",
    "interrupted": "from solution import fail\ndef test_a(): fail('KeyboardInterrupt')\ndef test_b(): pass",
    "skipped by the candidate": "from solution import fail\ndef test_it(): fail('SkipTest')\ndef test_b(): pass",
    "no exception": "from solution import fail\ndef test_it(): fail('GeneratorExit')",
    "the candidate is lost": """
        from solution import add, leave
        def test_a(): leave()
        def test_b(): assert add(1, 1) == 2
    """,
    "lost, and swallowed": """
        from solution import leave
        def test_a():
            try: leave()
            except BaseException: pass
    """,
    "printing": """
        from solution import say
        print("at import")
        def test_loud():
            say("loud")
            print("by the test")
            assert say("twice") == 1
        def test_quiet(): assert False
        def test_passes(): say("unheard")
    """,
    "odd texts": "def test_it():\n    print('\\ud800', 'ü', 'a\\rb')\n    assert 'ü\\x00' == '\\ud800'",
    "warnings": """
        from solution import warn
        warn()
        def test_it(): warn()
        def test_fails():
            warn()
            assert False
    """,
    "random": "import random\ndef test_it(): raise Exception(random.random())",
    "names that are no tests": """
        test_data = [1, 2]
        testing = "yes"
        contest = 3
        def test(): assert test_data == [1, 2]
        def tested(): assert testing == "no"
        def attest(): assert False
    """,
    "defined twice": """
        def test_a(): assert False
        def test_b(): pass
        def test_a(): assert True
    """,
    "a class of its own": """
        from solution import add
        class Money:
            def __init__(self, amount): self.amount = amount
            def __add__(self, other): return Money(self.amount + other.amount)
            def __eq__(self, other): return self.amount == other.amount
            def __repr__(self): return f"Money({self.amount})"
            @property
            def much(self): return self.amount > 10
        def test_add(): assert add(Money(1), Money(2)) == Money(4)
        def test_much(): assert Money(1).much
    """,
    "run as a program": "def test_it(): assert __name__ == 'test_it'\nif __name__ == '__main__':\n    test_it()",
    "typed and nested": """
        from __future__ import annotations
        import typing
        Row = typing.List[int]
        count: int = 2
        def test_it() -> None:
            def inner(n: Row) -> int: return sum(n)
            assert inner([1, count]) == 3
            assert (lambda x: x * 2)(2) == 5
    """,
    "deep": "def down(n): return down(n + 1)\ndef test_it():\n    try: down(0)\n    except RecursionError: pass",
}

LEFT_TO_PYTEST = {
    "a name that is missing": "from solution import no_such_name\ndef test_it(): pass",
    "an exception at import": "from solution import fail\nfail()\ndef test_it(): pass",
    "an assert at import": "assert [1] == [2]\ndef test_it(): pass",
    "exit at import": "from solution import fail\nfail('SystemExit')",
    "skipped at import": "from solution import fail\nfail('SkipTest')",
    "lost at import": "from solution import leave\nleave()\ndef test_it(): pass",
    "a test by another name": "def check(): assert False\ntest_it = check",
    "a test with an attribute": "def test_it(): assert False\ntest_it.__test__ = False",
    "a test that is a lambda": "test_it = lambda: None",
}

OTHERS = {
    "setup": "def setup_module(): raise OSError('no')\ndef test_it(): pass",
    "a hook": "pytest_plugins = ['no_such_plugin']\ndef test_it(): pass",
    "marks": "import pytest\npytestmark = pytest.mark.skip\ndef test_it(): assert False",
    "not for tests": "__test__ = False\ndef test_it(): assert False",
    "a class of tests": "class TestIt:\n    def test_it(self): assert False",
    "returning": "def test_it(): return 1",
    "an escape that is none": "def test_it(): assert '\\d' == 'd'",
    "a tuple": "def test_it(): assert (1 == 2, 'never')",
    "is a literal": "def test_it(): assert 1000 is 'x'",
    "a fixture": "def test_it(tmp_path_factory): pass",
    "not rewritten": "'''PYTEST_DONT_REWRITE'''\ndef test_it():\n    a = [1]\n    assert a == [2]",
    "what is around it": "import sys\ndef test_it(): assert 'pytest' in sys.modules",
    "a syntax error": "def test_it(:\n    pass",
}


def job_of(source: str, solution: str = SOLUTION, limits: Limits = LIMITS, **given: Any) -> Job:
    suite = Suite.from_files({"test_it.py": dedent(source)}, **given)
    return prepare(Submission.from_files({"solution.py": solution}), suite, limits, Environment(), 0, "separate")


class Listening(Warm):
    """Keeps what it heard last."""

    heard: tuple[dict[str, Any], ...] = ()

    async def run(self, job: Job) -> Any:
        outcome = await self.outcome(job)
        self.heard = outcome.events
        return judge(outcome, (), LIMITS, "separate")


@pytest.fixture(scope="module")
def warm(bubblewrap_runner: Runner) -> Iterator[Listening]:
    ready = Listening(bubblewrap_runner)
    yield ready
    run_blocking(ready.close())


async def cold(runner: Runner, job: Job) -> Outcome:
    async with session.open_guest(runner, job.environment, job.limits) as guest:
        return await guest.run(job)


def in_session(events: tuple[dict[str, Any], ...]) -> bool:
    """Whether pytest's session has run the tests: then they have phases before and after their call."""
    return any(event.get("when") == "teardown" for event in events)


def all_ways(
    warm: Listening, runner: Runner, job: Job, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[dict[str, Any]], list[bool]]:
    """What is told of it warm, cold and ordinarily; and for the first two, whether a session ran it."""
    ready = told(run_blocking(warm.run(job)))
    new = run_blocking(cold(runner, job))
    monkeypatch.setattr(session, "DIRECT", False)
    ordinary = run_blocking(cold(runner, job))
    results = [ready, *[told(judge(outcome, (), LIMITS, "separate")) for outcome in (new, ordinary)]]
    return results, [in_session(warm.heard), in_session(new.events)]


@pytest.mark.parametrize("name", SIMPLE)
def test_a_simple_suite_tells_the_same_without_a_session(name, warm, bubblewrap_runner, monkeypatch):
    """
    Verdict, reason, node ids, outcomes, failures, warnings and notes; and there really was none.
    """
    results, sessions = all_ways(warm, bubblewrap_runner, job_of(SIMPLE[name]), monkeypatch)

    assert results[0] == results[2]
    assert results[1] == results[2]
    assert sessions == [False, False]


@pytest.mark.parametrize("name", LEFT_TO_PYTEST)
def test_what_turns_out_not_to_be_simple_is_left_to_pytest(name, warm, bubblewrap_runner, monkeypatch):
    """
    It finds the module as it is, and tells what it would have told from the start.
    """
    results, _ = all_ways(warm, bubblewrap_runner, job_of(LEFT_TO_PYTEST[name]), monkeypatch)

    assert results[0] == results[2]
    assert results[1] == results[2]


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_simple_is_not_tried(name, warm, bubblewrap_runner, monkeypatch):
    """
    The same in all three ways, since it is the same way.
    """
    results, _ = all_ways(warm, bubblewrap_runner, job_of(OTHERS[name]), monkeypatch)

    assert results[0] == results[2]
    assert results[1] == results[2]


@pytest.mark.parametrize(
    "solution",
    [
        "def test_mine(): assert False",
        "class TestMine:\n    def test_it(self): assert False",
        "def setup_module(): raise OSError('mine')",
        "def setup_function(f): raise OSError('mine')",
        "pytest_plugins = ['no_such_plugin']",
        "pytestmark = 1",
        "__all__ = ['__test__']\n__test__ = False",
        "__all__ = ['__getattr__']\ndef __getattr__(name): return 1",
        "def test_it(): pass\ndef check(): return 2",
    ],
    ids=lambda solution: solution.split("(")[0].splitlines()[0],
)
def test_what_a_candidate_brings_along_is_seen_by_pytest(solution, warm, bubblewrap_runner, monkeypatch):
    """
    A star import gives the module names by which it tells pytest something.
    """
    job = job_of("from solution import *\ndef test_it(): assert 1 == 2", solution)

    results, _ = all_ways(warm, bubblewrap_runner, job, monkeypatch)

    assert results[0] == results[2]
    assert results[1] == results[2]


def test_a_module_is_executed_once(warm, bubblewrap_runner, monkeypatch):
    """
    Also if it is left to pytest: a candidate whose import fails is not imported again.
    """
    counts = "import os\nn = len(os.listdir())\nopen(f'x{n}', 'w').close()\nraise OSError(n)"

    results, _ = all_ways(warm, bubblewrap_runner, job_of("import solution", counts), monkeypatch)

    assert results[0] == results[2]
    assert results[1] == results[2]


@pytest.mark.parametrize(
    "given", [{"options": ("-k", "one")}, {"options": ("-x",)}, {"options": ("--maxfail=1",)}], ids=str
)
def test_options_are_for_pytest(given, warm, bubblewrap_runner, monkeypatch):
    """
    A suite that brings some is run with a session.
    """
    job = job_of("def test_one(): assert 0\ndef test_two(): assert 0", **given)

    results, _ = all_ways(warm, bubblewrap_runner, job, monkeypatch)

    assert results[0] == results[2]
    assert results[1] == results[2]


def hurried(source: str, test_seconds: float, solution: str = "") -> Report:
    limits = LIMITS.model_copy(update={"test_seconds": test_seconds})
    return verify(Submission.from_code(solution), Suite.from_code(dedent(source)), runner="bubblewrap", limits=limits)


def test_a_test_that_takes_too_long_is_stopped(bubblewrap_runner: Runner):
    """
    It has failed by its time limit, and the next one runs.
    """
    solution = "def f():\n    while True: pass\ndef g(): return 1"
    report = hurried("from solution import f, g\ndef test_a(): f()\ndef test_b(): assert g() == 1", 0.3, solution)

    assert report.verdict == "timeout"
    assert [test.outcome for test in report.tests] == ["timeout", "passed"]


def test_a_suite_that_will_not_stop_goes_on_in_a_new_process(bubblewrap_runner: Runner):
    """
    What has been reported is not run again.
    """
    suite = """
        import time
        def test_a(): pass
        def test_b():
            while True:
                try: time.sleep(1000)
                except BaseException: pass
        def test_c(): pass
    """
    report = hurried(suite, 0.3)

    assert [test.outcome for test in report.tests] == ["passed", "timeout", "passed"]
    assert "a test would not stop: the run went on in a new process 1 time(s)" in report.notes


def test_importing_pytest_is_not_the_tests_time(bubblewrap_runner: Runner):
    """
    A new guest imports it when a test has failed, which takes longer than this test may.
    """
    report = hurried("def test_a(): assert [1] == [2]\ndef test_b(): pass", 0.05)

    assert [test.outcome for test in report.tests] == ["failed", "passed"]
    assert report.failures[0].assertion is not None and report.failures[0].assertion.diff
