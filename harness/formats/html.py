"""A report as a page: the verdict at a glance, each failure with its evidence, then everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from . import text
from .pages import Markup, cut, document, element, figures, joined, mark_of, tone_of

if TYPE_CHECKING:
    from ..models import Assertion, ErrorInfo, Failure, Frame, Report, TestResult

__all__ = ["failure_details", "headline", "render", "test_strip"]

MOST_FAILURES = 100
MOST_TESTS = 5_000
MOST_CELLS = 2_000
OPEN_FAILURES = 3
LONGEST_TEXT = 20_000


def render(report: Report) -> str:
    """The whole report as one self-contained file."""
    sections = (_tampering, _failures, _tests, _remarks, _trust, _sandbox)
    return document(
        f"{_words(report.verdict)}: {headline(report)}",
        _banner(report),
        test_strip(report),
        _figures(report),
        *(section(report) for section in sections),
        footer=f"Reproof {report.version}".strip(),
    )


def headline(report: Report) -> str:
    """How many tests pass, of those that count."""
    passing, counted = report.score
    if not counted:
        return "no test was run"
    return f"all {passing} tests pass" if passing == counted else f"{passing} of {counted} tests pass"


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _banner(report: Report) -> Markup:
    told = element("h1", f"{mark_of(report.verdict)} {_words(report.verdict)}: {headline(report)}")
    return element("header", told, element("p", report.reason), class_=f"banner {tone_of(report.verdict)}")


def test_strip(report: Report) -> Markup | None:
    """One small square for each test, in the order of the suite."""
    shown = report.tests[:MOST_CELLS]
    if not shown:
        return None
    cells = [
        element("span", mark_of(test.outcome), class_=f"cell {tone_of(test.outcome)}", title=_title(test))
        for test in shown
    ]
    if len(report.tests) > MOST_CELLS:
        cells.append(element("span", f"and {len(report.tests) - MOST_CELLS} more", class_="quiet"))
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(report.counts.items()))
    size = " many" if len(shown) > 150 else ""
    return element("div", *cells, class_=f"strip{size}", role="img", aria_label=f"{len(report.tests)} tests: {counts}")


def _title(test: TestResult) -> str:
    return f"{test.nodeid}: {test.outcome.replace('_', ' ')}" + (f" ({test.reason})" if test.reason else "")


def _figures(report: Report) -> Markup:
    measured = report.measurements
    pairs = [
        ("time", f"{measured.total_seconds:.2f} s"),
        ("CPU", f"{measured.cpu_seconds:.2f} s"),
        ("peak memory", f"{measured.peak_memory_mb:.0f} MB"),
        ("sandbox", report.runner or "none"),
    ]
    return figures(*pairs, *([("cached", "yes")] if report.cached else []))


# --- failures -----------------------------------------------------------------


def _failures(report: Report) -> Markup | None:
    if not report.failures:
        return None
    shown = [
        failure_details(failure, is_open=index < OPEN_FAILURES)
        for index, failure in enumerate(report.failures[:MOST_FAILURES])
    ]
    missing = len(report.failures) - len(shown)
    more = element("p", f"And {missing} more; all of them are in --format json.", class_="quiet") if missing else None
    return element("section", element("h2", f"What failed ({len(report.failures)})"), *shown, more)


def failure_details(failure: Failure, *, is_open: bool = False, identity: str | None = None) -> Markup:
    """One failure that can be opened: what was expected and what came, where, with which values."""
    name = failure.nodeid or "the run"
    subtest = f" {failure.subtest}" if failure.subtest else ""
    phase = "" if failure.phase == "call" else f" in {failure.phase}"
    tone = "warn" if failure.kind in ("timeout", "memory", "limit") else "bad"
    summary = element(
        "summary",
        element("b", f"{name}{subtest}{phase}"),
        " ",
        element("span", failure.kind, class_=f"tag {tone}"),
        element("p", cut(_gist(failure), 300), class_="quiet"),
    )
    facts = [part for name, value in _facts(failure) for part in (element("dt", name), element("dd", value))]
    known = element("dl", *facts, class_="facts") if facts else element("p", "No more is known of it.", class_="quiet")
    inside = element("div", known, class_="inside")
    return element("details", summary, inside, class_=f"failure {tone}", open=is_open, id=identity)


def _gist(failure: Failure) -> str:
    """The one line that is seen while the rest is folded."""
    found = failure.assertion
    if found is None or found.operator != "==" or len(found.left) + len(found.right) > 120:
        return failure.message
    values = f"got {found.left}, expected {found.right}"
    return (
        values
        if failure.message.startswith("assert ") or found.left in failure.message
        else f"{values}: {failure.message}"
    )


def _facts(failure: Failure) -> Iterator[tuple[str, Markup]]:
    if failure.assertion is not None:
        yield from _compared(failure.assertion)
    if failure.exception is not None:
        yield from _raised(failure.exception, failure)
    if failure.hypothesis is not None:
        yield "smallest input that fails", _pre(failure.hypothesis.example)
    own = [frame for frame in failure.frames if frame.owner != "library"] or list(failure.frames[-3:])
    if own:
        yield "where", _trace(own, failure.frames_cut)
    last = next((frame for frame in reversed(own) if frame.locals), None)
    if last is not None:
        yield "locals", _pre("\n".join(f"{name} = {value}" for name, value in last.locals.items()))
    if failure.stack:
        yield "stuck at", _pre(text.own_part(failure.stack))
    for name, said in (("stdout", failure.stdout), ("stderr", failure.stderr), ("log", failure.log)):
        if said.strip():
            yield name, _pre(said)
    if failure.warnings:
        yield "warnings", _pre("\n".join(f"{warning.category}: {warning.message}" for warning in failure.warnings))


def _compared(found: Assertion) -> Iterator[tuple[str, Markup]]:
    got, wanted = _differing(cut(found.left, LONGEST_TEXT), cut(found.right, LONGEST_TEXT))
    operator = "" if found.operator == "==" else f"{found.operator} "
    yield "expected", element("pre", operator, wanted, class_="good")
    yield "got", element("pre", got, class_="bad")


def _differing(left: str, right: str) -> tuple[Markup, Markup]:
    """Both, with the part marked in which they differ."""
    start = 0
    shorter = min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    return _marked(left, start, end), _marked(right, start, end)


def _marked(text: str, start: int, end: int) -> Markup:
    stop = len(text) - end
    return joined([text[:start], element("mark", text[start:stop]) if start < stop else None, text[stop:]])


def _raised(error: ErrorInfo, failure: Failure) -> Iterator[tuple[str, Markup]]:
    bare = error.type in ("AssertionError", "Failed")
    said = error.message if bare else f"{error.type}: {error.message}".rstrip(": ")
    said = "\n".join([said, *error.notes])
    if not error.is_ours and said not in (failure.message, _gist(failure)):  # that stands above already
        yield "it says", _pre(said)
    outer = error
    while (cause := outer.cause) is not None:
        yield ("because of" if outer.explicit_cause else "while handling"), _error(cause)
        outer = cause
    for inner in error.group:
        yield "with", _error(inner)


def _error(error: ErrorInfo) -> Markup:
    return joined([_pre(f"{error.type}: {error.message}".rstrip(": ")), _trace(error.frames[-1:], 0)])


def _trace(frames: Iterable[Frame], missing: int) -> Markup:
    lines = [_frame(frame) for frame in frames]
    if missing:
        lines.insert(len(lines) // 2, element("span", f"[… {missing} frames …]", class_="quiet"))
    return element("pre", joined(lines, "\n"))


def _frame(frame: Frame) -> Markup:
    """Path and line, and below it the source: the candidate's own stands out."""
    owner = "" if frame.owner == "submission" else f" ({frame.owner})"
    source = element("b", frame.source) if frame.owner == "submission" else frame.source
    place = element("span", f"{frame.path}:{frame.line} in {frame.function}{owner}", class_="quiet")
    return joined([place, "\n    ", source])


