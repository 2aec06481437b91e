"""What the feedback says of a fault: where it may be, and of what kind.

All of it comes from what the disclosure level lets the generator know. At `count` there is nothing
here but the number of tests that pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..disclosure import Disclosed, Finding
from .scope import Kind, kind_of_repr
from .slices import behind_the_result, leading_to
from .source import Source

__all__ = ["Clues", "read_clues"]

_PLACE = re.compile(r"(?P<path>[^\s:]+):(?P<line>\d+)")

AT_THE_FAILURE = 4.0
ON_THE_WAY = 3.0
ELSEWHERE = 1.0

_INSERTIONS = (
    "missing-term",
    "insert-fill",
    "insert-call",
    "insert-assignment",
    "insert-return",
    "display",
    "move-out",
)
_RESETS = ("insert-reset", "swap-statements")
_SWAPS = ("swap-operands", "swap-arguments", "swap-elements", "swap-statements", "swap-branches")
_CONDITIONS = ("boundary", "opposite", "condition", "negate", "and-or", "guard", "drop-condition", "sibling")
_REACH = ("off-by-one", "boundary", "drop-term", "condition", "slice", "yield-from", "drop-condition")
_COUNTS = ("off-by-one", "boundary", "constant")
_ARITHMETIC = ("operator", "term", "power", "drop-term", "off-by-one", "swap-operands")
_NAMES = ("wrong-name", "wrong-target", "ingredient", "simplify", "constant-to-name")


@dataclass(frozen=True)
class Clues:
    """Of one candidate."""

    passed: int = 0
    lines: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """How suspicious a line is; `ELSEWHERE` if it is not here."""
    operators: Mapping[str, float] = field(default_factory=dict)
    """How much likelier a kind of mutation is than it usually is."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """What variables held when a test failed."""


def read_clues(told: Iterable[Disclosed], sources: Mapping[str, Source]) -> Clues:
    reports = list(told)
    findings = [finding for report in reports for finding in report.findings]
    return Clues(
        passed=sum(report.passed for report in reports),
        lines=_lines(findings, sources),
        operators=_operators(findings),
        kinds={name: kind_of_repr(shown) for finding in findings for name, shown in finding.locals},
    )


# --- where --------------------------------------------------------------------


def _lines(findings: Sequence[Finding], sources: Mapping[str, Source]) -> dict[tuple[str, int], float]:
    found: dict[tuple[str, int], float] = {}

    def suspect(path: str, line: int, weight: float) -> None:
        found[path, line] = max(found.get((path, line), ELSEWHERE), weight)

    for finding in findings:
        places = [place for place in _places([finding.place, *finding.stuck[:1]]) if place[0] in sources]
        for path, line in places:
            suspect(path, line, AT_THE_FAILURE)
            for other, weight in leading_to(sources[path].tree, line):
                suspect(path, other, weight)
        for path, line in _places([*finding.calls, *finding.stuck]):
            if path in sources:
                suspect(path, line, ON_THE_WAY)
        if not places:
            names = {_callee(shown) for shown in finding.arguments}
            for path, source in sources.items():
                for line, weight in behind_the_result(source.tree, names):
                    suspect(path, line, weight)
    return found


def _places(shown: Iterable[str]) -> Iterator[tuple[str, int]]:
    for text in shown:
        if place := _PLACE.match(text):
            yield place["path"], int(place["line"])


def _callee(shown: str) -> str:
    return shown.partition("(")[0].rpartition(".")[2]


# --- of what kind -------------------------------------------------------------


def _operators(findings: Sequence[Finding]) -> dict[str, float]:
    """What the symptoms speak for: the mean over the failures, so that one odd failure decides nothing."""
    weights: dict[str, float] = {}
    for finding in findings:
        for symptom in set(_symptoms(finding)):
            for operator, factor in _SPEAKS_FOR[symptom].items():
                weights[operator] = weights.get(operator, 0.0) + (factor - 1) / len(findings)
    return {operator: max(0.3, 1 + weight) for operator, weight in weights.items()}


def _for(*families: tuple[str, ...], factor: float = 2.0) -> dict[str, float]:
    return {operator: factor for family in families for operator in family}


_SPEAKS_FOR: dict[str, dict[str, float]] = {
    "missing": {**_for(_INSERTIONS, factor=2.3), **_for(_REACH, factor=1.6), "delete": 0.5},
    "nothing": {**_for(_INSERTIONS, ("sibling", "negate", "opposite")), **_for(_REACH, factor=1.6), "delete": 0.5},
    "too much": {
        **_for(_CONDITIONS, _RESETS, ("delete", "drop-term", "slice", "ingredient")),
        **_for(_INSERTIONS, factor=0.5),
    },
    "order": {**_for(_SWAPS, factor=3.5), **_for(_INSERTIONS, _COUNTS, factor=0.6)},
    "inverse": {**_for(_SWAPS, factor=3.5), "operator": 1.5, **_for(_INSERTIONS, factor=0.5)},
    "one off": {**_for(_COUNTS), **_for(_INSERTIONS, factor=0.5)},
    "other number": {**_for(_ARITHMETIC, _NAMES, _RESETS, factor=1.5), **_for(_INSERTIONS, factor=0.6)},
    "other items": {**_for(_NAMES, _SWAPS, factor=1.8), **_for(_INSERTIONS, factor=0.6)},
    "none": {"insert-return": 3.0, "insert-assignment": 3.0, "wrong-name": 1.5},
    "yes or no": {**_for(_CONDITIONS, ("returned-condition",), factor=2.0)},
    "recursion": {
        **_for(_INSERTIONS, factor=0.5),
        **_for(("off-by-one", "term", "slice", "ingredient", "guard"), factor=2.5),
        "insert-fill": 2.5,
    },
    "endless": {
        **_for(("operator", "term", "off-by-one", "condition", "insert-assignment", "insert-reset")),
        **_for(("wrong-target", "wrong-name")),
        "power": 3.0,
    },
    "index": {
        **_for(("off-by-one", "boundary", "term", "guard", "condition", "slice"), factor=2.5),
        **_for(_INSERTIONS, factor=0.5),
    },
    "lookup": {**_for(_NAMES, _SWAPS, ("guard",), factor=1.8), **_for(_INSERTIONS, factor=0.6)},
    "type": {**_for(("wrong-name", "drop-call", "yield-from", "guard", "ingredient", "display"), factor=2.0)},
}


def _symptoms(finding: Finding) -> Iterator[str]:
    if finding.kind == "recursion":
        yield "recursion"
    elif finding.kind == "timeout":
        yield "endless"
    elif finding.compared is not None and finding.compared.operator == "==":
        yield from _difference(_value(finding.compared.left), _value(finding.compared.right), finding.compared.left)
    elif finding.compared is not None or (finding.kind == "assertion" and not finding.raised.strip()):
        yield "yes or no"
    elif finding.raised:
        yield from _by_exception(finding.raised.partition(":")[0])


def _by_exception(name: str) -> Iterator[str]:
    if name in ("IndexError", "StopIteration", "ValueError"):
        yield "index"
    elif name in ("KeyError", "NameError", "UnboundLocalError"):
        yield "lookup"
    elif name in ("TypeError", "AttributeError"):
        yield "type"


class _Unknown:
    """A value that is shown in a form which is no Python literal."""


def _value(shown: str) -> Any:
    try:
        return ast.literal_eval(shown)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return _Unknown


def _difference(got: Any, expected: Any, shown: str) -> Iterator[str]:
    if got is None and expected is not None:
        yield "none"
    elif isinstance(got, bool) or isinstance(expected, bool):
        yield "yes or no"
    elif _is_number(got) and _is_number(expected):
        yield from _between_numbers(got, expected)
    elif isinstance(got, list | tuple | str) and type(got) is type(expected):
        yield from _between_sequences(got, expected)
    elif isinstance(got, dict | set) and type(got) is type(expected):
        yield "missing" if len(got) < len(expected) else "too much" if len(got) > len(expected) else "other items"
    elif got is _Unknown and expected is not _Unknown:
        yield "type" if "generator" in shown or "object" in shown else "other items"
    elif expected is not _Unknown:
        yield "type"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _between_numbers(got: float, expected: float) -> Iterator[str]:
    if got == -expected or (got and expected and abs(got * expected - 1) < 1e-9):
        yield "inverse"
    elif abs(got - expected) == 1:
        yield "one off"
    else:
        yield "other number"


def _between_sequences(got: Any, expected: Any) -> Iterator[str]:
    if not got:
        yield "nothing"
    elif len(got) == len(expected):
        yield "order" if sorted(map(repr, got)) == sorted(map(repr, expected)) else "other items"
    elif len(got) < len(expected):
        yield "missing"
    else:
        yield "too much"
