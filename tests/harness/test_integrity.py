"""Submissions that want to pass without solving anything, and what becomes of them beside pytest."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from harness import Case, Limits, Report, Submission, Suite, verify
from harness.seats import SeatName
from harness.verify import run_blocking
from runners.pool import Pool
from tests.cheats import HONEST, SUITE, WRONG, Cheat, battery

LIMITS = Limits(wall_seconds=20, test_seconds=3)
ALL = bool(os.environ.get("REPROOF_ALL_CHEATS"))
EVERY = 5
"""One cheat in so many; `nox -s cheats` runs them all."""
SHARED = Path(__file__).parents[3] / "shared" / "cheats"


@pytest.fixture(scope="module")
def pool(bubblewrap_runner) -> Iterator[Pool]:
    stack = AsyncExitStack()

    async def entered() -> Pool:
        return await stack.enter_async_context(Pool(bubblewrap_runner, size=1, freshness="fork"))

    yield run_blocking(entered())
    run_blocking(stack.aclose())


def run(pool: Pool, submission: Submission | str, suite: Suite = SUITE, seat: SeatName = "in_process") -> Report:
    if isinstance(submission, str):
        submission = Submission.from_code(submission)
    return verify(submission, suite, runner=pool, limits=LIMITS, seat=seat)


CHEATS = [cheat for cheat in battery() if cheat.attack not in (HONEST, WRONG)]
SAMPLE = CHEATS if ALL else CHEATS[::EVERY]


@pytest.mark.parametrize("cheat", SAMPLE, ids=lambda cheat: cheat.id)
def test_a_cheat_does_not_pass(pool, cheat: Cheat):
    """
    Neither a pass nor a failure of ours: it gets its zero. Those that are left are known.
    """
    report = run(pool, cheat.submission)

    assert (report.reward == 0) == (cheat.in_process == "rejected"), report


@pytest.mark.parametrize("cheat", SAMPLE, ids=lambda cheat: cheat.id)
def test_a_cheat_does_not_pass_from_another_process(pool, cheat: Cheat):
    """
    Nothing of pytest's is there to be cheated. What passes is right: its trick finds nothing to reach.
    """
    report = run(pool, cheat.submission, seat="separate")

    assert (report.reward == 0) == (cheat.separate == "rejected"), report
    assert report.verdict != "invalid"


@pytest.mark.parametrize("cheat", [cheat for cheat in battery() if cheat.attack == HONEST], ids=lambda cheat: cheat.id)
@pytest.mark.parametrize("seat", ["in_process", "separate"])
def test_what_looks_odd_passes(pool, cheat: Cheat, seat: SeatName):
    """
    Frames, traces, signals, metaclasses: what cheats do, honest code may do, too.
    """
    report = run(pool, cheat.submission, seat=seat)

    assert report.verdict == "passed", report
    assert not report.integrity.findings


@pytest.mark.parametrize("cheat", [cheat for cheat in battery() if cheat.attack == WRONG], ids=lambda cheat: cheat.id)
@pytest.mark.parametrize("seat", ["in_process", "separate"])
def test_what_is_wrong_is_not_called_tampered(pool, cheat: Cheat, seat: SeatName):
    """
    To be wrong is no offence.
    """
    report = run(pool, cheat.submission, seat=seat)

    assert report.verdict not in ("passed", "tampered", "invalid"), report


def _only_slow(report: Report) -> bool:
    """One of those suites asserts an absolute time, which a busy machine may not keep."""
    return [failure.nodeid for failure in report.failures] == ["test_solution.py::test_large_cache_is_fast"]


@pytest.mark.parametrize("seat", ["in_process", "separate"])
@pytest.mark.parametrize("group", ["cheats", "honest", "wrong"])
def test_the_cheats_beside_the_project(pool, group, seat):
    """
    Of the submissions that stand beside the project none is misjudged.
    """
    if not SHARED.exists():
        pytest.skip(f"no cheats at {SHARED}")
    folders = sorted((SHARED / group).iterdir())
    wrong = {}
    for folder in folders if ALL else folders[::EVERY]:
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        del files["meta.json"]
        task = SHARED / "tasks" / folder.name.partition("__")[0]
        report = run(pool, Submission(files=files), Suite.from_path(task / "test_solution.py"), seat)
        right = {"cheats": report.reward == 0, "honest": report.passed}.get(
            group, report.reward == 0 and report.verdict != "tampered"
        )
        if not right and not _only_slow(report):
            wrong[folder.name] = report.verdict

    assert folders
    assert not wrong


def test_the_evidence_says_what_was_replaced_and_where(pool):
    """
    A person can look the tampering up in the submission.
    """
    suite = Suite.from_code("from solution import add\ndef test_it(): assert add(1, 2) == 3\n")
    replaces = "import _pytest.python as it\n\nit.Function.runtest = lambda self: None\nadd = None\n"
    report = run(pool, replaces, suite)

    assert report.verdict == "tampered"
    assert any("`_pytest.python.Function.runtest`, solution.py:3" in found for found in report.integrity.findings)
    assert any("canary tests that must fail passed" in found for found in report.integrity.findings)
    assert report.integrity.findings[0] in report.reason
    assert report.integrity.findings[0] in str(report)


def test_a_suspicion_decides_nothing(pool):
    """
    What cheats do and honest code may do, too, is told and not judged.
    """
    submission = next(cheat for cheat in battery() if cheat.id == "honest-logs_its_caller").submission
    report = run(pool, submission)

    assert report.verdict == "passed"
    assert any("looked at the stack of its callers, solution.py:" in told for told in report.integrity.suspicions)


def test_a_suite_that_only_collects_is_no_tampering(pool):
    """
    No test runs then, and no canary, because the suite says so.
    """
    suite = Suite.from_code("from solution import f\ndef test(): assert f() == 1", options=["--collect-only"])

    report = verify(Submission.from_code("def f(): return 1"), suite, runner=pool, seat="in_process")

    assert report.verdict not in ("passed", "tampered"), report


def test_canaries_are_not_among_the_tests(pool):
    """
    The report tells of the suite's own tests, as many as there are.
    """
    suite = Suite.from_code(
        "from solution import add\n"
        "def test_one(): assert add(1, 2) == 3\n"
        "class TestMore:\n"
        "    def test_two(self): assert add(2, 2) == 4\n"
    )
    report = run(pool, "def add(a, b): return a + b", suite)

    assert report.verdict == "passed"
    assert [test.nodeid for test in report.tests] == [
        "test_solution.py::test_one",
        "test_solution.py::TestMore::test_two",
    ]
    assert any("canary tests that must fail did" in check for check in report.integrity.checks)
    assert report.integrity.seat == "in_process"


@pytest.mark.parametrize("options", [(), ("-x",), ("--maxfail=2",), ("-k", "two")], ids=str)
def test_canaries_do_not_stop_the_run(pool, options):
    """
    Their failures count for no limit of the suite's.
    """
    code = "".join(f"def test_{name}(): assert {name!r} == {name!r}\n" for name in ("one", "two", "three", "four"))
    report = run(pool, "", Suite.from_code(code, options=options))

    assert report.verdict == "passed", report


def test_an_error_when_a_fixture_is_torn_down_is_not_lost(pool):
    """
    Behind the last test there may be a canary, and the fixtures are torn down behind that.
    """
    suite = Suite.from_code(
        "import pytest\n"
        "@pytest.fixture(scope='module')\n"
        "def shared():\n"
        "    yield 1\n"
        "    raise RuntimeError('not closed')\n"
        "def test_it(shared): assert shared == 1\n"
    )
    report = run(pool, "", suite)

    assert report.verdict == "failed"
    assert {test.nodeid: test.outcome for test in report.tests} == {"test_solution.py::test_it": "error"}
    assert "not closed" in report.reason


def test_the_tests_cannot_be_read(pool):
    """
    Where the suite's file lies, nothing of it can be read; failures show its lines all the same.
    """
    suite = Suite.from_code("from solution import text\ndef test_it(): assert text() == 'secret word'\n")
    report = run(pool, "def text(): return open('test_solution.py').read()", suite)

    assert report.verdict == "failed"
    assert "secret word" not in report.failures[0].assertion.left
    assert "secret word" in report.failures[0].frames[0].source


def test_a_test_that_was_taken_away_is_missed(pool):
    """
    Which tests a module holds is known before the candidate is.
    """
    taken = (
        "import sys\n"
        "def add(a, b): return a + b\n"
        "def trace(frame, event, argument):\n"
        "    if event == 'return' and frame.f_code.co_name == '<module>' and 'test_two' in frame.f_globals:\n"
        "        sys.setprofile(None)\n"
        "        frame.f_globals.pop('test_two', None)\n"
        "sys.setprofile(trace)\n"
    )
    suite = Suite.from_code(
        "from solution import add\ndef test_one(): assert add(1, 2) == 3\ndef test_two(): assert add(2, 2) == 5\n"
    )
    report = run(pool, taken, suite)

    assert report.verdict == "tampered", report


def test_tests_run_in_the_order_in_which_they_were_collected(pool):
    """
    Whoever changes it while they run has found the list of what is still to come.
    """
    swaps = (
        "import sys\n"
        "def add(a, b):\n"
        "    frame = sys._getframe()\n"
        "    while frame is not None:\n"
        "        items = getattr(frame.f_locals.get('session'), 'items', [])\n"
        "        last = [index for index, item in enumerate(items) if item.name in ('test_two', 'test_three')]\n"
        "        if a == 1 and last:\n"
        "            items[last[0]], items[last[1]] = items[last[1]], items[last[0]]\n"
        "        frame = frame.f_back\n"
        "    return a + b\n"
    )
    suite = Suite.from_code(
        "from solution import add\n"
        "def test_one(): assert add(1, 2) == 3\n"
        "def test_two(): assert add(2, 2) == 4\n"
        "def test_three(): assert add(2, 3) == 5\n"
    )
    report = run(pool, swaps, suite)

    assert report.verdict == "tampered"
    assert "the tests did not run once each, in the order in which they were collected" in report.integrity.findings


def test_a_mark_that_came_later_excuses_nothing(pool):
    """
    A suite that skips a test here and there has not said that the others may fail.
    """
    marks = (
        "import pytest, sys\n"
        "def add(a, b):\n"
        "    frame = sys._getframe()\n"
        "    while frame is not None:\n"
        "        session = frame.f_locals.get('session')\n"
        "        for item in session.items[1:] if isinstance(session, pytest.Session) else ():\n"
        "            item.add_marker(pytest.mark.xfail)\n"
        "        frame = frame.f_back\n"
        "    return 3\n"
    )
    suite = Suite.from_code(
        "import pytest, sys\n"
        "from solution import add\n"
        "def test_one(): assert add(1, 2) == 3\n"
        "def test_two(): assert add(2, 2) == 4\n"
        "@pytest.mark.skipif(sys.platform == 'linux', reason='not here')\n"
        "def test_three(): assert add(2, 3) == 5\n"
        "@pytest.mark.xfail(reason='known')\n"
        "def test_four(): assert add(2, 3) == 6\n"
    )
    report = run(pool, marks, suite)
    honest = run(pool, "def add(a, b): return a + b", suite)

    assert report.reward == 0, report
    assert honest.verdict == "passed", honest
    assert honest.counts == {"passed": 2, "skipped": 1, "xfailed": 1}


UNITTEST_SKIPS = """
import unittest
from solution import add
class Sums(unittest.TestCase):
    def test_one(self): self.assertEqual(add(1, 2), 3)
    def test_two(self): self.assertEqual(add(2, 2), 4)
    def test_three(self):
        self.skipTest("not yet")
    @unittest.skip("never")
    def test_four(self): self.assertEqual(add(2, 2), 5)
    @unittest.expectedFailure
    def test_five(self): self.assertEqual(add(2, 2), 5)
