"""Small problems with their tests, of the size that code benchmarks have."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness import Case, Submission, Suite


@dataclass(frozen=True)
class Problem:
    files: dict[str, str]
    tests: dict[str, str]

    @property
    def submission(self) -> Submission:
        return Submission.from_files(self.files)

    @property
    def suite(self) -> Suite:
        return Suite.from_files(self.tests)

    def write(self, folder: Path) -> None:
        for path, text in {**self.files, **self.tests}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)


_SOLUTIONS = {
    "running_maximum": (
        "def running_maximum(numbers):\n    best, found = None, []\n    for number in numbers:\n"
        "        best = number if best is None else max(best, number)\n        found.append(best)\n    return found\n",
        [("[1, 3, 2]", "[1, 3, 3]"), ("[]", "[]"), ("[-1, -5, 0]", "[-1, -1, 0]"), ("[7]", "[7]")],
    ),
    "count_vowels": (
        "def count_vowels(text):\n    return sum(letter in 'aeiou' for letter in text.lower())\n",
        [("'Education'", "5"), ("''", "0"), ("'rhythm'", "0"), ("'AEIOU' * 3", "15")],
    ),
    "is_balanced": (
        "def is_balanced(text):\n    depth = 0\n    for letter in text:\n"
        "        depth += {'(': 1, ')': -1}.get(letter, 0)\n"
        "        if depth < 0:\n            return False\n    return depth == 0\n",
        [("'(())'", "True"), ("')('", "False"), ("''", "True"), ("'(()'", "False")],
    ),
    "gcd_of": (
        "def gcd_of(pair):\n    a, b = pair\n    while b:\n        a, b = b, a % b\n    return a\n",
        [("(12, 18)", "6"), ("(7, 13)", "1"), ("(0, 5)", "5"), ("(100, 75)", "25")],
    ),
}


def built_in() -> list[Problem]:
    made = []
    for name, (solution, pairs) in _SOLUTIONS.items():
        checks = "\n".join(f"    assert candidate({given}) == {expected}" for given, expected in pairs)
        test = f"from solution import {name}\n\n\ndef check(candidate):\n{checks}\n"
        test += f"\n\ndef test_{name}():\n    check({name})\n"
        made.append(Problem({"solution.py": solution}, {"test_solution.py": test}))
    return made


def read(path: Path) -> list[Problem]:
    """The jobs of a job file that are expected to pass."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [Problem(job["files"], job["tests"]) for job in lines if job.get("expect", "pass") == "pass"]


CASES = Suite.from_cases(
    [Case(call="solution.running_maximum", args=[[1, 3, 2]], expected=[1, 3, 3])]
    + [Case(call="solution.running_maximum", args=[[number, 0]], expected=[number, number]) for number in (1, 2, 3)]
)
CASES_SUBMISSION = Submission.from_code(_SOLUTIONS["running_maximum"][0])
