"""Suites that come again: compiled on this side, as their guests would have done it."""

from __future__ import annotations

import base64
import importlib.util
import marshal
import platform
from collections.abc import Iterator

import pytest

from harness import Report, Submission, Suite, verify, warm
from runners import suites

GUEST = {
    "python": platform.python_version(),
    "magic": importlib.util.MAGIC_NUMBER.hex(),
    "pytest": pytest.__version__,
    "folder": "/place",
}
SUITE = {"test_it.py": b"def test_it():\n    assert [1, 2] == [2, 1]\n", "helper.py": b"x = 1\n"}


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "_known", suites.OrderedDict())


def test_a_suite_is_compiled_when_it_comes_again():
    """
    What is seen only once costs nothing; of what comes again, the test modules are compiled, where they will stand.
    """
    assert suites.compiled(SUITE, GUEST) == {}

    code = suites.compiled(SUITE, GUEST)

    assert list(code) == ["test_it.py"]
    assert marshal.loads(base64.b64decode(code["test_it.py"])).co_filename == "/place/test_it.py"


@pytest.mark.parametrize(
    "other",
    [{"python": "3.9.1"}, {"magic": "00"}, {"pytest": "8.2.0"}, {"folder": None}],
    ids=lambda other: next(iter(other)),
)
def test_a_guest_that_would_compile_otherwise_gets_nothing(other):
    """
    Another Python or pytest makes other code of the same source.
    """
    suites.compiled(SUITE, {**GUEST, **other})

    assert suites.compiled(SUITE, {**GUEST, **other}) == {}


@pytest.mark.parametrize(
    "source", [b"def test_it(:", b"\0", b"# coding: nonsense\n", b"(" * 5000, b"x = 1\n" * 100_000], ids=range(5)
)
def test_what_cannot_be_compiled_is_left_to_the_guest(source):
    """
    It will tell what is wrong, as it does for every other suite.
    """
    suite = {"test_it.py": source}
    suites.compiled(suite, GUEST)

    assert suites.compiled(suite, GUEST) == {}


def test_what_is_known_is_bounded():
    """
    A million different suites do not stay in memory.
    """
    for number in range(suites.MOST + 10):
        suites.compiled({"test_it.py": b"x = %d" % number}, GUEST)

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
