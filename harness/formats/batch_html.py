"""Many reports as one page: what they came to, how long they took, what most of them fail of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..summary import Common, Distribution, Slow, Summary
from .pages import Markup, document, element, figures, mark_of, tone_of

__all__ = ["render"]

MOST_CAUSES = 15
_ORDER = (
    "passed",
    "failed",
    "broken",
    "timeout",
    "out_of_memory",
    "limit",
    "crashed",
    "tampered",
    "no_tests",
    "invalid",
)


def render(summary: Summary) -> str:
    """The whole summary as one self-contained file."""
    share = _percent(summary.verdicts["passed"], summary.count)
    title = f"{_number(summary.count)} jobs, {share} passed"
    return document(
        title,
        _banner(summary, title),
        _verdicts(summary),
        _distributions(summary),
        _causes(
            "Most common failures",
            "Numbers and quoted values are left out, so that like failures count together.",
            summary.failures.most_common(MOST_CAUSES),
            "failure",
        ),
        _causes("Tests that fail most often", "", _repeated(summary.tests.most_common(MOST_CAUSES)), "test"),
        _slowest(summary.slowest),
        _causes(
            "Jobs that could not be judged",
            "These are faults of ours or of the job file, and no verdict on a candidate.",
            summary.faults.most_common(MOST_CAUSES),
            "reason",
        ),
        footer=f"Reproof {summary.version}".strip(),
    )


def _banner(summary: Summary, title: str) -> Markup:
    invalid = summary.verdicts["invalid"]
    judged = summary.count - invalid
    tone = "good" if judged and summary.verdicts["passed"] == judged else "none"
    said = f"{_number(invalid)} could not be judged." if invalid else "Every job has a verdict."
    return element("header", element("h1", title), element("p", said), class_=f"banner {'bad' if invalid else tone}")


def _verdicts(summary: Summary) -> Markup:
    found = [(name, summary.verdicts[name]) for name in _ORDER if summary.verdicts[name]]
    rects, at = [], 0.0
    for name, count in found:
        width = 1000 * count / max(summary.count, 1)
        hint = element("title", f"{_words(name)}: {_number(count)}")
        rects.append(element("rect", hint, x=at, y=0, width=max(width - 2, 1), height=40, class_=tone_of(name)))
        at += width
    told = ", ".join(f"{_number(count)} {_words(name)}" for name, count in found)
    bar = element(
        "svg", *rects, viewBox="0 0 1000 40", preserveAspectRatio="none", role="img", aria_label=told, class_="verdicts"
    )
    rows = [
        element(
            "tr",
            element("td", element("span", f"{mark_of(name)} {_words(name)}", class_=f"tag {tone_of(name)}")),
            element("td", _number(count), class_="number"),
            element("td", _percent(count, summary.count), class_="number"),
        )
        for name, count in found
    ]
    head = _head("verdict", "jobs", "share")
    table = element("table", head, element("tbody", *rows))
    beside = element("div", table, _figures(summary), class_="pair")
    return element("section", element("h2", "Verdicts"), bar, beside)


def _figures(summary: Summary) -> Markup:
    seconds, memory = summary.seconds, summary.memory_mb
    elapsed = summary.elapsed_seconds
    return figures(
        ("half are done in", _seconds(seconds.quantile(0.5))),
        ("99 of 100 in", _seconds(seconds.quantile(0.99))),
        ("longest", _seconds(seconds.largest)),
        ("memory of half", _megabytes(memory.quantile(0.5))),
        ("most memory", _megabytes(memory.largest)),
        ("this run took", _seconds(elapsed)),
        *([("from the cache", _number(summary.cached))] if summary.cached else []),
    )


# --- distributions ------------------------------------------------------------


def _distributions(summary: Summary) -> Markup | None:
    if not summary.seconds.count:
        return None
    total = sum(summary.phases.values()) or 1.0
    spent = ", ".join(f"{name} {_percent(value, total)}" for name, value in summary.phases.items() if value)
    return element(
        "section",
        element("h2", "Time and memory"),
        element(
            "div",
            _histogram("Seconds for a job", summary.seconds, _seconds),
            _histogram("Peak memory of a job", summary.memory_mb, _megabytes),
            class_="pair",
        ),
        element("p", f"Where the time went: {spent}.", class_="quiet") if spent else None,
    )


WIDTH, HEIGHT, TOP, BOTTOM = 480, 190, 30, 24
MOST_BARS = 48


def _histogram(title: str, found: Distribution, unit: Callable[[float], str]) -> Markup:
    """Bars over a logarithmic axis, and lines where half, nine tenths and 99 hundredths of the jobs are done."""
    bars = found.bars(MOST_BARS)
    low, high = bars[0][0], bars[-1][1]
    quantiles = [("50 %", found.quantile(0.5)), ("90 %", found.quantile(0.9)), ("99 %", found.quantile(0.99))]
    axis = HEIGHT - BOTTOM
    told = ", ".join(f"{name} within {unit(value)}" for name, value in quantiles)
    chart = element(
        "svg",
        *_bars(bars, unit),
        *(_line(name, value, low, high, row) for row, (name, value) in enumerate(quantiles)),
        element("line", x1=0, x2=WIDTH, y1=axis, y2=axis, class_="axis"),
        element("text", unit(low), x=0, y=HEIGHT - 6),
        element("text", unit(high), x=WIDTH, y=HEIGHT - 6, text_anchor="end"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title}: {told}",
    )
    caption = element("figcaption", element("b", title), element("p", told, class_="quiet"))
    return element("figure", caption, chart)


def _bars(bars: Sequence[tuple[float, float, int]], unit: Callable[[float], str]) -> list[Markup]:
    width, room = WIDTH / len(bars), HEIGHT - TOP - BOTTOM
    tallest = max(count for _, _, count in bars)
    drawn = []
    for index, (low, high, count) in enumerate(bars):
        height = max(room * count / tallest, 1.5) if count else 0
        hint = element("title", f"{unit(low)} to {unit(high)}: {_number(count)} jobs")
        place = {"x": index * width, "y": HEIGHT - BOTTOM - height, "width": max(width - 1, 1), "height": height}
        drawn.append(element("rect", hint, class_="bar", **place))
    return drawn


def _line(name: str, value: float, low: float, high: float, row: int) -> Markup:
    x = min(WIDTH - 1.0, max(1.0, WIDTH * math.log(max(value, low) / low) / math.log(high / low)))
    anchor = "end" if x > WIDTH - 40 else "start" if x < 40 else "middle"
    top = TOP - 4 - 13 * (row == 1)  # the names of two that are close do not touch
    line = element("line", x1=x, x2=x, y1=top, y2=HEIGHT - BOTTOM, class_="quantile")
    return element("g", line, element("text", name, x=x, y=top - 2, text_anchor=anchor))


# --- tables -------------------------------------------------------------------


def _causes(title: str, remark: str, found: Sequence[tuple[str, Common]], what: str) -> Markup | None:
    if not found:
        return None
    most = found[0][1].count
    rows = [
        element(
            "tr",
            element("td", _number(common.count), class_="number"),
            element("td", _share_bar(common.count / most), class_="optional share"),
            element("td", element("code", cause)),
            element("td", element("code", common.example), class_="optional"),
        )
        for cause, common in found
    ]
    head = element(
        "thead",
        element(
            "tr",
            element("th", "jobs", scope="col", class_="number"),
            element("th", "", scope="col", class_="optional", aria_label="share"),
            element("th", what, scope="col"),
            element("th", "for example", scope="col", class_="optional"),
        ),
    )
    note = element("p", remark, class_="quiet") if remark else None
    return element("section", element("h2", title), note, element("table", head, element("tbody", *rows)))


def _repeated(found: Sequence[tuple[str, Common]]) -> list[tuple[str, Common]]:
    """Where every job has tests of its own, those that fail once say nothing."""
    return [(name, common) for name, common in found if common.count > 1]


def _share_bar(share: float) -> Markup:
    rect = element("rect", x=0, y=0, width=100 * share, height=10, class_="bar")
    return element("svg", rect, viewBox="0 0 100 10", preserveAspectRatio="none", aria_hidden="true")


def _slowest(found: Sequence[Slow]) -> Markup | None:
    if not found:
        return None
    rows = [
        element(
            "tr",
            element("td", _seconds(slow.seconds), class_="number"),
            element(
                "td",
                element(
                    "span", f"{mark_of(slow.verdict)} {_words(slow.verdict)}", class_=f"tag {tone_of(slow.verdict)}"
                ),
            ),
            element("td", element("code", slow.job)),
            element("td", slow.reason, class_="optional quiet"),
        )
        for slow in found
    ]
    head = element(
        "thead",
        element(
            "tr",
            element("th", "time", scope="col", class_="number"),
            element("th", "verdict", scope="col"),
            element("th", "job", scope="col"),
            element("th", "reason", scope="col", class_="optional"),
        ),
    )
    return element("section", element("h2", "Slowest jobs"), element("table", head, element("tbody", *rows)))


def _head(*names: str) -> Markup:
    return element(
        "thead",
        element(
            "tr",
            *(element("th", name, scope="col", class_="number" if index else None) for index, name in enumerate(names)),
        ),
    )


# --- numbers ------------------------------------------------------------------


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: int) -> str:
    return f"{value:,}"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def _seconds(value: float) -> str:
    if value >= 100:
        minutes, seconds = divmod(round(value), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms" if value >= 0.01 else f"{1000 * value:.1f} ms"


def _megabytes(value: float) -> str:
    return f"{value / 1024:.1f} GB" if value >= 1024 else f"{value:.0f} MB" if value >= 10 else f"{value:.1f} MB"
