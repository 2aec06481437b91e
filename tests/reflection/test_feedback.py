"""What is said to the author of the code: that it helps, that it fits, and that nothing leaks."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import Case, Failure, Limits, Report, Submission, Suite, TestResult, verify, warm
from harness.models import Assertion, ErrorInfo, Frame, HypothesisInfo, Kind, Measurements, WarningInfo
from reflection import Conversation, code_with_reflection_sync
from reflection.feedback import BYTES_PER_TOKEN, Disclosure, feedback
from runners.pool import Pool

LEVELS: tuple[Disclosure, ...] = get_args(Disclosure)
LIMITS = Limits(test_seconds=1, wall_seconds=20)

SUBMISSION = Submission.from_code("""\
def half(number):
    print("halving", number)
    table = {2: 1}
    try:
        return table[number]
    except KeyError as exc:
        raise ValueError(f"cannot halve {number}") from exc

def twice(number):
    return number + 2

def spin(step):
    turns = 0
    while True:
        turns += step

def grind():
    while True:
        try:
            spin(1)
        except BaseException:
            pass
""")
SUITE = Suite.from_code(
    """\
import pytest
from hypothesis import given, strategies as st
from solution import half, twice

@pytest.mark.parametrize("number", [2, 40, 300, 5])
def test_twice(number):
    assert twice(number) == number * 2

def test_half():
    assert half(3) == 1.5

def test_half_again():
    assert half(55) == 27.5

@given(st.integers())
def test_any(number):
    assert twice(number) == number * 2

def test_arguments():
    assert twice(1, 2) == 3

def test_wants_an_error():
    with pytest.raises(ValueError):
        twice(1)

def test_long():
    assert [twice(n) for n in range(200)] == [twice(n) for n in range(199)] + [0]
""",
    cases=(Case(call="solution.twice", args=[8], expected=16),),
)
ENDLESS = Suite.from_code("""\
from solution import grind, spin

def test_spin():
    spin(7)

def test_grind():
    grind()
