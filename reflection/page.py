"""A run of the loop as a page: tests × attempts at a glance, then what changed, what failed and what was said."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.formats.html import failure_details, headline
from harness.formats.pages import Markup, cut, document, element, figures, joined, mark_of, tone_of
from harness.models import Failure, Report, Submission

from .transcript import Attempt, Result

__all__ = ["page"]

MOST_ATTEMPTS = 60
ROOMY_ATTEMPTS = 16
"""More than these stand closer together."""
MOST_TESTS = 500
MOST_FAILURES = 20
LONGEST_TEXT = 20_000
MOST_DIFF_LINES = 400
LARGEST_COMPARED = 5_000
"""Lines of a file; comparing longer ones takes more time than they are worth."""


def page(result: Result) -> str:
    """The whole run as one self-contained file."""
    shown = _telling(result)
    return document(
        f"{_outcome(result)}: {cut(result.task.strip().partition(chr(10))[0], 60)}",
        _banner(result),
        _figures(result),
        _task(result),
        _grid(result, shown),
        element("section", element("h2", "Attempts"), *(_attempt(result, attempt) for attempt in shown)),
        _costs(shown),
        footer="Reproof",
    )


def _telling(result: Result) -> list[Attempt]:
    """All attempts; of very many those in which something changed, and the best and the last."""
    attempts = list(result.attempts)
    if len(attempts) <= MOST_ATTEMPTS:
        return attempts
    kept: list[Attempt] = []
    for attempt in attempts:
        if not kept or _outcomes(attempt) != _outcomes(kept[-1]):
            kept.append(attempt)
    room = MOST_ATTEMPTS - 2
    must = [attempt for attempt in (result.best, attempts[-1]) if attempt is not None]
    numbers = {attempt.number for attempt in [*kept[:room], *must]}
    return [attempt for attempt in attempts if attempt.number in numbers]


def _outcomes(attempt: Attempt) -> list[list[str]]:
    return [[test.outcome for test in report.tests] for report in attempt.reports]


# --- the top ------------------------------------------------------------------


def _outcome(result: Result) -> str:
    best = result.best
    if result.passed and best is not None:
        return f"Passed in attempt {best.number}"
    if result.outcome is None:
        return "Not finished"
    return "Not passed"


def _banner(result: Result) -> Markup:
    tone = "good" if result.passed else "none" if result.outcome is None else "bad"
    mark = {"good": "✓", "bad": "✗"}.get(tone, "…")
    lines = [cut(result.task.strip().partition("\n")[0], 300), "" if result.passed else result.reason]
    best = result.best
    if result.gap is not None and best is not None and best.hidden is not None:
        lines.append(f"Of the hidden tests: {headline(best.hidden)}.")
    title = element("h1", f"{mark} {_outcome(result)}{_nearest(result)}")
    return element("header", title, *(element("p", line) for line in lines if line), class_=f"banner {tone}")


def _nearest(result: Result) -> str:
    """How near a run came that did not pass."""
    best = result.best
    if result.passed or best is None or best.report is None:
        return ""
    return f": in attempt {best.number}, the best, {headline(best.report)}"


def _figures(result: Result) -> Markup:
    attempts = result.attempts
    tokens = result.tokens
    pairs = [
        ("attempts", f"{len(attempts):,}"),
        ("time", _seconds(result.seconds or max((attempt.elapsed_seconds for attempt in attempts), default=0))),
        ("generating", _seconds(sum(attempt.generation_seconds for attempt in attempts))),
        ("verifying", _seconds(sum(attempt.verification_seconds for attempt in attempts))),
    ]
    if tokens.total:
        pairs.append(("tokens", f"{tokens.total:,}"))
    if result.gap is not None:
        pairs.append(("gap to hidden", f"{100 * result.gap:+.0f} %"))
    return figures(*pairs)


def _task(result: Result) -> Markup:
    settings = result.beginning
    told = [f"generator {settings.generator}" if settings.generator else "", f"disclosed: {settings.disclose}"]
    told.append(f"strategy {settings.strategy}")
    inside = element(
        "div", _pre(result.task), element("p", ", ".join(filter(None, told)), class_="quiet"), class_="inside"
    )
    return element("details", element("summary", "The task"), inside)


# --- tests × attempts ---------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    suite: str
    """`public` or `hidden`."""
    nodeid: str
    outcomes: tuple[str | None, ...]
    """In each of the attempts that are shown; None: it is not known."""

    @property
    def file(self) -> str:
        return self.nodeid.partition("::")[0] if "::" in self.nodeid else "cases"

    @property
    def name(self) -> str:
        return self.nodeid.partition("::")[2] or self.nodeid


def _grid(result: Result, shown: Sequence[Attempt]) -> Markup | None:
    public = _rows("public", [attempt.report for attempt in shown])
    hidden = _rows("hidden", [attempt.hidden for attempt in shown])
    rows = [*public[:MOST_TESTS], *hidden[:MOST_TESTS]]
    missing = len(public) + len(hidden) - len(rows)
    if not rows:
        return None
    bodies = []
    for (suite, file), group in itertools.groupby(rows, key=lambda row: (row.suite, row.file)):
        title = f"{file} (hidden)" if suite == "hidden" else file
        heading = element("tr", element("th", title, scope="rowgroup", colspan=len(shown) + 1))
        bodies.append(element("tbody", heading, *(_line(row, shown) for row in group)))
    head = element("thead", element("tr", element("th", "test", scope="col"), *map(_column, shown)))
    size = "grid dense" if len(shown) > ROOMY_ATTEMPTS else "grid"
    table = element("table", head, *bodies, class_=size, aria_label="The outcome of each test in each attempt")
    only = element("label", element("input", type="checkbox"), "only tests that failed at some time", class_="only")
    return element(
        "section",
        element("h2", "Tests × attempts"),
        element("p", _legend(len(result.attempts) - len(shown), missing), class_="quiet legend"),
        only,
        element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Tests by attempts"),
    )


def _rows(suite: str, reports: Sequence[Report | None]) -> list[_Row]:
    by_attempt = [
        {test.nodeid: test.outcome for test in report.tests} if report is not None else {} for report in reports
    ]
    names = dict.fromkeys(nodeid for outcomes in by_attempt for nodeid in outcomes)
    return [_Row(suite, nodeid, tuple(outcomes.get(nodeid) for outcomes in by_attempt)) for nodeid in names]


def _legend(attempts: int, tests: int) -> str:
    marks = ("✓ passed", "✗ failed", "! error", "◷ out of time", "– skipped", "· not run")
    said = ["   ".join(mark.replace(" ", "\N{NO-BREAK SPACE}") for mark in marks)]
    if attempts:
        said.append(f"{attempts} attempts that changed nothing are left out.")
    if tests:
        said.append(f"{tests} tests are left out.")
    return " ".join(said)


def _column(attempt: Attempt) -> Markup:
    passing = attempt.tests_passed
    total = sum(report.score[1] for report in attempt.reports)
    score = f"{passing}/{total}" if attempt.reports else "–"
    hint = f"Attempt {attempt.number}, iteration {attempt.iteration}: {score} tests pass"
    link = element("a", str(attempt.number), href=f"#attempt-{attempt.number}", title=hint)
    return element(
        "th", element("span", score, class_="score"), _bar(passing / total if total else 0), link, scope="col"
    )


def _bar(share: float) -> Markup:
    height = 30 * share
    rect = element("rect", x=3, y=30 - height, width=14, height=height, class_="bar")
    base = element("line", x1=0, x2=20, y1=30, y2=30, class_="axis")
    return element("svg", rect, base, viewBox="0 0 20 30", aria_hidden="true", class_="score-bar")


def _line(row: _Row, shown: Sequence[Attempt]) -> Markup:
    cells = [element("td", _cell(row, outcome, attempt)) for outcome, attempt in zip(row.outcomes, shown, strict=True)]
    failed = any(outcome not in ("passed", "xpassed") for outcome in row.outcomes)
    name = element("th", row.name, scope="row", title=row.nodeid)
    return element("tr", name, *cells, class_=None if failed else "is-good")


def _cell(row: _Row, outcome: str | None, attempt: Attempt) -> Markup:
    """A square that tells by mark and colour, and leads to what failed."""
    told = f"{row.nodeid} in attempt {attempt.number}: {outcome.replace('_', ' ') if outcome else 'not known'}"
    if outcome is None:
        return element("span", "·", class_="cell none", title=told, role="img", aria_label=told)
    look = {"class_": f"cell {tone_of(outcome)}", "title": told, "aria_label": told}
    index = _failure_index(row, attempt)
    if index is None:
        return element("span", mark_of(outcome), role="img", **look)
    return element("a", mark_of(outcome), href=f"#{_identity(attempt, row.suite, index)}", **look)


def _failure_index(row: _Row, attempt: Attempt) -> int | None:
    report = attempt.report if row.suite == "public" else attempt.hidden
    failures = report.failures[:MOST_FAILURES] if report is not None else ()
    return next((index for index, failure in enumerate(failures) if failure.nodeid == row.nodeid), None)


def _identity(attempt: Attempt, suite: str, index: int) -> str:
    return f"attempt-{attempt.number}-{suite}-{index + 1}"


# --- one attempt --------------------------------------------------------------


def _attempt(result: Result, attempt: Attempt) -> Markup:
    title = element("h3", f"Attempt {attempt.number}", *_verdicts(attempt))
    worst = next((report.verdict for report in attempt.reports if not report.passed), None)
    verdict = worst or ("passed" if attempt.passed else "no code")
    best = " · the best" if result.best is not None and attempt.number == result.best.number else ""
    costs = element("p", " · ".join(_cost(attempt)) + best, class_="quiet")
    return element(
        "article",
        title,
        costs,
        _changes(result, attempt),
        _failures("What failed", attempt, "public", attempt.report),
        _failures("What failed of the hidden tests", attempt, "hidden", attempt.hidden),
        _folded("Feedback that was sent", attempt.feedback),
        _folded("Reflection", attempt.reflection),
        _folded("Reply", attempt.reply),
        id=f"attempt-{attempt.number}",
        class_=tone_of(verdict),
    )


def _verdicts(attempt: Attempt) -> Iterator[str]:
    """Of each suite: a tag, and how many tests pass."""
    if attempt.report is None:
        yield from (" ", _tag("no code", "no code"), f" {cut(attempt.problem or 'not verified', 200)}")
    for kind, report in (("", attempt.report), ("hidden ", attempt.hidden)):
        if report is not None:
            yield from (" ", _tag(report.verdict, f"{kind}{report.verdict.replace('_', ' ')}"), f" {headline(report)}")


def _tag(verdict: str, said: str) -> Markup:
    return element("span", f"{mark_of(verdict)} {said}", class_=f"tag {tone_of(verdict)}")


def _cost(attempt: Attempt) -> Iterator[str]:
    if attempt.iteration == 0:
        yield "the code to begin with"
    elif attempt.sample:
        yield f"iteration {attempt.iteration}, sample {attempt.sample + 1}"
    if attempt.generation_seconds:
        yield f"{_seconds(attempt.generation_seconds)} to generate"
    yield f"{_seconds(attempt.verification_seconds)} to verify"
    if attempt.tokens.total:
        yield f"{attempt.tokens.prompt:,} tokens read, {attempt.tokens.completion:,} written"


def _failures(title: str, attempt: Attempt, suite: str, report: Report | None) -> Markup | None:
    if report is None or report.passed:
        return None
    shown = [_failure(failure, attempt, suite, index) for index, failure in enumerate(report.failures[:MOST_FAILURES])]
    missing = len(report.failures) - len(shown)
    more = element("p", f"And {missing} more.", class_="quiet") if missing else None
    inside = element("div", element("p", report.reason), *shown, more, class_="inside")
    return element("details", element("summary", f"{title} ({len(report.failures)})"), inside)


def _failure(failure: Failure, attempt: Attempt, suite: str, index: int) -> Markup:
    return failure_details(failure, identity=_identity(attempt, suite, index))


def _folded(title: str, said: str) -> Markup | None:
    if not said.strip():
        return None
    return element("details", element("summary", title), element("div", _pre(said), class_="inside"))


def _pre(said: str) -> Markup:
    return element("pre", cut(said.strip("\n"), LONGEST_TEXT))


# --- what changed -------------------------------------------------------------


def _changes(result: Result, attempt: Attempt) -> Markup | None:
    """The difference to the attempt that the generator had been told of; of the first, the code."""
    if attempt.submission is None:
        return None
    base = _base(result, attempt)
    if base is None or base.submission is None:
        files = [
            joined([element("p", element("code", path)), _pre(_text(data))])
            for path, data in sorted(attempt.submission.files.items())
        ]
        return element("details", element("summary", "The code"), element("div", *files, class_="inside"))
    lines = list(_diff(base.submission, attempt.submission))
    if not lines:
        return element("p", f"The same code as in attempt {base.number}.", class_="quiet")
    added = sum(kind == "added" for kind, _ in lines)
    removed = sum(kind == "removed" for kind, _ in lines)
    missing = len(lines) - MOST_DIFF_LINES
    shown = [element("span", text, class_=kind) for kind, text in lines[:MOST_DIFF_LINES]]
    if missing > 0:
        shown.append(element("span", f"… {missing} lines more", class_="hunk"))
    count = f"{added} line{'s' * (added != 1)} added, {removed} removed"
    summary = element("summary", f"Changes since attempt {base.number}: {count}")
    inside = element("div", element("pre", *shown, class_="diff"), class_="inside")
    return element("details", summary, inside, open=len(result.attempts) <= ROOMY_ATTEMPTS)


def _base(result: Result, attempt: Attempt) -> Attempt | None:
    earlier = [one for one in result.attempts if one.iteration < attempt.iteration and one.submission is not None]
    told = [one for one in earlier if one.feedback]
    return next(reversed(told or earlier), None)


def _diff(before: Submission, after: Submission) -> Iterator[tuple[str, str]]:
    """Kind and text of each line of a unified diff over all files."""
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old == new:
            continue
        was, is_now = _text(old or b"").splitlines(), _text(new or b"").splitlines()
        yield "hunk", path + (" (new)" if old is None else " (removed)" if new is None else "")
        if max(len(was), len(is_now)) > LARGEST_COMPARED:
            yield "hunk", f"{len(was)} lines before, {len(is_now)} now: too many to compare"
            continue
        for line in list(difflib.unified_diff(was, is_now, lineterm="", n=3))[2:]:
            yield {"+": "added", "-": "removed", "@": "hunk"}.get(line[:1], "same"), line


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


# --- time and tokens ----------------------------------------------------------


def _costs(shown: Sequence[Attempt]) -> Markup | None:
    if not shown:
        return None
    counted = any(attempt.tokens.total for attempt in shown)
    names = ["attempt", "tests passed", "generating", "verifying", *(["tokens read", "tokens written"] * counted)]
    rows = [_cost_row(attempt)[: len(names)] for attempt in shown]
    head = element("tr", *(element("th", name, scope="col", class_="number") for name in names))
    body = [element("tr", *(element("td", value, class_="number") for value in row)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *body))
    title = element("h2", "Time and tokens" if counted else "Time")
    return element("section", title, element("div", table, class_="scroll", tabindex=0))


def _cost_row(attempt: Attempt) -> tuple[str, ...]:
    return (
        str(attempt.number),
        str(attempt.tests_passed) if attempt.reports else "–",
        _seconds(attempt.generation_seconds),
        _seconds(attempt.verification_seconds),
        f"{attempt.tokens.prompt:,}",
        f"{attempt.tokens.completion:,}",
    )


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"