def _pre(said: str) -> Markup:
    return element("pre", cut(said.strip("\n"), LONGEST_TEXT))


# --- the rest -----------------------------------------------------------------


def _tests(report: Report) -> Markup | None:
    if not report.tests:
        return None
    rows = [_row(test) for test in report.tests[:MOST_TESTS]]
    missing = len(report.tests) - len(rows)
    return element(
        "section",
        element("h2", f"All tests ({len(report.tests)})"),
        element("label", element("input", type="checkbox"), "only what does not pass", class_="only"),
        element(
            "table",
            element("thead", _cells("th", "outcome", "test", "seconds")),
            element("tbody", *rows),
        ),
        element("p", f"And {missing} more.", class_="quiet") if missing else None,
    )


def _row(test: TestResult) -> Markup:
    tone = tone_of(test.outcome)
    tag = element("span", f"{mark_of(test.outcome)} {test.outcome.replace('_', ' ')}", class_=f"tag {tone}")
    reason = element("p", test.reason, class_="quiet") if test.reason else None
    return element(
        "tr",
        element("td", tag),
        element("td", element("code", test.nodeid), reason),
        element("td", f"{test.seconds:.3f}", class_="number"),
        class_=f"is-{tone}",
    )


def _cells(kind: str, *names: str) -> Markup:
    numbers = ("seconds",)
    return element(
        "tr", *(element(kind, name, scope="col", class_="number" if name in numbers else None) for name in names)
    )