""")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with warm("bubblewrap", size=1, freshness="fork", limits=LIMITS) as ready:
        yield ready


@pytest.fixture(scope="module")
def report(pool: Pool) -> Report:
    """What a real sandbox made of a candidate with something wrong in every way."""
    return verify(SUBMISSION, SUITE, runner=pool)


@pytest.fixture(scope="module", params=["separate", "in_process"])
def stuck(pool: Pool, request: pytest.FixtureRequest) -> Report:
    """Of two tests that do not end, one of which does not let itself be stopped either; from both seats."""
    return verify(SUBMISSION, ENDLESS, runner=pool, limits=LIMITS, seat=request.param)


def section(said: str, title: str) -> str:
    """One numbered failure of the text, by a word of its first line."""
    parts = re.split(r"\n\n|\n(?=\d+\. )", said)
    return next(part for part in parts if title in part.splitlines()[0])


def failing(verdict: str = "failed", **more: Any) -> Report:
    nodeid = more.pop("nodeid", "t.py::test")
    failure = Failure(**{"nodeid": nodeid, "phase": "call", "kind": "exception", "message": "E: bad", **more})
    test = TestResult(nodeid=nodeid, outcome="failed")
    return Report(verdict=verdict, reason="1 of 1", tests=(test,), failures=(failure,))  # type: ignore[arg-type]


# --- what it says -------------------------------------------------------------


def test_it_begins_with_how_many_tests_pass(report):
    """
    The first line is the score.
    """
    assert feedback(report).splitlines()[0] == "1 of 11 tests pass."


@pytest.mark.parametrize(
    ("title", "evidence"),
    [
        ("test_half", "raised:    ValueError: cannot halve 3"),
        ("test_half", "because of KeyError: 3"),
        ("test_half", 'your code: solution.py:7 in half: raise ValueError(f"cannot halve {number}") from exc'),
        ("test_half", "locals:    number=3, table={2: 1}"),
        ("test_half", "test:      test_solution.py:10: assert half(3) == 1.5"),
        ("test_half", "stdout:    halving 3"),
        ("test_twice", "expected:  10"),
        ("test_twice", "got:       7"),
        ("test_twice", "where 7 = twice(5)"),
        ("test_any", "test_any(number=0) is the smallest input that fails"),
        ("test_arguments", "TypeError: twice() takes 1 positional argument but 2 were given"),
        ("test_wants_an_error", "expected:  ValueError to be raised"),
        ("case[0]", "solution.twice(8): returned 10, expected 16"),
    ],
)
def test_it_tells_what_an_engineer_would_say(report, title, evidence):
    """
    Each failure has what was expected, what came, for which input, where in the candidate's code, with its locals.
    """
    said = section(feedback(report, 100_000, submission=SUBMISSION), title)

    assert evidence in said


def test_a_timeout_is_told_with_where_it_was_stuck(stuck):
    """
    A test that does not end is told with the line, its source and its locals, even if it would not stop.
    """
    said = feedback(stuck, submission=SUBMISSION)

    assert said.startswith(
        "The code took too long: the limit is 1 seconds for one test, 20 for all. 0 of 2 tests pass."
    )
    assert re.search(r"solution\.py:\d+ in spin: (while True:|turns \+= step)", section(said, "test_spin"))
    assert "stuck at:  solution.py:" in section(said, "test_grind")
    if stuck.integrity and stuck.integrity.seat == "in_process":
        assert re.search(r"locals:    step=7, turns=\d+", section(said, "test_spin"))


def test_failures_with_one_cause_are_told_once_with_a_count(report):
    """
    Three parameters that fail at the same assertion are one failure, and so are two tests at one line of the code.
    """
    said = feedback(report, 100_000)

    assert "test_twice[5] fails, and 2 more in the same way (test_twice[40], test_twice[300])." in said
    assert "test_half fails with an exception, and 1 more in the same way (test_half_again)." in said


def test_long_values_are_cut_around_their_difference(report):
    """
    Of two long lists that differ at the end, the end is shown.
    """
    said = section(feedback(report, 100_000), "test_long")

    assert re.search(r"expected: +\[\d+ characters\] ….*199, 200, 0\]", said)
    assert re.search(r"got: +\[\d+ characters\] ….*199, 200, 201\]", said)


def test_nothing_of_the_sandbox_or_of_pytest_is_in_it(report, stuck):
    """
    Paths of the sandbox, frames of pytest, addresses and hints for a terminal help nobody.
    """
    said = feedback(report, 100_000) + feedback(stuck, 100_000)

    noise = ["/job", "site-packages", "_pytest", "pluggy", "reproof", "0x", "Use -v", "Falsifying"]
    assert not [word for word in noise if word in said]


@pytest.mark.parametrize("seat", ["separate", "in_process"])
@pytest.mark.parametrize("runner", ["bubblewrap", "process"])
def test_places_of_the_sandbox_are_told_as_the_author_knows_them(runner, seat):
    """
    The workspace is the current folder, and what is temporary is in /tmp, wherever they really are.
    """
    code = """
        import os, tempfile
        def here(): raise ValueError(os.getcwd())
        def mine(): raise ValueError(os.path.abspath("data/x.txt"))
        def scratch(): raise ValueError(tempfile.gettempdir())
        def read(path): return open(path)
    """
    tests = """
        from solution import here, mine, read, scratch
        def test_here(): here()
        def test_mine(): mine()
        def test_scratch(): scratch()
        def test_read(tmp_path): read(str(tmp_path / "y.txt"))
    """
    submission, suite = Submission.from_code(textwrap.dedent(code)), Suite.from_code(textwrap.dedent(tests))

    said = feedback(verify(submission, suite, runner=runner, seat=seat), 100_000)

    assert "ValueError: .\n" in said and "ValueError: data/x.txt\n" in said and "ValueError: /tmp\n" in said
    assert re.search(r"Error: .*'/tmp/pytest-of-.*y\.txt'", section(said, "test_read"))
    assert "/job" not in said and "reproof-" not in said


def test_hints_for_a_terminal_are_left_out(pool):
    """
    What pytest would say with another option is of no use to who cannot give it.
    """
    suite = Suite.from_code(
        "from solution import f\ndef test_dict(): assert f() == {'a': 1, 'b': 3}\n"
        "def test_list(): assert list(f()) == ['a', 'c']\n"
    )
    report = verify(Submission.from_code("def f(): return {'a': 1, 'b': 2}"), suite, runner=pool, seat="in_process")

    said = feedback(report)

    assert "-v" not in said and "{'b': 2} != {'b': 3}" in said


def test_a_regression_is_named_and_comes_first(pool):
    """
    A test that an earlier attempt passed says so, before failures that are older.
    """
    suite = Suite.from_code(
        "from solution import f, g\ndef test_f(): assert f() == 1\n"
        "def test_g(): assert g() == 1\ndef test_h(): assert g() == 2"
    )
    first = verify(Submission.from_code("f = lambda: 0\ng = lambda: 1"), suite, runner=pool)
    second = verify(Submission.from_code("f = lambda: 0\ng = lambda: 0"), suite, runner=pool)

    said = feedback(second, previous=[first])

    assert "1. test_solution.py::test_g fails.\n   It passed in attempt 1 and fails now." in said
    assert said.splitlines()[0] == "0 of 3 tests pass. Since the last attempt 1 test no longer passes."


def test_no_progress_is_said(report):
    """
    An attempt that changes nothing is told so.
    """
    assert "The same tests pass as in the last attempt." in feedback(report, previous=[report])


def test_out_of_memory_comes_with_the_peak(pool):
    """
    Too much memory is told with the limit and with what was measured.
    """
    limits = Limits(memory_mb=128, wall_seconds=20)
    hungry = Submission.from_code("def f():\n    kept = []\n    while True:\n        kept.append(bytearray(1 << 20))")
    suite = Suite.from_code("from solution import f\ndef test_f(): f()")
    report = verify(hungry, suite, runner="bubblewrap", limits=limits)

    said = feedback(report)

    assert re.match(r"The code used too much memory: the limit is 128 MB, and \d+ MB were measured\.", said)


@pytest.mark.parametrize(
    ("code", "beginning"),
    [
        ("def f(:", "The code could not be loaded: it has a syntax error. No test was run."),
        ("import nowhere", "The code could not be loaded: an import fails. No test was run."),
        ("def f(): return 1", "All 1 tests pass."),
    ],
)
def test_how_the_run_ended_comes_first(pool, code, beginning):
    """
    A verdict other than a failed test is explained in words.
    """
    suite = Suite.from_code("from solution import f\ndef test_f(): assert f() == 1")

    said = feedback(verify(Submission.from_code(code), suite, runner=pool))

    assert said.startswith(beginning)


def test_what_keeps_everything_from_running_comes_first():
    """
    An error in loading the code stands before failures of tests.
    """
    ran = Failure(nodeid="t.py::test", phase="call", kind="exception", message="E")
    loaded = Failure(nodeid="u.py", phase="collect", kind="syntax", message="SyntaxError: bad", place="solution.py:3")

    said = feedback(Report(verdict="broken", reason="", failures=(ran, ran, loaded)))

    assert said.index("u.py cannot be loaded: syntax error") < said.index("t.py::test fails")


@pytest.mark.parametrize("seat", ["separate", "in_process"])
def test_a_test_that_ends_the_process_is_told_as_such(pool, seat):
    """
    Code that ends the process is told so, in no words of the machinery that noticed.
    """
    suite = Suite.from_code("from solution import f\ndef test_f(): assert f() == 1")
    report = verify(Submission.from_code("import os\ndef f(): os._exit(3)"), suite, runner=pool, seat=seat)

    said = feedback(report)

    assert "the code ended or crashed the process" in said or "was ended by the code itself" in said
    assert "CandidateLost" not in said


def test_a_syntax_error_of_the_code_is_told_at_io(pool):
    """
    Python's words on the submission's own text hold nothing of the suite.
    """
    submission = Submission.from_code("def f():\n    return [\n")
    report = verify(submission, Suite.from_code("from solution import f\ndef test_f(): f()"), runner=pool)

    said = feedback(report, disclose="io", submission=submission)

    assert "raised:    SyntaxError: '[' was never closed" in said and "your code: solution.py:2: return [" in said


def test_a_syntax_error_that_the_suite_raises_is_the_suites(pool):
    """
    It comes through the code, and is not about it: at `io` its words stay with the suite.
    """
    submission = Submission.from_code("def f(call):\n    return call()\n")
    tests = "from solution import f\ndef call(): raise SyntaxError('ZQFtext')\ndef test_f(): f(call)"
    report = verify(submission, Suite.from_code(tests), runner=pool, seat="in_process")

    assert "ZQF" not in feedback(report, disclose="io", submission=submission)


def test_an_invalid_report_is_not_for_the_author():
    """
    Where we could not find out, there is nothing to tell the model.
    """
    with pytest.raises(ValueError, match="invalid"):
        feedback(Report(verdict="invalid", reason="the engine is gone"))


@pytest.mark.parametrize("wrong", [{"budget": 0}, {"disclose": "some"}])
def test_a_wrong_option_is_named(report, wrong):
    """
    No budget and no such level are errors that name the option.
    """
    with pytest.raises(ValueError, match=next(iter(wrong))):
        feedback(report, **wrong)


# --- the budget ---------------------------------------------------------------


@given(budget=st.integers(1, 8_000), level=st.sampled_from(LEVELS), tokens=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_it_fits_every_budget(report, budget, level, tokens):
    """
    Characters and tokens are never more than was allowed.
    """
    said = feedback(report, budget, disclose=level, tokens=tokens)

    assert (len(said.encode()) <= budget * BYTES_PER_TOKEN) if tokens else (len(said) <= budget)


def test_what_does_not_fit_is_dropped_in_order_and_named(report):
    """
    First goes what tells least, and the last line says what went.
    """
    whole = feedback(report, 100_000)
    most = feedback(report, len(whole) - 1)
    some = feedback(report, 1_500)
    least = feedback(report, 60)

    assert "left out" not in whole
    assert most.splitlines()[-1].startswith("[left out for brevity: printed output")
    assert "printed output; " in some.splitlines()[-1] and "stdout:" not in some
    assert "raised:    ValueError: cannot halve 3" in some
    assert least == "1 of 11 tests pass.\n\n[the rest is left out for brevity]"


def test_more_room_never_tells_of_fewer_failures(report):
    """
    The failures in a text of a smaller budget are in that of a larger one, too.
    """
    told = [len(re.findall(r"^\d+\. ", feedback(report, budget), re.MULTILINE)) for budget in range(100, 4_000, 100)]

    assert told == sorted(told)


def test_a_thousand_failures_are_told_by_the_first_and_a_count():
    """
    Failures that do not fit are counted.
    """
    failures = [
        Failure(nodeid=f"t.py::test_{n}", phase="call", kind="exception", message="E", place=f"s.py:{n}")
        for n in range(1_000)
    ]

    said = feedback(Report(verdict="failed", reason="", failures=tuple(failures)), 600)

    shown = len(re.findall(r"^\d+\. ", said, re.MULTILINE))
    assert shown > 3
    assert said.endswith(f"{1_000 - shown} more failures]")


# --- what must not leak -------------------------------------------------------
#
# A secret is a word that carries the level it needs: ZQN… a name, ZQI… an input or an expected
# value, ZQF… everything else of the suite. Numbers are 8021… and 8022….

MARKS = {"names": ("zqn",), "io": ("zqi", "8021"), "full": ("zqf", "8022")}


def leaks(said: str, level: Disclosure) -> list[str]:
    above = LEVELS[LEVELS.index(level) + 1 :]
    return [mark for name in above for mark in MARKS[name] if mark in said.lower()]


WORDS = st.sampled_from(("a", "bc", "def"))
NAME = WORDS.map(lambda word: f"ZQN{word}")
GIVEN = WORDS.map(lambda word: f"ZQI{word}")
FULL = WORDS.map(lambda word: f"ZQF{word}")
VALUE = st.one_of(
    GIVEN.map(repr),
    st.integers(80_210_000, 80_219_999).map(str),
    GIVEN.map(lambda word: repr([word, {word: (word,)}])),
)

# Tests that fail by themselves or through the candidate, each with secrets where a suite has them.
# {n} a name, {v} {w} inputs and expected values, {f} {g} what only `full` may tell.
SHAPES = (
    "def test_{n}():\n    '''{f}'''\n    {f} = {v}  # {g}\n    print('{g}')\n    assert echo({f}) == {w}, '{g} said'",
    "@pytest.mark.parametrize('p', [{v}, {w}])\ndef test_{n}(p):\n    assert fails(p) == {w}",
    "def test_{n}():\n    with pytest.raises(ValueError, match=str({v})):\n        fails({w})",
    "def test_{n}():\n    with pytest.raises(KeyError):\n        echo({v})",
    "def test_{n}():\n    raise RuntimeError('{f} %s' % echo({v}))",
    "class {f}(Exception):\n    pass\n\ndef test_{n}():\n    raise {f}('{g}')",
    "def test_{n}():\n    try:\n        fails({v})\n    except ValueError as exc:\n"
    "        raise RuntimeError('{f}') from exc",
    "def {f}(given, {g}):\n    return echo(given)\n\ndef test_{n}():\n    assert {f}({v}, {g}=1) == {w}",
    "def {f}(given, {g}):\n    return echo(given)\n\ndef test_{n}():\n    assert {f}(80210000, {g}=1) == 80210001",
    "class Test_{n}(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(echo({v}), {w}, '{f}')",
    "class Test_{n}(unittest.TestCase):\n    def test_it(self):\n        with self.subTest('{f}', p={v}):\n"
    "            self.assertEqual(echo({v}), {w})",
    "def test_{n}():\n    warnings.warn('{f}')\n    logging.warning('{g}')\n    assert not echo({v})",
    "@pytest.mark.skip(reason='{f}')\ndef test_{n}():\n    pass",
    "@pytest.mark.xfail(reason='{f}')\ndef test_{n}():\n    assert echo({v}) == {w}",
    "@pytest.fixture\ndef {f}():\n    raise LookupError('{g}')\n\ndef test_{n}({f}):\n    pass",
    "@given(st.sampled_from([{v}, {w}]))\ndef test_{n}(p):\n    assert echo(p) is None, '{f}'",
    "def test_{n}():\n    assert echo({v})[80220000:] == {w}",
    "def test_{n}():\n    int('{f}')",
    "def test_{n}():\n    {f} = {v}\n    assert {f} in [{w}], '{g}\\nassert {f}\\n +  where 1 = f(\"{f}\")'",
    "def test_{n}():\n    assert echo({v}, ZQIkeyword={w})",
    "def test_{n}():\n    try:\n        raise KeyError('{f}')\n    except KeyError:\n        fails({v})",
    "def test_{n}():\n    raise ExceptionGroup('{f}', [ValueError('{g}')])",
    "def test_{n}():\n    pytest.fail('{f}')",
    "def test_{n}():\n    None.{f}({v})",
    "def test_{n}():\n    (lambda {f}: 1)()",
    "def test_{n}():\n    import {f}",
    "def test_{n}():\n    {f}",
    "def test_{n}():\n    assert echo({v}) == 1 == {w}",
)
HEADER = (
    "import logging, pytest, unittest, warnings\nfrom hypothesis import given, strategies as st\n"
    "from solution import *\n"
)
CONFTEST = "def pytest_assertrepr_compare(op, left, right):\n    return ['ZQFown explanation', 'ZQFmore']\n"
CANDIDATES = (
    "def echo(x): return x\ndef fails(x): raise ValueError(f'bad {x}')",
    "def echo(x):\n    seen = [x]\n    print(seen)\n    raise KeyError(x)\ndef fails(x): return x",
    "import warnings, sys\ndef echo(x):\n    warnings.warn(str(x))\n    print(x, file=sys.stderr)\n    return None\n"
    "def fails(x):\n    try:\n        raise ValueError(x)\n"
    "    except ValueError as exc:\n        exc.add_note(str(x))\n        raise",
    "import os\ndef echo(x): os._exit(3)\ndef fails(x): return x",
    "def echo(x): return echo(x)\ndef fails(x): return [x, x]",
    "import nowhere",
    "def echo(x:",
)
# Has read the suite and tells all it knows, in every way that reaches a report.
SPILLS = """\
import glob, os, sys, warnings
TEXT = "".join(open(path).read() for path in glob.glob("**/*.py", recursive=True) if path != "solution.py")
WORDS = st.sampled_from(("a", "bc", "def"))
def spill(x):
    known = TEXT
    print(TEXT)
    print(TEXT, file=sys.stderr)
    warnings.warn(TEXT)
    kind = type("_".join(WORDS) or "X", (Exception,), {{}})
    exc = kind(TEXT)
    exc.add_note(TEXT)
    space = {{"exc": exc}}
    name = (WORDS or ["x"])[-1]
    code = compile(f"def {{name}}():\\n raise exc\\n{{name}}()", os.path.abspath(name + ".py"), "exec")
    exec(code, space)