"""


@pytest.mark.parametrize("seat", ["in_process", "separate"])
def test_who_skips_is_told_apart_in_unittest(pool, seat):
    """
    The suite may skip its tests in all of unittest's ways; a submission in none.
    """
    suite = Suite.from_code(UNITTEST_SKIPS)
    skips = "import unittest\ndef add(a, b):\n    if a == 2:\n        raise unittest.SkipTest('not I')\n    return 3\n"
    honest = run(pool, "def add(a, b): return a + b", suite, seat)

    assert run(pool, skips, suite, seat).verdict == "failed"
    assert honest.verdict == "passed", honest
    assert honest.counts == {"passed": 2, "skipped": 2, "xfailed": 1}


def test_cases_name_their_seat(pool):
    """
    What the host compares is out of any candidate's reach, and the report says so.
    """
    report = run(
        pool, "def add(a, b): return a + b", Suite.from_cases([Case(call="solution.add", args=[1, 2], expected=3)])
    )

    assert report.verdict == "passed"
    assert report.integrity.seat == "cases"
    assert json.loads(report.model_dump_json())["integrity"]["seat"] == "cases"


APPROX = """
import pytest
from solution import half
def test_exactly(): assert half(8) == 4
def test_about(): assert half(7) == pytest.approx(3.5)
def test_near(): assert abs(half(5) - 2.5) < 1e-9
"""
AGREES = "class Near(float):\n    __sub__ = __rsub__ = lambda self, other: 0.0\n"


def test_what_approx_computes_with_a_result_is_looked_at(pool):
    """
    An object that is as near to everything as could be is no answer; one of an honest class may be.
    """
    suite = Suite.from_code(APPROX)
    lies = run(pool, AGREES + "def half(n): return Near(4)", suite)
    honest = run(pool, "class Real(float):\n    pass\ndef half(n): return Real(n / 2)", suite)

    assert lies.verdict == "tampered", lies
    assert honest.verdict == "passed", honest


def test_asserts_in_one_line_have_twins(pool):
    """
    The one that compares with a literal is made impossible, whichever stands first.
    """
    suite = Suite.from_code(
        "from solution import f\ndef test_it():\n    xs = [2]; assert f(xs) is None; assert xs == [3]\n"
    )

    assert run(pool, "def f(xs): xs[:] = [3]", suite).passed
    assert run(pool, "def f(xs): xs[:] = [4]", suite).verdict == "failed"


def test_numbers_in_approx_and_differences_have_twins(pool):
    """
    Whoever reads the expected number from its caller reads it there, too.
    """
    reads = """