def _remarks(report: Report) -> Markup | None:
    """What is worth knowing and did not decide."""
    parts: list[Markup] = [element("p", note) for note in report.notes]
    if report.warnings:
        said = "\n".join(f"{warning.category}: {warning.message}" for warning in report.warnings)
        parts.append(_folded(f"Warnings ({len(report.warnings)})", said))
    if report.output.strip():
        parts.append(_folded("Written outside of any test", report.output))
    return element("section", element("h2", "Remarks"), *parts) if parts else None


def _folded(title: str, said: str) -> Markup:
    return element("details", element("summary", title), element("div", _pre(said), class_="inside"))


def _tampering(report: Report) -> Markup | None:
    """What proves that the candidate had a hand in it; with this the verdict is `tampered`."""
    if report.integrity is None or not report.integrity.findings:
        return None
    found = [element("li", finding) for finding in report.integrity.findings]
    return element("section", element("h2", f"Tampering ({len(found)})"), element("ul", *found, class_="bad"))


_SEATS = {
    "cases": "the candidate ran alone, and the host compared",
    "separate": "the candidate ran in a process of its own, beside a trusted pytest",
    "in_process": "the candidate ran in pytest's own interpreter, watched",
}


def _trust(report: Report) -> Markup | None:
    """How far the candidate could have had a hand in the verdict."""
    found = report.integrity
    if found is None:
        return None
    rows = [("seat", f"{found.seat}: {_SEATS[found.seat]}"), ("chosen because", found.reason)]
    rows += [("looked at", check) for check in found.checks]
    rows += [("suspicion, which decides nothing", suspicion) for suspicion in found.suspicions]
    if found.asked:
        rows.append(("left to the candidate", f"{found.asked} comparisons between two objects of its own"))
    return element("section", element("h2", "How far it can be trusted"), _listed(rows))


def _listed(rows: Iterable[tuple[str, str]]) -> Markup:
    cells = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows if value]
    return element("table", element("tbody", *cells))


def _sandbox(report: Report) -> Markup | None:
    """What was really obtained, and the limits."""
    rows = []
    if report.isolation is not None:
        names = ("network", "filesystem", "processes", "memory", "user")
        rows += [(name, str(getattr(report.isolation, name))) for name in names]
        rows.append(("freshness", _FRESHNESS[report.freshness]))
    rows.append(("limits", ", ".join(f"{name} {value:g}" for name, value in report.limits)))
    used = [f"{name} {value}" for name, value in (("Python", report.python), ("pytest", report.pytest)) if value]
    rows.append(("ran with", ", ".join([*used, f"seed {report.seed}"])))
    measured = report.measurements
    phases = ("queue", "start", "send", "collect", "run", "judge")
    rows.append(("time", ", ".join(f"{name} {getattr(measured, f'{name}_seconds'):.3f} s" for name in phases)))
    return element("section", element("h2", "How it was run"), _listed(rows))


_FRESHNESS = {
    "sandbox": "a sandbox of its own",
    "fork": "a sandbox that other jobs used before and after, cleaned in between",
}
