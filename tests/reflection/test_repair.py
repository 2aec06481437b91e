"""The repairer: which mutants there are, where it looks first, what it may know."""

from __future__ import annotations

import ast
import contextlib
import itertools
from pathlib import Path

import pytest

import reflection
from harness import Limits, Submission, Suite
from reflection import Conversation, Exhausted, Message, RepairGenerator, Turn, code_with_reflection
from reflection.disclosure import Comparison, Disclosed, Finding
from reflection.repair.clues import read_clues
from reflection.repair.mutants import mutations
from reflection.repair.search import _Search
from reflection.repair.source import Source, parsed


def source(text: str) -> Source:
    tree = parsed(text)
    assert tree is not None
    return Source(text, tree)


def mutants(text: str) -> set[str]:
    program = source(text)
    found = (program.edited(mutation) for mutation in mutations(program, {}))
    return {ast.unparse(mutant.tree) for mutant in found if mutant is not None}


def told(*findings: Finding, passed: int = 0) -> Disclosed:
    return Disclosed(verdict="failed", limits=Limits(), passed=passed, total=3, findings=findings)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("def f(a, b):\n    return a < b", "def f(a, b):\n    return a <= b"),
        ("def f(a, b):\n    return a - b", "def f(a, b):\n    return a + b"),
        ("def f(a, b):\n    return a - b", "def f(a, b):\n    return b - a"),
        ("def f(a):\n    return a[0]", "def f(a):\n    return a[1]"),
        ("def f(n):\n    return list(range(n))", "def f(n):\n    return list(range(n + 1))"),
        ("def f(a, b):\n    return max(a, b)", "def f(a, b):\n    return min(a, b)"),
        ("def f(a, b):\n    return a and b", "def f(a, b):\n    return a or b"),
        ("def f(x):\n    yield f(x)", "def f(x):\n    yield from f(x)"),
        ("def f(x):\n    return True", "def f(x):\n    return False"),
        ("def f(x, y):\n    return g(x, y)", "def f(x, y):\n    return g(y, x)"),
        ("def f(xs):\n    while True:\n        xs.pop()", "def f(xs):\n    while xs:\n        xs.pop()"),
        ("def f(n, k):\n    return f(n, k)", "def f(n, k):\n    return f(n - 1, k)"),
        ("def f(n):\n    return []", "def f(n):\n    return [n]"),
        ("def f(a):\n    if a.x == 1:\n        return 2", "def f(a):\n    if a is None or a.x == 1:\n        return 2"),
        ("def f(x):\n    y = x\n    y = 2 * y", "def f(x):\n    y = x\n    y = 2 * y\n    return y"),
        (
            "def f(xs):\n    n = 0\n    for x in xs:\n        n += x\n        print(n)",
            "def f(xs):\n    n = 0\n    for x in xs:\n        n += x\n        print(n)\n        n = 0",
        ),
        (
            "def f(x):\n    a = []\n    b = []\n    while x:\n        a.append(x)\n    return b",
            "def f(x):\n    a = []\n    b = []\n    while x:\n        a.append(x)\n        b.append(x)\n    return b",
        ),
    ],
    ids=[
        "boundary",
        "operator",
        "swapped operands",
        "index",
        "range",
        "sibling",
        "and/or",
        "yield from",
        "constant",
        "swapped arguments",
        "endless loop",
        "recursion",
        "base value",
        "guard",
        "missing return",
        "missing reset",
        "missing call",
    ],
)
def test_the_classic_slips_are_among_the_mutants(wrong, right):
    """
    For each of them there is an edit that undoes it.
    """
    assert ast.unparse(ast.parse(right)) in mutants(wrong)


@pytest.mark.parametrize("name", ["prompts.py", "patches.py", "repair/slices.py"])
def test_an_edit_changes_what_it_says_and_nothing_else(name):
    """
    What stands before and behind an edit is the same byte for byte, comments and all.
    """
    program = source((Path(reflection.__file__).parent / name).read_text("utf-8"))
    old = program.text.encode()

    for mutation in itertools.islice(mutations(program, {}), 0, None, 97):
        mutant = program.edited(mutation)
        if mutant is not None:
            new = mutant.text.encode()
            assert new.startswith(old[: mutation.start]) and new.endswith(old[mutation.end :])
            assert mutation.text in mutant.text


def start(code: str, disclosed: Disclosed) -> tuple[Turn, ...]:
    return (Turn(Submission.from_code(code), (disclosed,), "told"),)


def edits(search: _Search, count: int) -> list[str]:
    return [search.next()[1] for _ in range(count)]


TWO_FUNCTIONS = "def one(a, b):\n    return a < b\n\ndef two(a, b):\n    return a > b\n"


