"""A report for a person at a terminal: the verdict first, then each failure with its evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models import ErrorInfo, Failure, Frame, Integrity, Report

__all__ = ["describe", "own_part", "plain", "render"]

MOST_FAILURES = 20
MOST_LINES = 30
MOST_SUSPICIONS = 3
MOST_WARNINGS = 5
MOST_LOCALS = 8
LONGEST_LINE = 1_000
LONGEST_LOCAL = 100

# What a terminal obeys instead of showing it, the marks that turn the direction of text included.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_ADDRESS = re.compile(r"(?<=hread) 0x[0-9a-f]+")
_LIBRARY = re.compile(r'File "(<|.*/(site|dist)-packages/|.*/lib/python3)')


def render(report: Report) -> str:
    """The whole report as plain text, at most `MOST_FAILURES` failures of it."""
    lines = [f"{report.verdict.upper()}: {report.reason}"]
    for failure in report.failures[:MOST_FAILURES]:
        lines += ["", *describe(failure)]
    missing = len(report.failures) - MOST_FAILURES
    if missing > 0:
        lines += ["", f"... and {missing} more failures (all of them are in --format json)"]
    if report.output.strip() and report.verdict not in ("passed", "failed"):
        lines += ["", *_block("written outside of any test", report.output)]
    lines += ["", *_footer(report)]
    return plain("\n".join(lines))


def plain(said: str) -> str:
    """The same with control characters, but for line breaks and tabs, written out as `\\x1b`."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), said)


def describe(failure: Failure) -> Iterator[str]:
    yield _title(failure)
    if failure.assertion is not None:
        yield from _assertion(failure)
    elif failure.exception is not None and not failure.exception.is_ours:
        yield from _indented(_error_line(failure.exception), 4)
    else:
        yield from _indented(failure.message, 4)
    for line in _frames(failure):
        yield "    " + line
    if failure.exception is not None:
        yield from _causes(failure.exception)
    if failure.hypothesis is not None:
        yield from _block("falsifying example", failure.hypothesis.example, 4)
        yield f"    reproduce with: seed={failure.hypothesis.seed}"
    for name, captured in (("stdout", failure.stdout), ("stderr", failure.stderr), ("log", failure.log)):
        if captured.strip():
            yield from _block(name, captured, 4)
    for warning in failure.warnings[:MOST_WARNINGS]:
        yield f"    {warning.category}: {_cut(warning.message.partition(chr(10))[0], LONGEST_LINE)}"
    if len(failure.warnings) > MOST_WARNINGS:
        yield f"    ... and {len(failure.warnings) - MOST_WARNINGS} more warnings"
    if failure.stack:
        yield from _block("stuck at", own_part(failure.stack), 4)


def _title(failure: Failure) -> str:
    name = failure.nodeid or "the run"
    subtest = f" {failure.subtest}" if failure.subtest else ""
    phase = "" if failure.phase == "call" else f" in {failure.phase}"
    return f"✗ {name}{subtest}{phase}"


def _assertion(failure: Failure) -> Iterator[str]:
    found = failure.assertion
    assert found is not None
    yield from _indented(found.explanation or failure.message, 4)
    if found.left not in found.explanation and len(found.left) + len(found.right) < 400:
        yield f"    got       {found.left}"
        yield f"    expected  {'' if found.operator == '==' else found.operator + ' '}{found.right}"


def _frames(failure: Failure) -> Iterator[str]:
    own = [frame for frame in failure.frames if frame.owner != "library"]
    if not own:
        own = list(failure.frames[-3:])
    first, last_ones = own[:3], own[3:][-5:]
    missing = len(own) - len(first) - len(last_ones) + failure.frames_cut
    for index, frame in enumerate(first + last_ones):
        if missing and index == len(first):
            yield f"... {missing} frames more ..."
        yield f"{frame.path}:{frame.line} in {frame.function}" + (f": {frame.source}" if frame.source else "")
    last = next((frame for frame in reversed(own) if frame.owner == "submission"), None)
    if last is not None and last.locals:
        yield f"  with {_locals(last)}"


def _locals(frame: Frame) -> str:
    shown = [f"{name}={_cut(value, LONGEST_LOCAL)}" for name, value in list(frame.locals.items())[:MOST_LOCALS]]
    missing = len(frame.locals) - len(shown) + frame.locals_cut
    return ", ".join(shown) + (f", and {missing} more" if missing else "")


def _causes(error: ErrorInfo) -> Iterator[str]:
    outer = error
    while (cause := outer.cause) is not None:
        yield from _indented(("because of " if outer.explicit_cause else "while handling ") + _error_line(cause), 4)
        for frame in cause.frames[-1:]:
            yield f"    {frame.path}:{frame.line} in {frame.function}: {frame.source}"
        outer = cause
    for inner in error.group:
        yield from _indented("with " + _error_line(inner), 4)


def _error_line(error: ErrorInfo) -> str:
    return f"{error.type}: {error.message}" if error.message else error.type


def _indented(text: str, by: int) -> Iterator[str]:
    lines = text.splitlines()
    for line in lines[:MOST_LINES]:
        yield " " * by + _cut(line, LONGEST_LINE)
    if len(lines) > MOST_LINES:
        yield " " * by + f"[... {len(lines) - MOST_LINES} lines cut ...]"


def own_part(stack: str) -> str:
    """Without the frames of pytest and other libraries, of which there are dozens, and addresses of threads."""
    lines = stack.splitlines()
    own = [_ADDRESS.sub("", line) for line in lines if not _LIBRARY.search(line)]
    return "\n".join([*own, f"[... {len(lines) - len(own)} frames of libraries ...]"])


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[:most]}… [{len(line) - most} characters cut]"


def _block(name: str, text: str, by: int = 0) -> Iterator[str]:
    yield " " * by + f"{name}:"
    yield from _indented(text.strip("\n"), by + 2)


def _integrity(found: Integrity) -> Iterator[str]:
    """What was found, and what looks like it; that nothing was needs no line."""
    for finding in found.findings:
        yield f"tampering: {finding}"
    for suspicion in found.suspicions[:MOST_SUSPICIONS]:
        yield f"suspicion, which decides nothing: {suspicion}"
    missing = len(found.suspicions) - MOST_SUSPICIONS
    if missing > 0:
        yield f"... and {missing} more suspicions (all of them are in --format json)"


def _footer(report: Report) -> Iterator[str]:
    if report.integrity is not None:
        yield from _integrity(report.integrity)
    for note in report.notes:
        yield f"note: {note}"
    if report.cached:
        yield "note: answered from the cache; this is what an earlier run of the same job found"
    if report.isolation is None:
        return
    measured, found = report.measurements, report.isolation
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(report.counts.items()))
    yield (
        f"{counts or 'no tests'} in {measured.total_seconds:.2f} s ({measured.start_seconds:.2f} s of it to start), "
        f"{measured.cpu_seconds:.2f} s CPU, {measured.peak_memory_mb:.0f} MB peak"
    )
    shared = ", shared with other jobs one after the other" if report.freshness == "fork" else ""
    yield f"sandbox: {found.runner}{shared}"
    for name in ("network", "filesystem", "processes", "memory", "user"):
        yield f"  {name:<10} {getattr(found, name)}"
    if report.integrity is not None:
        yield from _seat(report.integrity)


def _seat(integrity: Integrity) -> Iterator[str]:
    yield f"seat: {integrity.seat}" + (f" ({integrity.reason})" if integrity.reason else "")
    if integrity.asked:
        yield f"  {integrity.asked} comparison(s) between its own objects were decided by the candidate"