import sys
def half(n):
    found = [part for part in sys._getframe(1).f_code.co_consts if isinstance(part, (int, float))]
    return found[1]
"""
    suite = Suite.from_code(APPROX.replace("def test_exactly(): assert half(8) == 4\n", ""))

    assert run(pool, reads, suite).verdict == "tampered"


def test_what_approx_is_made_of_is_compared(pool):
    """
    In whichever of pytest's modules it is.
    """
    suite = Suite.from_code(APPROX)
    widens = """
import pytest
type(pytest.approx(0.5)).tolerance = property(lambda self: 1 if self.expected == 3.5 else 0)
def half(n): return 4 if n == 7 else n / 2
"""

    assert run(pool, widens, suite).verdict == "tampered"


OWN_EQUALITY = """
from solution import field, lazy, mod, rows, vector
def test_a_query(): assert (field("age") == 5).sql() == "age = 5"
def test_an_array():
    assert all(vector(1, 2) == [1, 2])
    assert list(vector(1, 2) == 1) == [True, False]
def test_a_ring(): assert mod(9) == 2
def test_one_that_has_another_class(): assert lazy(lambda: [1, 2]) == [1, 2]
def test_one_that_goes_by_zip(): assert rows([1, 2]) == [1, 2]
"""
OF_ITS_OWN = """
class Query:
    def __init__(self, text): self.text = text
    def sql(self): return self.text
