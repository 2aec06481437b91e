"""A report as an engineer would put it in a review, within a budget.

What may be said is decided in `disclosure.py`; here it is put into words. Failures that
have one cause are told once, with a count; what tells most comes first. If the words do
not fit, detail is dropped in the order of `_DETAILS`, then failures from the last, and
the last line says what was left out.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.models import Report, Submission

from .disclosure import Comparison, Disclosed, Disclosure, Finding, disclose

__all__ = ["BYTES_PER_TOKEN", "Disclosure", "feedback"]

BYTES_PER_TOKEN = 3
"""Our estimate: a tokenizer makes a token of about 3 bytes of code, of 4 of English prose."""

LONGEST_VALUE = 400
SHORT_VALUE = 80
MOST_LOCALS = 12
MOST_LINES = 12
MOST_CALLS = 8
MOST_NAMES = 8
MOST_WARNINGS = 3
SHORTEST_FAILURE = 12

# What is dropped, first to last, until the rest fits; after it, failures lose their details
# from the last to the second, then go, and the first loses its own.
_DETAILS = (
    "warnings and notes",
    "printed output",
    "calls in between",
    "explanations of the tests",
    "long values",
    "locals",
    "names of tests that fail in the same way",
)


def feedback(
    report: Report,
    budget: int = 4000,
    *,
    disclose: Disclosure = "full",
    previous: Sequence[Report | None] = (),
    tokens: bool = False,
    submission: Submission | None = None,
) -> str:
    """What to tell the author of the code, in at most `budget` characters, or tokens by our estimate.

    `disclose` says how much of the suite may be told (see `disclosure.py`), `previous` are the
    reports of the attempts before, the first one first, with None for one that has no report. With
    `submission`, its own lines are quoted where the code was stuck, and below `full`, too.

    Raises:
        ValueError: the report is `invalid`: it says nothing of the candidate, and is not to be shown to it.
    """
    if budget < 1:
        raise ValueError(f"budget: {budget} leaves no room for a word")
    told = _disclose(report, disclose, previous=previous, submission=submission)
    return _fitted(told, budget, _tokens if tokens else len)


_disclose = disclose


def _tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


@dataclass(frozen=True, eq=False)
class _Group:
    """Failures with one cause; the first stands for all."""

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        return self.findings[0]


def _fitted(told: Disclosed, budget: int, size: Callable[[str], int]) -> str:
    groups = _groups(told.findings)
    possible = budget * (1 if size is len else BYTES_PER_TOKEN) // SHORTEST_FAILURE + 1
    words = _Words(told, groups[:possible], groups[possible:])
    for text, left_out in words.shorter_and_shorter():
        shown = f"{text}\n\n[left out for brevity: {'; '.join(left_out)}]" if left_out else text
        if size(shown) <= budget:
            return shown
    text = words.written(0, frozenset(_DETAILS), 0)
    for shown in (f"{text}\n\n[the rest is left out for brevity]", text):
        if size(shown) <= budget:
            return shown
    while size(text) > budget:
        text = text[: min(len(text) - 1, len(text) * budget // size(text))]
    return text


class _Words:
    """The same told at different lengths. Of very many groups, those `beyond` are only counted."""

    def __init__(self, told: Disclosed, groups: Sequence[_Group], beyond: Sequence[_Group]) -> None:
        self._told, self._groups, self._beyond = told, groups, beyond
        self._described = functools.cache(_described)

    def shorter_and_shorter(self) -> Iterator[tuple[str, list[str]]]:
        """The words with less and less in them, and what is missing."""
        count = len(self._groups)
        text = self.written(count, frozenset(), count)
        missing = [self._after(count, "{}")] if self._beyond else []
        left_out: list[str] = []
        yield text, missing
        for dropped in range(1, len(_DETAILS) + 1):
            shorter = self.written(count, frozenset(_DETAILS[:dropped]), count)
            if shorter != text:
                left_out.append(_DETAILS[dropped - 1])
                text = shorter
                yield text, [*left_out, *missing]
        without = frozenset(_DETAILS)
        for detailed in _down_from(count):
            yield self.written(count, without, detailed), [*left_out, self._after(detailed, "details of {}")]
        for kept in _down_from(count):
            yield self.written(kept, without, 1), [*left_out, self._after(kept, "{}")]
        yield self.written(1, without, 0), [*left_out, self._after(0, "details of {}")]

    def _after(self, kept: int, what: str) -> str:
        """How many failures come after so many groups."""
        count = sum(len(group.findings) for group in [*self._groups[kept:], *self._beyond])
        return what.format(f"{count} more failure{'s' * (count != 1)}")

    def written(self, kept: int, without: frozenset[str], detailed: int) -> str:
        """The whole text with so many groups; only the first `detailed` of them have more than a line."""
        told = self._told
        numbered = enumerate(self._groups[:kept], 1)
        described = [self._described(group, number, without, number <= detailed) for number, group in numbered]
        parts = [" ".join(_headline(told)), *_with_air(described)]
        if told.not_run and told.verdict != "broken":
            parts.append(f"Not run to the end: {_listed(told.not_run)}")
        if told.printed.strip() and told.verdict not in ("passed", "failed") and "printed output" not in without:
            parts.append("\n".join(["Printed outside of any test:", *_block(told.printed, "  ")]))
        if "warnings and notes" not in without:
            parts += [f"Note: {_short(note, LONGEST_VALUE)}" for note in told.notes]
        return "\n\n".join(parts)


def _down_from(count: int) -> Iterator[int]:
    """To 1, in larger steps where there is far to go."""
    while count > 1:
        count = count - 1 if count < 40 else count * 3 // 4
        yield count


# --- what belongs together, and what comes first ------------------------------


def _groups(findings: Iterable[Finding]) -> list[_Group]:
    causes: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        causes.setdefault(finding.cause, []).append(finding)
    groups = [_Group(tuple(sorted(group, key=_clarity))) for group in causes.values()]
    return sorted(groups, key=_urgency)


_FIRST = (
    "syntax",
    "import",
    "exit",
    "lost",
    "recursion",
    "exception",
    "assertion",
    "skip",
    "memory",
    "limit",
    "timeout",
)


def _urgency(group: _Group) -> tuple[bool, bool, int, int]:
    """What keeps everything from running, then what worked before, then what most tests fail of."""
    blocks = group.first.phase == "collect"
    regressed = any(finding.passed_in for finding in group.findings)
    return not blocks, not regressed, -len(group.findings), _FIRST.index(group.first.kind)


def _clarity(finding: Finding) -> tuple[bool, bool, int]:
    """Of failures with one cause, a regression tells most, then a minimal example, then the smallest values."""
    values = [finding.call, finding.raised, *finding.arguments, finding.test]
    if finding.compared:
        values += [finding.compared.left, finding.compared.right]
    return not finding.passed_in, not finding.example, sum(map(len, values))


# --- words --------------------------------------------------------------------


def _with_air(described: Sequence[str]) -> Iterator[str]:
    """Lines that stand alone stay together."""
    for has_more, texts in itertools.groupby(described, key=lambda text: "\n" in text):
        yield ("\n\n" if has_more else "\n").join(texts)


def _headline(told: Disclosed) -> Iterator[str]:
    yield _ENDINGS[told.verdict](told)
    if told.verdict not in ("passed", "failed", "broken") and told.total:
        yield f"{_passing(told)}."
    if told.reason and told.verdict not in ("passed", "failed") and not (told.findings and told.verdict in _EXPLAINED):
        yield f"Reason: {_short(told.reason, LONGEST_VALUE)}."
    changes = [
        f"{count} test{'s' * (count != 1)} {change}{'es' * (count == 1)}"
        for count, change in ((told.fixed, "newly pass"), (told.regressed, "no longer pass"))
        if count
    ]
    if changes:
        yield f"Since the last attempt {' and '.join(changes)}."
    elif told.fixed is not None and told.verdict != "passed" and told.total:
        yield "The same tests pass as in the last attempt."


def _passing(told: Disclosed) -> str:
    return f"{told.passed} of {told.total} tests pass" if told.total else "No test was run"


def _memory(told: Disclosed) -> str:
    peak = f", and {told.peak_memory_mb:.0f} MB were measured" if told.peak_memory_mb else ""
    return f"The code used too much memory: the limit is {told.limits.memory_mb} MB{peak}."


_EXPLAINED = ("broken", "timeout")
"""Verdicts of which a finding tells more than the reason."""

_LOADING = {"syntax": "it has a syntax error", "import": "an import fails", "exit": "it exits while it is imported"}

_ENDINGS: dict[str, Callable[[Disclosed], str]] = {
    "passed": lambda told: f"All {told.passed} tests pass.",
    "failed": lambda told: f"{_passing(told)}.",
    "broken": lambda told: (
        f"The code could not be loaded: {_LOADING.get(told.loading, 'an error came before any test')}. No test was run."
    ),
    "timeout": lambda told: (
        f"The code took too long: the limit is {told.limits.test_seconds:g} seconds for one test, "
        f"{told.limits.wall_seconds:g} for all."
    ),
    "out_of_memory": _memory,
    "crashed": lambda told: "The process died, or was ended by the code itself, before all tests were done.",
    "limit": lambda told: (
        f"The code went past a limit: {told.limits.output_kb} kB of output, {told.limits.disk_mb} MB of files, "
        f"{told.limits.processes} processes and threads."
    ),
    "tampered": lambda told: "The code interfered with the run of the tests. It may only do what the task asks for.",
    "no_tests": lambda told: "No test was run.",
}

_PROBLEMS = {
    "assertion": "fails",
    "exception": "fails with an exception",
    "syntax": "cannot be loaded: syntax error",
    "import": "cannot be loaded: import error",
    "timeout": "does not end in time",
    "exit": "exits the process",
    "skip": "was skipped by the code under test",
    "memory": "runs out of memory",
    "limit": "goes past a limit",
    "recursion": "recurses too deeply",
    "lost": "was lost: the code ended or crashed the process",
}


def _described(group: _Group, number: int, without: frozenset[str], in_detail: bool) -> str:
    first = group.first
    phase = "" if first.phase in ("call", "collect") else f" in {first.phase}"
    lines = [f"{number}. {first.test or 'The run'} {_PROBLEMS[first.kind]}{phase}{_others(group, without)}."]
    if first.passed_in:
        lines.append(f"   It passed in attempt {first.passed_in} and fails now.")
    most = SHORT_VALUE if "long values" in without else LONGEST_VALUE
    for label, text in _facts(first, without, most) if in_detail else ():
        for index, line in enumerate(text.splitlines() or [""]):
            lines.append(f"   {'' if index else label + ':':<10} {line}".rstrip())
    return "\n".join(lines)


def _others(group: _Group, without: frozenset[str]) -> str:
    file = group.first.test.partition("::")[0] + "::"
    others = [finding.test.removeprefix(file) for finding in group.findings[1:]]
    if not others:
        return ""
    regressed = [finding.test for finding in group.findings[1:] if finding.passed_in]
    named = "" if "names of tests that fail in the same way" in without else f" ({_listed(others)})"
    worked = f", {len(regressed)} of which passed before" if regressed else ""
    return f", and {len(others)} more in the same way{named}{worked}"


def _listed(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    missing = len(unique) - MOST_NAMES
    return ", ".join(unique[:MOST_NAMES]) + (f" and {missing} more" if missing > 0 else "")


def _facts(finding: Finding, without: frozenset[str], most: int) -> Iterator[tuple[str, str]]:
    """Label and text, in the order of a review: expected, got, for which input, where, with what."""
    if finding.call:
        yield "call", _short(finding.call, 2 * most)
    if finding.compared:
        yield from _compared(finding.compared, most)
    if finding.expected:
        yield "expected", _short(finding.expected, most)
        yield "got", _short(finding.got, most)
    elif finding.raised and not _told_already(finding):
        yield "raised", _lines(finding.raised, most)
    if finding.example:
        yield "minimal", f"{_short(finding.example, most)} is the smallest input that fails"
    elif finding.arguments and not finding.explanation:
        yield "input", "\n".join(_short(line, most) for line in finding.arguments[:3])
    for cause in finding.causes:
        yield "cause", _lines(cause, most)
    if finding.place and not finding.stuck:
        yield ("stuck at" if finding.kind == "timeout" else "your code"), _located(finding.place, finding.line, most)
    if finding.locals and "locals" not in without:
        yield "locals", _locals(finding, most)
    if finding.stuck:
        yield "stuck at", "\n".join(_short(line, most) for line in finding.stuck[:MOST_CALLS])
    if finding.test_place:
        yield "test", _located(finding.test_place, finding.test_line, most)
    if finding.explanation and "explanations of the tests" not in without:
        yield "says", "\n".join(_block(finding.explanation, ""))
    if finding.calls and "calls in between" not in without:
        yield "calls", "\n".join(_short(line, most) for line in _ends(finding.calls))
    for name, text in finding.printed:
        if "printed output" not in without:
            yield name, "\n".join(_block(text, ""))
    if "warnings and notes" not in without:
        for warning in finding.warnings[:MOST_WARNINGS]:
            yield "warning", _short(warning.partition("\n")[0], most)


def _told_already(finding: Finding) -> bool:
    """A case's line, or the explanation of an assertion, holds the exception's words."""
    explained = finding.kind == "assertion" and bool(finding.explanation)
    return explained or (finding.raised.partition("\n")[0] in finding.call)


def _compared(found: Comparison, most: int) -> Iterator[tuple[str, str]]:
    left, right = _around_difference(found.left, found.right, most)
    if found.operator == "==":
        yield "expected", right
        yield "got", left
    else:
        yield "expected", f"{left} {found.operator} {right}, which is false"


def _around_difference(left: str, right: str, most: int) -> tuple[str, str]:
    """Both, cut so that the place where they differ is still to be seen."""
    if len(left) <= most and len(right) <= most:
        return left, right
    pairs = zip(left, right, strict=False)
    same = next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(left), len(right)))
    start = max(0, same - most // 3) if same > most // 2 else 0
    return _window(left, start, most), _window(right, start, most)


def _window(text: str, start: int, most: int) -> str:
    before = f"[{start} characters] …" if start else ""
    return before + _short(text[start:], most)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} characters more]"


def _lines(text: str, most: int) -> str:
    return "\n".join(_block(_short(text, 2 * most), ""))


def _block(text: str, indent: str) -> Iterator[str]:
    lines = text.strip("\n").splitlines()
    head, tail = MOST_LINES * 2 // 3, MOST_LINES // 3
    if len(lines) > MOST_LINES:
        lines = [*lines[:head], f"[… {len(lines) - MOST_LINES} lines …]", *lines[-tail:]]
    yield from (indent + _short(line, LONGEST_VALUE) for line in lines)


def _located(place: str, line: str, most: int) -> str:
    return f"{place}: {_short(line, most)}" if line else place


def _locals(finding: Finding, most: int) -> str:
    shown = [f"{name}={_short(value, most // 4)}" for name, value in finding.locals[:MOST_LOCALS]]
    missing = len(finding.locals) - len(shown)
    return ", ".join(shown) + (f", and {missing} more" if missing else "")


def _ends(calls: Sequence[str]) -> Sequence[str]:
    if len(calls) <= MOST_CALLS:
        return calls
    half = MOST_CALLS // 2
    return [*calls[:half], f"[… {len(calls) - MOST_CALLS} calls …]", *calls[-half:]]