@pytest.mark.parametrize("line", [2, 5])
def test_it_looks_first_where_the_code_failed(line):
    """
    The first edits are on the line that the traceback names.
    """
    search = _Search()
    search.learn(start(TWO_FUNCTIONS, told(Finding("t", "exception", raised="TypeError", place=f"solution.py:{line}"))))

    assert all(edit.startswith(f"solution.py:{line}:") for edit in edits(search, 3))


def test_symptoms_decide_what_is_tried_first():
    """
    A result in the wrong order speaks for swapped operands, one that is one off for counting.
    """
    code = "def f(a, b):\n    return a + b[0]\n"
    firsts = []
    for got, expected in (("'ab'", "'ba'"), ("4", "5")):
        search = _Search()
        search.learn(start(code, told(Finding("t", "assertion", compared=Comparison("==", got, expected)))))
        firsts.append(edits(search, 2))

    assert any("b[0] + a" in edit for edit in firsts[0])
    assert any("1" in edit.partition("→")[2] for edit in firsts[1])
    assert firsts[0] != firsts[1]


def test_nothing_is_learned_from_a_count_but_the_count():
    """
    At the level `count`, two reports that differ in all that is not told give the same search.
    """
    clues = read_clues([told()], {"solution.py": source(TWO_FUNCTIONS)})

    assert not clues.lines and not clues.operators and not clues.kinds


def test_no_program_is_tried_twice():
    """
    Mutants that are the same program in another form count as one.
    """
    search = _Search()
    search.learn(start("def f(a, b):\n    return a + b\n", told()))
    seen = []

    with contextlib.suppress(Exhausted):
        while True:
            submission, _ = search.next()
            seen.append(ast.dump(ast.parse(submission.files["solution.py"])))

    assert len(seen) == len(set(seen)) > 5


def test_a_mutant_that_passes_more_is_mutated_further():
    """
    The second edit of a program that has two faults stands on the first.
    """
    search = _Search()
    turns = start("def f(a, b):\n    return a - b < 0\n", told(passed=1))
    search.learn(turns)
    better, _ = search.next()
    search.learn((*turns, Turn(better, (told(passed=2),), "told")))

    later = [search.next()[0].files["solution.py"].decode() for _ in range(60)]

    first = better.files["solution.py"].decode()
    assert any(_differences(first, mutant) == 1 and mutant != first for mutant in later)


def _differences(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one.splitlines(), other.splitlines(), strict=False))


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ((), "needs a program to start from"),
        (start("def f(:\n", told()), "no file that parses"),
        (start("x = " + "-" * 5_000 + "1\n", told()), "no file that parses"),
    ],
    ids=["nothing", "no Python", "too deep"],
)
async def test_what_cannot_be_mended_is_said(turns, reason):
    """
    Without a program, or with one that does not parse, there is nothing to search.
    """
    conversation = Conversation(task="", messages=(Message("user", ""),), turns=turns)

    with pytest.raises(Exhausted, match=reason):
        await RepairGenerator().generate(conversation)


SUITE = Suite.from_code("""\
import pytest
from solution import total

@pytest.mark.parametrize(("numbers", "sum"), [([], 0), ([1], 1), ([1, 2, 3], 6)])
def test_total(numbers, sum):
    assert total(numbers) == sum
""")
BUGGY = """\
def total(numbers):
    # adds them up
    result = 0
    for number in numbers[1:]:
        result += number
    return result
"""


@pytest.mark.parametrize("level", ["full", "count"])
async def test_it_mends_a_program_in_the_loop(level):
    """
    With all feedback and with next to none; what is not the fault is left as it was.
    """
    result = await code_with_reflection(
        "Mend it.",
        SUITE,
        RepairGenerator(),
        start=Submission.from_code(BUGGY),
        disclose=level,
        max_iterations=60,
        runner="bubblewrap",
    )

    assert result.passed
    assert "# adds them up" in result.submission.files["solution.py"].decode()


async def test_a_search_that_is_resumed_does_not_begin_again(bubblewrap_runner, tmp_path):
    """
    What an earlier run has tried is not tried again by a new generator.
    """
    path = tmp_path / "run.jsonl"
    common = {"start": Submission.from_code(BUGGY), "runner": bubblewrap_runner, "transcript": path}
    first = await code_with_reflection(
        "Mend it.", SUITE, RepairGenerator(), **common, max_iterations=2, disclose="count"
    )

    second = await code_with_reflection(
        "Mend it.", SUITE, RepairGenerator(), **common, max_iterations=4, disclose="count"
    )

    programs = [attempt.submission for attempt in second.attempts]
    assert second.attempts[0].submission == first.attempts[0].submission
    assert len(programs) == 5 and all(programs.count(program) == 1 for program in programs)
