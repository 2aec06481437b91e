"""The pages for a report and for a batch, as text and in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import Case, Failure, Report, Submission, Suite, TestResult, verify
from harness.cli import main
from harness.formats import batch_html, html
from harness.formats.pages import STYLE
from harness.models import Assertion, ErrorInfo, Frame, HypothesisInfo, Integrity, Isolation, WarningInfo
from harness.summary import Summary
from tests.browser import PHONE, Browser
from tests.markup import HOSTILE, foreign_markup

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
SUBMISSION = f"""\
def half(number):
    print("{EVIL}")
    raise ValueError("{EVIL}")

def twice(number):
    return number + 1
"""
SUITE = """\
import pytest
from solution import half, twice

@pytest.mark.parametrize("number", [1, 5, "<b>bold</b>" * 30])
def test_twice(number):
    assert twice(number) == number * 2

def test_half():
    assert half(3) == 1.5

@pytest.mark.skip(reason="not <i>today</i>")
def test_later():
    pass
"""
WIDE = "document.documentElement.scrollWidth <= innerWidth"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def report() -> Report:
    suite = Suite.from_code(SUITE, cases=(Case(call="solution.twice", args=[4], expected=8),))
    return verify(Submission.from_code(SUBMISSION), suite, runner="bubblewrap")


@pytest.fixture(scope="module")
def verify_page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "verify.html"
    path.write_text(html.render(report), "utf-8")
    return path


@pytest.fixture(scope="module")
def batch_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `reproof batch --html` writes, of real jobs."""
    folder = tmp_path_factory.mktemp("batch")
    tests = {"test_solution.py": "from solution import f\ndef test_f(): assert f(1) == 1"}
    codes = ["def f(x): return x", "def f(x): return 2", f"def f(x): raise ValueError('{EVIL}')", "def f(:", "f = abs"]
    jobs = [
        {"id": f"job-{n}{EVIL * (n == 2)}", "files": {"solution.py": code}, "tests": tests}
        for n, code in enumerate(codes)
    ]
    lines = [*map(json.dumps, jobs), "not a job"]
    (folder / "jobs.jsonl").write_text("\n".join(lines))
    options = [
        "--output",
        str(folder / "results.jsonl"),
        "--html",
        str(folder / "batch.html"),
        "--runner",
        "bubblewrap",
    ]
    assert main(["batch", str(folder / "jobs.jsonl"), *options]) == 3
    return folder / "batch.html"


# --- in a browser -------------------------------------------------------------


@pytest.mark.parametrize("name", ["verify_page", "batch_page"])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_needs_nothing_but_itself(browser: Browser, request, name, dark):
    """
    A page opens without a request to anywhere and without a complaint on the console.
    """
    seen = browser.see(request.getfixturevalue(name), {}, dark=dark)

    assert (seen.requests, seen.complaints) == ([], [])


@pytest.mark.parametrize("name", ["verify_page", "batch_page"])
def test_what_a_candidate_wrote_is_shown_and_not_obeyed(browser: Browser, request, name):
    """
    Tags of a candidate stand on the page as text; nothing of it is an image or a script.
    """
    asked = {
        "images": "document.images.length",
        "scripts": "document.scripts.length",
        "text": "document.body.textContent",
    }
    seen = browser.see(request.getfixturevalue(name), asked)

    assert (seen.values["images"], seen.values["scripts"]) == (0, 1)
    assert "<img src=x onerror=alert(" in seen.values["text"]


@pytest.mark.parametrize("name", ["verify_page", "batch_page"])
def test_a_page_follows_the_readers_choice_of_dark(browser: Browser, request, name):
    """
    Dark mode has another background and another colour of text.
    """
    page = request.getfixturevalue(name)
    asked = {"back": BACKGROUND, "text": "getComputedStyle(document.body).color"}

    light, dark = browser.see(page, asked), browser.see(page, asked, dark=True)

    assert light.values["back"] != dark.values["back"]
    assert light.values["text"] != dark.values["text"]


@pytest.mark.parametrize("name", ["verify_page", "batch_page"])
def test_a_page_fits_a_phone(browser: Browser, request, name):
    """
    At 375 pixels the page does not scroll sideways, all of it unfolded.
    """
    unfold = "document.querySelectorAll('details').forEach(d => d.open = true)"
    seen = browser.see(request.getfixturevalue(name), {"": unfold, "fits": WIDE}, width=PHONE)

    assert seen.values["fits"]