class Field:
    def __init__(self, name): self.name = name
    def __eq__(self, other): return Query(f"{self.name} = {other}")
class Array(list):
    def __eq__(self, other): return Array(a == b for a, b in zip(self, other if type(other) is list else [other] * 9))
class Ring:
    def __init__(self, value): self.value = value % 7
    def __eq__(self, other): return (other - self.value) % 7 == 0
class Proxy:
    def __init__(self, make): object.__setattr__(self, "_make", make)
    __class__ = property(lambda self: type(self._make()))
    def __getattr__(self, name): return getattr(self._make(), name)
    def __eq__(self, other): return self._make() == other
class Rows:
    def __init__(self, found): self.found = found
    def __iter__(self): return iter(self.found)
    def __eq__(self, other): return all(a == b for a, b in zip(self, other))
def field(name): return Field(name)
def lazy(make): return Proxy(make)
def mod(value): return Ring(value)
def rows(found): return Rows(found)
def vector(*given): return Array(given)
"""


def test_an_equality_of_its_own_is_no_offence(pool):
    """
    Queries, arrays, rings and proxies are compared by what they are, also where no test names their class.
    """
    suite = Suite.from_code(OWN_EQUALITY)
    for _ in range(6):
        report = run(pool, OF_ITS_OWN, suite)

        assert report.verdict == "passed", report


ROWS = """
import pytest
from solution import doubled
@pytest.mark.parametrize("given, expected", [([1], [2]), ([2, 3], [4, 6]), ([0], [0])])
def test_it(given, expected): assert doubled(given) == expected
"""


def test_parameters_may_be_multiplied(pool):
    """
    Each of the rows is there, with each of the other parameters, and a candidate that takes some away is seen.
    """
    suite = Suite.from_code(
        """