echo = fails = spill
{at_import}
"""


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Suite, str]:
    """A suite with secrets in every place, and a candidate that is wrong in one way or another."""
    tests = []
    for number, shape in enumerate(draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=6))):
        words = {
            "n": f"{draw(NAME)}{number}",
            "f": draw(FULL),
            "g": draw(FULL) + "g",
            "v": draw(VALUE),
            "w": draw(VALUE),
        }
        tests.append(shape.format(**words))
    files = {f"{draw(NAME)}/test_{draw(NAME)}.py": HEADER + "\n\n".join(tests)}
    if draw(st.booleans()):
        files["conftest.py"] = CONFTEST
    cases = []
    if draw(st.booleans()):
        given, expected = draw(GIVEN), draw(GIVEN)
        cases.append(Case(call="solution.echo", args=[given], expected=expected + "x", name=draw(NAME)))
        cases.append(Case(call="solution.fails", args=[given], raises="ZQIerror", match=expected))
        cases.append(Case(program="solution.py", stdin=given, stdout=expected))
    return Suite.from_files(files, cases=tuple(cases)), draw(st.sampled_from(CANDIDATES))


@given(job=jobs(), budget=st.sampled_from([300, 2_000, 100_000]))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_secret_of_a_suite_that_was_really_run_is_told_below_its_level(pool, job, budget):
    """
    Names, inputs, expected values, messages, locals and output of a suite stay above the level of disclosure.
    """
    suite, code = job
    submission = Submission.from_code(code)
    report = verify(submission, suite, runner=pool, limits=LIMITS)

    assert report.verdict != "invalid"
    for level in LEVELS:
        for known in (None, submission):
            said = feedback(report, budget, disclose=level, previous=[report], submission=known)
            assert not leaks(said, level), (level, said)


@given(job=jobs(), at_import=st.sampled_from(["", "spill(1)", "raise SystemExit(TEXT)", "print(TEXT); os._exit(3)"]))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_candidate_that_has_read_the_suite_cannot_tell_the_next_attempt(pool, job, at_import):
    """
    Below the level that shows what came out of a test, nothing that the candidate wrote is told.
    """
    suite, _ = job
    submission = Submission.from_code(SPILLS.format(at_import=at_import))
    report = verify(submission, suite, runner=pool, limits=LIMITS)

    assert report.verdict != "invalid"
    for level in ("count", "names"):
        said = feedback(report, 100_000, disclose=level, previous=[report], submission=submission)
        assert not leaks(said, level), (level, said)


@given(job=jobs(), level=st.sampled_from(LEVELS), strategy=st.sampled_from(["plain", "reflexion"]))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_that_reaches_a_generator_holds_a_secret_above_the_level(pool, job, level, strategy):
    """
    The whole conversation of the loop, and not its words alone, keeps what is hidden.
    """
    hidden, code = job
    asked: list[str] = []

    def generator(conversation: Conversation) -> str:
        asked.append(repr(conversation))
        return f"```python\n{code}\n# {len(asked)}\n```"

    public = Suite.from_code("def test_public(): pass")
    options = {"hidden": hidden, "disclose": level, "strategy": strategy, "runner": pool, "limits": LIMITS}
    code_with_reflection_sync("Write it.", public, generator, **options)

    assert asked
    assert not [told for told in asked if leaks(told, level)]


def test_a_stuck_candidate_tells_no_secret(pool):
    """
    The stack of a test that would not stop names the test and its helpers at no level that may not.
    """
    code = (
        "def spin(x):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass"
    )
    tests = "from solution import spin\ndef ZQFhelper(): spin('ZQIvalue')\ndef test_ZQNname(): ZQFhelper()"
    submission = Submission.from_code(code)
    report = verify(submission, Suite.from_code(tests), runner=pool, limits=LIMITS)

    said = {level: feedback(report, disclose=level, submission=submission) for level in LEVELS}

    assert report.verdict == "timeout"
    assert not [level for level in LEVELS if leaks(said[level], level)]
    assert "stuck at:  solution.py:" in said["io"] and "ZQFhelper" in said["full"]


def test_a_wrong_signature_is_told_but_not_the_suites_own(pool):
    """
    At `io`, Python's words on a call of the candidate's function are told; those on a helper of the suite are not.
    """
    submission = Submission.from_code("def f(x): return x")
    tests = "from solution import f\ndef ZQFhelper(x): pass\ndef test_a(): f(1, 2)\ndef test_b(): ZQFhelper(1, 2)"
    report = verify(submission, Suite.from_code(tests), runner=pool)

    said = feedback(report, disclose="io", submission=submission)

    assert "TypeError: f() takes 1 positional argument but 2 were given" in said
    assert "ZQF" not in said and section(said, "test_b").endswith("raised:    TypeError")


def test_a_name_that_the_candidate_chose_is_not_told():
    """
    A doctest is named by the code that it stands in: below `io` only its file is told.
    """
    report = failing(nodeid="solution.py::solution.__test__.ZQFtext")

    assert "1. a test of solution.py fails" in feedback(report, disclose="names")


def test_arguments_are_told_but_not_the_names_of_helpers(pool):
    """
    At `io`, what went into a call is told, and the name of what was called if it is the candidate's own.
    """
    submission = Submission.from_code("def f(x, key): return x")
    tests = (
        "from solution import f\ndef ZQFhelper(x, ZQFkey): return x\n"
        "def test_a(): assert f(4, key=5) == 6\ndef test_b(): assert ZQFhelper(7, ZQFkey=8) == 9"
    )
    report = verify(submission, Suite.from_code(tests), runner=pool)

    said = feedback(report, disclose="io", submission=submission)

    assert "input:     f(4, key=5) returned 4" in section(said, "test_a")
    assert "input:     a call with (7, 8) returned 7" in section(said, "test_b")


def test_a_message_that_looks_like_an_explanation_is_a_message():
    """
    What stands before pytest's own `assert` is the suite's text, whatever it looks like.
    """
    message = "ZQFtext\nassert 1\n +  where 1 = f('ZQFother')\nassert 2 == 3\n +  where 2 = f(7)"
    report = failing(kind="assertion", exception=ErrorInfo(type="AssertionError", message=message))

    said = feedback(report, disclose="io")

    assert "a call with (7) returned 2" in said and "ZQF" not in said


def test_each_level_tells_what_it_promises(pool):
    """
    The secrets are not merely lost: each appears at its own level.
    """
    tests = HEADER + SHAPES[0].format(n="ZQNa", f="ZQFb", g="ZQFc", v="'ZQId'", w="'ZQIe'")
    report = verify(Submission.from_code(CANDIDATES[0]), Suite.from_code(tests), runner=pool)

    said = {level: feedback(report, disclose=level) for level in LEVELS}

    assert said["count"] == "0 of 1 tests pass."
    assert "ZQNa" in said["names"]
    assert all(word in said["io"] for word in ("ZQNa", "ZQId", "ZQIe"))
    assert all(word in said["full"] for word in ("ZQNa", "ZQId", "ZQIe", "ZQFc said"))


# --- the same with reports that were made up, for breadth ---------------------

EXPLAINED = "{0}\n +  where 1 = {0}('{0}')\nassert {0}\n  {0} +  where {0}"
WORKSPACE = "/job" + "/work" + "/"
PATHS = st.sampled_from(["solution.py", "pkg/mod.py"])


@st.composite
def frames(draw: st.DrawFn, owner: str) -> Frame:
    if owner == "submission":
        kept = draw(st.dictionaries(FULL, FULL, max_size=3))
        return Frame(
            path=draw(PATHS),
            line=draw(st.integers(1, 9)),
            function="f",
            source=draw(FULL),
            owner="submission",
            locals=kept,
        )
    return Frame(path=draw(FULL), line=80_220_000, function=draw(FULL), source=draw(FULL), owner=owner)  # type: ignore[arg-type]


@st.composite
def errors(draw: st.DrawFn, depth: int = 0) -> ErrorInfo:
    """An exception: the candidate's own may hold inputs, the suite's anything."""
    by_candidate = draw(st.booleans())
    last = draw(st.sampled_from(["submission", "library"])) if by_candidate else "suite"
    owners = [*draw(st.lists(st.sampled_from(["suite", "submission", "library"]), max_size=3))]
    owners += ["submission", last] if by_candidate else ["suite"]
    word = GIVEN if by_candidate else FULL
    return ErrorInfo(
        type=draw(st.one_of(word, st.sampled_from(["ValueError", "AssertionError", "Failed", "TypeError"]))),
        module=draw(FULL),
        message=draw(st.one_of(word, word.map(EXPLAINED.format), st.just(""))),
        notes=tuple(draw(st.lists(FULL, max_size=2))),
        cause=draw(st.none() | errors(depth + 1)) if depth < 2 else None,
        explicit_cause=draw(st.booleans()),
        group=tuple(draw(st.lists(errors(depth + 1), max_size=2))) if depth < 2 else (),
        frames=tuple(draw(frames(owner)) for owner in owners),
    )


@st.composite
def made_up_failures(draw: st.DrawFn) -> Failure:
    error = draw(st.none() | errors())
    compared = st.builds(Assertion, operator=st.just("=="), left=GIVEN, right=GIVEN, diff=FULL, explanation=FULL)
    return Failure(
        nodeid=draw(
            st.one_of(st.builds("{}.py::test_{}[{}-x]".format, NAME, NAME, GIVEN), st.builds("{}.py".format, NAME))
        ),
        phase=draw(st.sampled_from(["collect", "setup", "call", "teardown"])),
        kind=draw(st.sampled_from(get_args(Kind))),
        message=draw(FULL),
        exception=error,
        assertion=draw(st.none() | compared),
        frames=error.frames if error else (),
        place=draw(st.none() | st.just("solution.py:2")),
        test_place=draw(st.none() | FULL.map("{}.py:3".format)),
        hypothesis=draw(st.none() | st.builds(HypothesisInfo, example=GIVEN, seed=st.just(80_220_001))),
        subtest=draw(st.none() | GIVEN.map("(i={})".format) | FULL.map("[{}] (i=1)".format)),
        stack=draw(
            st.none() | FULL.map(f'  File "{WORKSPACE}{{0}}.py", line 80220000 in {{0}}\n  File "{{0}}"'.format)
        ),
        stdout=draw(FULL),
        stderr=draw(FULL),
        log=draw(FULL),
        warnings=tuple(
            draw(st.lists(st.builds(WarningInfo, category=FULL, message=FULL, path=FULL, nodeid=NAME), max_size=2))
        ),
    )


@st.composite
def made_up_reports(draw: st.DrawFn) -> Report:
    failures = draw(st.lists(made_up_failures(), max_size=4))
    outcomes = st.sampled_from(["passed", "failed", "error", "skipped", "xfailed", "xpassed", "timeout", "not_run"])
    tests = [TestResult(nodeid=failure.nodeid, outcome="failed", reason=draw(FULL)) for failure in failures]
    more = st.builds(TestResult, nodeid=st.builds("{}.py::test[{}]".format, NAME, GIVEN), outcome=outcomes, reason=FULL)
    verdicts = ["passed", "failed", "broken", "timeout", "out_of_memory", "crashed", "limit", "tampered", "no_tests"]
    return Report(
        verdict=draw(st.sampled_from(verdicts)),  # type: ignore[arg-type]
        reason=draw(FULL),
        tests=(*tests, *draw(st.lists(more, max_size=3))),
        failures=tuple(failures),
        warnings=tuple(draw(st.lists(st.builds(WarningInfo, category=FULL, message=FULL), max_size=2))),
        notes=tuple(draw(st.lists(FULL, max_size=2))),
        output=draw(FULL),
        measurements=Measurements(peak_memory_mb=80_210_000),
    )


@given(
    report=made_up_reports(),
    previous=st.lists(made_up_reports(), max_size=2),
    budget=st.sampled_from([30, 300, 3_000, 100_000]),
    submission=st.none() | st.just(Submission.from_files({"solution.py": "def f():\n    pass\n"})),
)
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_field_of_a_report_is_told_below_its_level(report, previous, budget, submission):
    """
    Whatever stands in whichever field, each level tells only what the table in `disclosure.py` gives it.
    """
    for level in LEVELS:
        said = feedback(report, budget, disclose=level, previous=previous, submission=submission)
        assert not leaks(said, level), (level, said)
        assert len(said) <= budget


def test_the_example_of_the_documentation_is_real(tmp_path):
    """
    What docs/feedback.md shows is what its example prints.
    """
    text = (Path(__file__).parents[2] / "docs" / "feedback.md").read_text("utf-8")
    code, shown = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)[:2]
    (tmp_path / "pyproject.toml").write_text('[tool.reproof]\nrunner = "bubblewrap"\n')

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout == shown, done.stderr