def test_the_verdict_and_every_test_are_seen_at_once(browser: Browser, verify_page):
    """
    Above the fold: what came of it, and a square for each test.
    """
    asked = {
        "title": "document.querySelector('h1').innerText",
        "cells": "[...document.querySelectorAll('.strip .cell')].map(c => c.innerText + c.className.slice(4))",
        "bottom": "document.querySelector('.figures').getBoundingClientRect().bottom",
        "label": "document.querySelector('.strip').getAttribute('aria-label')",
    }
    seen = browser.see(verify_page, asked).values

    assert seen["title"] == "✗ Failed: 1 of 5 tests pass"
    assert seen["cells"] == ["✗ bad", "✓ good", "✗ bad", "✗ bad", "✗ bad", "– none"]
    assert seen["label"] == "6 tests: 4 failed, 1 passed, 1 skipped"
    assert seen["bottom"] < 800


def test_a_failure_shows_what_was_expected_and_what_came(browser: Browser, verify_page):
    """
    The first failure is open, with both values and the part marked in which they differ.
    """
    asked = {
        "facts": "document.querySelector('.failure .facts').innerText.split('\\n').filter(Boolean)",
        "marks": "[...document.querySelectorAll('.failure')][0].querySelectorAll('mark').length",
        "height": "document.querySelector('.failure .facts').getBoundingClientRect().height",
    }
    seen = browser.see(verify_page, asked).values

    assert seen["facts"][:4] == ["expected", "8", "got", "5"]
    assert seen["marks"] == 2 and seen["height"] > 20


def test_the_page_says_how_far_the_verdict_can_be_trusted():
    """
    Seat, reason and suspicions are there; proof of tampering comes before everything else.
    """
    integrity = Integrity(
        seat="in_process", reason="it patches", findings=("it replaced sys.exit",), suspicions=("reads",)
    )
    page = html.render(Report(verdict="tampered", reason="", integrity=integrity))

    assert page.index("it replaced sys.exit") < page.index("How far it can be trusted") < page.index("it patches")
    assert "reads" in page


def test_a_test_that_was_ended_is_told_in_words_of_its_own():
    """
    By which exception the guest ended it is of no interest to a reader.
    """
    ours = ErrorInfo(type="CandidateLost", module="reproof_guest.judging", message="the candidate was lost")
    failure = Failure(nodeid="t", phase="call", kind="timeout", message="ran longer than its 5 seconds", exception=ours)
    report = Report(verdict="failed", reason="", failures=(failure,))

    for said in (html.render(report), str(report)):
        assert "ran longer than its 5 seconds" in said and "CandidateLost" not in said


def test_where_a_test_was_stuck_is_told_without_addresses():
    """
    Of the stack there are the code's own lines, on the page and at the terminal.
    """
    stack = 'Current thread 0x00007f50ee49db80 (most recent call first):\n  File "solution.py", line 7 in f\n'
    failure = Failure(nodeid="t", phase="call", kind="timeout", message="too slow", stack=stack)
    report = Report(verdict="failed", reason="", failures=(failure,))

    for said in (html.render(report), str(report)):
        assert "Current thread (most recent call first)" in said and "line 7 in f" in said and "0x" not in said


def test_the_name_of_a_failure_stands_beside_its_mark_on_a_phone(browser: Browser, tmp_path):
    """
    However long it is, it begins where the mark for unfolding is.
    """
    failure = Failure(nodeid="tests/test_a.py::test_" + "x" * 60, phase="call", kind="assertion", message="no")
    path = tmp_path / "long.html"
    path.write_text(html.render(Report(verdict="failed", reason="", failures=(failure,))), "utf-8")

    above = "(s => s.querySelector('b').getClientRects()[0].top - s.getBoundingClientRect().top)"
    seen = browser.see(path, {"above": f"{above}(document.querySelector('.failure summary'))"}, width=PHONE)

    assert seen.values["above"] < 24


def test_a_batch_lists_only_tests_that_fail_more_than_once():
    """
    Where every job has tests of its own, a list of those that failed once says nothing.
    """
    failures = [Failure(nodeid=name, phase="call", kind="assertion", message="no") for name in ("rare", "usual")]
    summary = Summary()
    summary.add("a", Report(verdict="failed", reason="", failures=tuple(failures)))
    assert "Tests that fail most often" not in batch_html.render(summary)

    summary.add("b", Report(verdict="failed", reason="", failures=tuple(failures[1:])))

    page = batch_html.render(summary)
    assert "Tests that fail most often" in page and "usual" in page and "rare" not in page


def test_tests_that_pass_can_be_hidden(browser: Browser, verify_page):
    """
    One click leaves the tests that do not pass.
    """
    rows = "[...document.querySelectorAll('tbody tr[class]')].filter(r => r.offsetHeight).length"
    click = "document.querySelector('.only input').click()"
    seen = browser.see(verify_page, {"before": rows, "click": click, "after": rows}).values

    assert (seen["before"], seen["after"]) == (6, 4)