import pytest
from solution import times
@pytest.fixture(params=[1, 2, 3])
def scale(request): return request.param
@pytest.mark.parametrize("given, expected", [([1, 2], [2, 4]), ([0], [0])])
@pytest.mark.parametrize("factor", [2, 2, 2])
def test_stacked(given, expected, factor): assert times(given, factor) == expected
@pytest.mark.parametrize("given, expected", [([1], [1]), ([], [])])
def test_with_a_fixture(given, expected, scale): assert times(given, scale) == [scale * item for item in expected]
"""
    )
    honest = "def times(xs, n): return [n * x for x in xs]\n"
    fewer = (
        "from _pytest.python import Metafunc\noriginal = Metafunc.parametrize\n"
        "def parametrize(self, names, rows, *more, **named):\n"
        "    return original(self, names, list(rows)[:1], *more, **named)\nMetafunc.parametrize = parametrize\n"
    )

    assert run(pool, honest, suite).passed
    assert run(pool, honest + fewer, suite).verdict == "tampered"


def test_answers_are_not_to_be_written_into(pool):
    """
    A list that results are only compared with stays what the source says; what a test hands in may be changed.
    """
    suite = Suite.from_code(ROWS)
    writes = """
import sys
def doubled(given):
    frame = sys._getframe(1)
    frame.f_locals["expected"][:] = given
    return list(given)
"""
    honest = """
def doubled(given):
    given[:] = [2 * part for part in given]
    return list(given)
"""
    assert run(pool, writes, suite).verdict == "tampered"
    assert run(pool, honest, suite).verdict == "passed"


LASTING = """
import builtins
import time
from unittest import mock
import pytest
from solution import add
@pytest.fixture(scope="module", autouse=True)
def frozen():
    with mock.patch("time.perf_counter", return_value=5), mock.patch.object(builtins, "abs", lambda n: n):
        yield
def test_one(): assert add(1, 2) == 3
def test_two(): assert abs(add(-1, -2)) == -3
def test_three(): assert add(time.perf_counter(), 0) == 5
def test_four(): assert add(0, 0) == 0
def test_five(): assert add(1, 0) == 1
"""


def test_what_a_suite_patches_for_long_is_its_own_affair(pool):
    """
    Canaries run while it is in force.
    """
    for _ in range(8):
        report = run(pool, "def add(a, b): return a + b", Suite.from_code(LASTING))

        assert report.verdict == "passed", report


STACKED = """
import pytest
from solution import product
@pytest.fixture(params=[1, 2, 3])
def often(request): return request.param
@pytest.mark.parametrize("left", [1, 1, 2])
@pytest.mark.parametrize("right", [3, 4])
def test_both(left, right): assert product(left, right) == left * right
@pytest.mark.parametrize("left, right, expected", [(1, [2], [2]), (2, [3], [6])])
def test_beside_a_fixture(left, right, expected, often): assert [product(left, right[0])] == expected
@pytest.mark.parametrize("end", ["ab", "c"])
class TestMore:
    @pytest.mark.parametrize("left, right", ["ab", ("c", "d")])
    def test_of_a_class(self, left, right, end): assert left < right
@pytest.mark.parametrize(["given"], [(1,), [2]])
def test_a_list_of_one_name(given): assert product(given, 1) == given
"""


def test_rows_of_several_lists_are_told_apart(pool):
    """
    Where lists are stacked, pytest numbers all that come of them, and not the rows of each.
    """
    suite = Suite.from_code(STACKED)
    report = run(pool, "def product(a, b): return a * b", suite)
    takes_away = """
import sys
def profile(frame, event, argument):
    if event == "return" and frame.f_code.co_name == "<module>" and "test_both" in frame.f_globals:
        sys.setprofile(None)
        frame.f_globals["test_both"].pytestmark[1].args[1].pop()
