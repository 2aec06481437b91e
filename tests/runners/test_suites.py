"""Suites that come again: compiled on this side, as their guests would have done it."""

from __future__ import annotations

import base64
import importlib.util
import marshal
import platform
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness import Environment, Report, Submission, Suite, verify, warm
from runners import suites
from runners.contract import Job

GUEST = {
    "python": platform.python_version(),
    "magic": importlib.util.MAGIC_NUMBER.hex(),
    "pytest": pytest.__version__,
    "folder": "/place",
    "direct": True,
}
SUITE = {"test_it.py": b"def test_it():\n    assert [1, 2] == [2, 1]\n", "helper.py": b"x = 1\n"}
SIMPLE = b"from solution import f\ndef test_it():\n    assert f() == [2, 1]\n"


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "_known", suites.OrderedDict())


def job_of(suite: dict[str, bytes] | bytes, **given: Any) -> Job:
    files = suite if isinstance(suite, dict) else {"test_it.py": suite}
    return Job({"solution.py": b""}, files, **{"seat": "separate", **given})


def test_a_suite_is_compiled_when_it_comes_again():
    """
    What is seen only once costs nothing; of what comes again, the test modules are compiled, where they will stand.
    """
    assert suites.compiled(job_of(SUITE), GUEST).codes == {}

    code = suites.compiled(job_of(SUITE), GUEST).codes

    assert list(code) == ["test_it.py"]
    assert marshal.loads(base64.b64decode(code["test_it.py"])).co_filename == "/place/test_it.py"


def test_a_simple_suite_is_compiled_at_once():
    """
    Its tests are called directly, and its guest may have no other use for the source.
    """
    first = suites.compiled(job_of(SIMPLE), GUEST)

    assert first.direct
    assert list(first.codes) == ["test_it.py"]


@pytest.mark.parametrize(
    "given",
    [
        {"seat": "in_process"},
        {"options": ("-x",)},
        {"workers": 2},
        {"seed": 7},
        {"environment": Environment(variables={"PYTEST_ADDOPTS": "-x"})},
        {"submission": {"other.py": b""}},
        {"suite": {"test_it.py": SIMPLE, "conftest.py": b""}},
        {"suite": {"test_it.py": SIMPLE, "pytest.ini": b""}},
        {"suite": {"tests/test_it.py": SIMPLE}},
        {"suite": {"checks.py": SIMPLE}},
    ],
    ids=str,
)
def test_what_is_said_beside_the_tests_is_for_pytest(given):
    """
    A simple module is called directly only if nothing else says how it is to be run.
    """
    job = replace(job_of(SIMPLE), **given)

    assert not suites.compiled(job, GUEST).direct
    assert not suites.compiled(job, GUEST).direct


def test_a_guest_with_plugins_that_we_do_not_know_runs_nothing_directly():
    """
    They may do anything with tests.
    """
    assert not suites.compiled(job_of(SIMPLE), {**GUEST, "direct": False}).direct


@pytest.mark.parametrize(
    "other",
    [{"python": "3.9.1"}, {"magic": "00"}, {"pytest": "8.2.0"}, {"folder": None}],
    ids=lambda other: next(iter(other)),
)
def test_a_guest_that_would_compile_otherwise_gets_nothing(other):
    """
    Another Python or pytest makes other code of the same source.
    """
    suites.compiled(job_of(SIMPLE), {**GUEST, **other})

    assert suites.compiled(job_of(SIMPLE), {**GUEST, **other}) == suites.Compiled()


@pytest.mark.parametrize(
    "source", [b"def test_it(:", b"\0", b"# coding: nonsense\n", b"(" * 5000, b"x = 1\n" * 100_000], ids=range(5)
)
def test_what_cannot_be_compiled_is_left_to_the_guest(source):
    """
    It will tell what is wrong, as it does for every other suite.
    """
    suites.compiled(job_of(source), GUEST)

    assert suites.compiled(job_of(source), GUEST) == suites.Compiled()


TALKATIVE = [
    rb"x = '\d'",
    rb"x = b'\u00e9'",
    b"x = 1or 2",
    b"def test(x): assert x is 1000",
    b"def test(x): assert (x, 'text')",
    b"def f(x): return 'a'(x)",
    b"def f(): return {1, 2}[0]",
]


@pytest.mark.parametrize("source", TALKATIVE, ids=range(len(TALKATIVE)))
def test_what_the_compiler_may_warn_of_is_left_to_the_guest(source):
    """
    The warning belongs to the job's report, and not to the terminal of whoever verifies.
    """
    with pytest.warns((SyntaxWarning, DeprecationWarning)):
        compile(source, "test_it.py", "exec")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [suites.compiled(job_of(source), GUEST) for _ in range(2)]

    assert found == [suites.Compiled(), suites.Compiled()]


def test_what_is_known_is_bounded():
    """
    A million different suites do not stay in memory.
    """
    for number in range(suites.MOST + 10):
        suites.compiled(job_of(b"x = %d" % number), GUEST)

    assert len(suites._known) == suites.MOST


@pytest.fixture(scope="module")
def reports() -> Iterator[list[Report]]:
    """The same failing job three times: compiled there, compiled here for it, and once more."""
    submission = Submission.from_code("def f(xs):\n    return sorted(xs)\n")
    suite = Suite.from_code("from solution import f\n\ndef test_sorts():\n    assert f([2, 1]) == [2, 1]\n")
    with warm("bubblewrap", size=1, freshness="fork") as pool:
        yield [verify(submission, suite, runner=pool) for _ in range(3)]


def test_a_compiled_suite_tells_the_same(reports: list[Report], bubblewrap_runner: object):
    """
    Outcomes, failures, their operands and places: as if it had been compiled in the sandbox.
    """
    told = [(each.reason, *[one.model_copy(update={"seconds": 0}) for one in each.failures]) for each in reports]

    assert "assert [1, 2] == [2, 1]" in told[0][0]
    assert told[1] == told[0] and told[2] == told[0]