def test_the_page_of_a_batch_tells_its_verdicts(browser: Browser, batch_page):
    """
    How many of which verdict, how long, how much memory, what is slow and what fails.
    """
    asked = {
        "title": "document.querySelector('h1').innerText",
        "text": "document.body.innerText",
        "bars": "document.querySelectorAll('figure svg .bar').length",
    }
    seen = browser.see(batch_page, asked).values

    assert seen["title"] == "6 jobs, 33.3 % passed"
    assert all(name in seen["text"] for name in ("Most common failures", "Slowest jobs", "could not be judged"))
    assert "SyntaxError" in seen["text"]
    assert seen["bars"] >= 2


# --- as text ------------------------------------------------------------------


@st.composite
def hostile_reports(draw: st.DrawFn) -> Report:
    """A candidate's text in every place that a report has for text."""

    def said() -> Any:
        return draw(HOSTILE)

    frame = Frame(path=said(), line=3, function=said(), source=said(), owner="submission", locals={said(): said()})
    inner = ErrorInfo(type=said(), message=said(), frames=(frame,))
    warning = WarningInfo(category=said(), message=said())
    failure = Failure(
        nodeid=said(),
        phase="call",
        kind="exception",
        message=said(),
        exception=ErrorInfo(type=said(), message=said(), notes=(said(),), cause=inner, group=(inner,), frames=(frame,)),
        assertion=draw(st.none() | st.builds(Assertion, operator=HOSTILE, left=HOSTILE, right=HOSTILE, diff=HOSTILE)),
        frames=(frame,),
        hypothesis=HypothesisInfo(example=said(), seed=0),
        subtest=said(),
        stack=said(),
        stdout=said(),
        stderr=said(),
        log=said(),
        warnings=(warning,),
    )
    words = dict.fromkeys(("runner", "network", "filesystem", "processes", "memory", "user"), said())
    return Report(
        verdict=draw(st.sampled_from(["passed", "failed", "invalid"])),
        reason=said(),
        tests=(TestResult(nodeid=said(), outcome="failed", reason=said()),),
        failures=(failure,),
        warnings=(warning,),
        notes=(said(),),
        output=said(),
        runner=said(),
        isolation=Isolation(**words),
        integrity=Integrity(seat="separate", reason=said(), checks=(said(),), findings=(said(),), suspicions=(said(),)),
        counts={said(): 1},
        python=said(),
        pytest=said(),
        version=said(),
    )


@given(report=hostile_reports())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_of_a_report_becomes_markup(report):
    """
    Whatever a candidate writes, and wherever, the page holds no element and no attribute of its making.
    """
    assert foreign_markup(html.render(report)) == []


@given(reports=st.lists(st.tuples(HOSTILE, hostile_reports()), max_size=3))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_of_a_batch_becomes_markup(reports):
    """
    The same for the page that sums many reports up, ids of jobs included.
    """
    summary = Summary()
    for identity, report in reports:
        summary.add(identity, report)

    assert foreign_markup(batch_html.render(summary)) == []


def test_the_reader_of_these_tests_finds_markup():
    """
    A page into which text got unescaped is found out.
    """
    page = html.render(Report(verdict="failed", reason="REASON"))

    assert foreign_markup(page) == []
    assert foreign_markup(page.replace("REASON", "<zq onzq=1>")) == ["<zq>", "<zq onzq>"]


def test_nothing_may_run_or_load():
    """
    The policy allows the page's own style and script, by their hashes, and nothing else.
    """
    page = html.render(Report(verdict="passed", reason=""))

    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
    assert "unsafe" not in policy[1]


def _brightness(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _palettes() -> list[dict[str, str]]:
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")[:2]
    palettes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in (light, dark)]
    return [palettes[0], {**palettes[0], **palettes[1]}]


@pytest.mark.parametrize("palette", _palettes(), ids=["light", "dark"])
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        *[(name, ground) for name in ("text", "quiet", "link") for ground in ("page", "panel")],
        *[(tone, f"{tone}-panel") for tone in ("good", "bad", "warn", "none")],
        *[(tone, ground) for tone in ("good", "bad", "warn", "none") for ground in ("page", "panel")],
        *[("text", f"{tone}-panel") for tone in ("good", "bad", "warn", "none")],
    ],
)
def test_every_text_can_be_read(palette, text, ground):
    """
    Text and ground differ by the 4.5 : 1 that the accessibility guidelines (WCAG AA) ask for.
    """
    brighter, darker = sorted((_brightness(palette[text]), _brightness(palette[ground])), reverse=True)

    assert (brighter + 0.05) / (darker + 0.05) >= 4.5