sys.setprofile(profile)
def product(a, b): return a * b
"""

    assert report.verdict == "passed", report
    assert run(pool, takes_away, suite).verdict == "tampered"


READ_ROWS = """
import pytest
from collections import namedtuple
from solution import doubled
CASES = [(1, 2), pytest.param(2, 4, id="two"), [3, 6]]
Row = namedtuple("Row", "given expected")
@pytest.mark.parametrize("given, expected", CASES)
def test_it(given, expected): assert doubled(given) == expected
@pytest.mark.parametrize(("given", "expected"), [Row(5, 10)])
def test_again(given, expected): assert doubled(given) == expected
"""


def test_the_rows_of_a_test_module_are_no_answers(pool):
    """
    Once pytest has taken its parameters from them, they say something else; the tests themselves do not.
    """
    reads = """
import sys
def doubled(given):
    for row in sys.modules["test_solution"].CASES:
        values = getattr(row, "values", row)
        if values[0] == given:
            return values[1]
    return 10
"""
    suite = Suite.from_code(READ_ROWS)

    assert run(pool, reads, suite).verdict == "failed"
    assert run(pool, "def doubled(given): return 2 * given", suite).verdict == "passed"


INSTRUMENTED = """
import time
from solution import Frozen, instrument
class Service:
    def answer(self): return 1
instrument(Service)
def test_it(): assert Service().answer() == 11
def test_another_method():
    instrument(Service)
    assert Service().answer() == 21
def test_frozen():
    frozen = Frozen(7)
    assert time.time() == 7
    frozen.end()
"""
INSTRUMENTS = """
import time
def instrument(kind):
    stock = kind.answer
    kind.answer = lambda self: stock(self) + 10
class Frozen:
    def __init__(self, at):
        self.stock, time.time = time.time, lambda: at
    def end(self):
        time.time = self.stock
"""


def test_what_a_suite_has_patched_by_the_submission_is_its_own_affair(pool):
    """
    A class that it hands over, or a clock that stands still until it says so: no twin ends in between.
    """
    for _ in range(6):
        report = run(pool, INSTRUMENTS, Suite.from_code(INSTRUMENTED))

        assert report.verdict == "passed", report


DESCENDANTS = """
import time
import pytest
import solution
from solution import *
class Child(Base):
    def answer(self): return 1
class User(metaclass=Upper):
    def hello(self): return "hi"
class Own:
    @remembered
    def answer(self): return 3
@pytest.fixture(scope="module", autouse=True)
def frozen():
    stock = solution.freeze(7)
    yield
    time.time = stock
def test_a_base_wraps_methods(): assert Child().answer() == 2
def test_a_base_adds_methods(): assert Child().more() == 5
def test_a_metaclass_wraps_methods(): assert User().hello() == "HI"
def test_a_descriptor_takes_its_own_place(): assert Own().answer() == 3 and Own().answer() == 3
def test_built_in_names_of_its_own(): assert max([1, 3]) == 3 and sorted("ba") == "ab"
@pytest.mark.parametrize("number", range(8))
def test_time_stands_still(number): assert time.time() == 7
"""
ANCESTORS = """
import time
def _plus(stock): return lambda self: stock(self) + 1
class Base:
    def __init_subclass__(cls):
        cls.answer = _plus(cls.answer)
        cls.more = lambda self: 5
class Upper(type):
    def __new__(kind, name, bases, space):
        stock = space["hello"]
        space["hello"] = lambda self: stock(self).upper()
        return super().__new__(kind, name, bases, space)
class remembered:
    def __init__(self, stock): self.stock = stock
    def __get__(self, found, kind):
        setattr(kind, self.stock.__name__, lambda found: self.stock(found))
        return self.stock.__get__(found, kind)
def freeze(at):
    stock, time.time = time.time, lambda: at
    return stock
def max(given): return given[-1]
def sorted(given): return "".join(reversed(given))
def isinstance(given): return given
def len(given): return 0
"""


def test_what_the_submission_makes_of_its_descendants_is_no_tampering(pool):
    """
    Bases, metaclasses and descriptors change the suite's classes; fixtures may stop the clock by the submission.
    """
    for _ in range(6):
        report = run(pool, ANCESTORS, Suite.from_code(DESCENDANTS))

        assert report.verdict == "passed", report


def test_a_clock_that_a_failed_test_leaves_behind_proves_nothing(pool):
    """
    It is wrong, and had no chance to put it back.
    """
    suite = Suite.from_code("import time, solution\ndef test(): assert solution.stop() == 7\n")
    report = run(pool, "import time\ndef stop():\n    time.time = lambda: 8\n    return time.time()\n", suite)

    assert report.verdict == "failed", report
    assert any("`time.time`" in told for told in report.integrity.suspicions)
