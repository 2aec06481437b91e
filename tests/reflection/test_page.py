"""The page of a reflection run, as text and in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import Failure, Report, Submission, Suite, TestResult, verify, warm
from reflection.conversation import Tokens
from reflection.feedback import feedback
from reflection.page import MOST_ATTEMPTS, page
from reflection.transcript import Attempt, Beginning, Result
from tests.browser import PHONE, Browser
from tests.markup import HOSTILE, foreign_markup

EVIL = "<img src=x onerror=alert(1)>"
CODES = (
    "def double(x):\n    return x + 1\n\ndef name():\n    return 'a'\n",
    "def double(x):\n    return x * 2\n\ndef name():\n    raise ValueError('<img src=x onerror=alert(1)>')\n",
    "def double(x):\n    return x * 2\n\ndef name():\n    return 'a'\n",
)
PUBLIC = Suite.from_code(
    "from solution import double, name\n"
    "def test_one(): assert double(1) == 2\ndef test_two(): assert double(2) == 4\n"
    "def test_name(): assert name() == 'a'\n"
)
HIDDEN = Suite.from_code(
    "from solution import double\ndef test_text(): assert double('ab') == 'abab'\n", "test_hidden.py"
)


def attempt_of(number: int, report: Report | None, **more: object) -> Attempt:
    return Attempt(number=number, iteration=number, report=report, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def result() -> Result:
    """Three attempts that were really verified: one test fixed and one broken, then all right."""
    attempts: list[Attempt] = []
    with warm("bubblewrap", size=1) as pool:
        for number, code in enumerate(CODES, 1):
            submission = Submission.from_code(code)
            report, hidden = verify(submission, PUBLIC, runner=pool), verify(submission, HIDDEN, runner=pool)
            told = "" if report.passed else feedback(report, previous=[one.report for one in attempts if one.report])
            attempts.append(
                attempt_of(
                    number,
                    report,
                    hidden=hidden,
                    submission=submission,
                    feedback=told,
                    reply=f"Attempt {EVIL}",
                    tokens=Tokens(prompt=1_000 * number, completion=50),
                    generation_seconds=2.5,
                    verification_seconds=0.2,
                )
            )
    beginning = Beginning(task=f"Write double(x) {EVIL}", suite="digest", hidden="digest", disclose="count")
    return Result(beginning=beginning, attempts=tuple(attempts), outcome="passed", reason="attempt 3 passed", seconds=9)


@pytest.fixture(scope="module")
def written(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "run.html"
    path.write_text(page(result), "utf-8")
    return path


# --- in a browser -------------------------------------------------------------

GRID = """
[...document.querySelectorAll('.grid tr')].filter(row => row.querySelector('td')).map(row =>
  row.querySelector('th').innerText + ' ' + [...row.querySelectorAll('.cell')].map(cell => cell.innerText).join(''))
"""


def test_the_grid_shows_each_test_in_each_attempt(browser: Browser, written):
    """
    A row for each test, the hidden ones last, and a mark for each attempt.
    """
    seen = browser.see(written, {"grid": GRID})

    assert seen.values["grid"] == ["test_one ✓✓✓", "test_two ✗✓✓", "test_name ✓✗✓", "test_text ✗✓✓"]


def test_each_cell_says_in_words_what_it_shows(browser: Browser, written):
    """
    Who cannot see the colours, or the page, is told test, attempt and outcome.
    """
    labels = "[...document.querySelectorAll('.grid .cell')].map(cell => cell.getAttribute('aria-label'))"
    seen = browser.see(written, {"labels": labels})

    assert "test_solution.py::test_two in attempt 1: failed" in seen.values["labels"]
    assert all(seen.values["labels"])


def test_a_cell_leads_to_its_failure(browser: Browser, written):
    """
    A click on a failed test unfolds what failed in that attempt.
    """
    click = "[...document.querySelectorAll('.grid a.cell')].find(a => a.title.includes('test_name')).click()"
    arrived = f"new Promise(done => {{ addEventListener('hashchange', done); {click} }})"
    found = "(found => [found.open, found.innerText])(document.querySelector(location.hash))"
    seen = browser.see(written, {"opened": f"{arrived}.then(() => {found})"})

    is_open, text = seen.values["opened"]
    assert is_open and "ValueError" in text and "solution.py:5 in name" in text


def test_the_difference_between_attempts_is_seen(browser: Browser, written):
    """
    Lines that were added and removed stand there in their colours, without a click.
    """
    lines = "[...document.querySelectorAll('#attempt-2 .diff .{}')].filter(e => e.offsetHeight).map(e => e.innerText)"
    asked = {name: lines.format(name) for name in ("added", "removed")}
    asked["colours"] = (
        "new Set([...document.querySelectorAll('.diff span')].map(e => getComputedStyle(e).backgroundColor)).size"
    )
    seen = browser.see(written, asked).values

    assert seen["added"] == ["+    return x * 2", f"+    raise ValueError('{EVIL}')"]
    assert seen["removed"] == ["-    return x + 1", "-    return 'a'"]
    assert seen["colours"] == 3


def test_feedback_time_and_tokens_of_each_attempt_are_there(browser: Browser, written):
    """
    What was said to the generator is there word for word, and what it cost.
    """
    asked = {"all": "document.body.textContent", "costs": "document.querySelector('#attempt-2 .quiet').innerText"}
    seen = browser.see(written, asked).values

    assert "It passed in attempt 1 and fails now." in seen["all"]
    assert seen["costs"] == "2.5 s to generate · 0.2 s to verify · 2,000 tokens read, 50 written"


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_needs_nothing_but_itself(browser: Browser, written, dark):
    """
    It opens without a request, a complaint, or an image that a candidate asked for.
    """
    seen = browser.see(written, {"images": "document.images.length"}, dark=dark)

    assert (seen.requests, seen.complaints, seen.values["images"]) == ([], [], 0)


def test_dark_mode_changes_the_grid(browser: Browser, written):
    """
    Cells have other colours in the dark.
    """
    asked = {"cell": "getComputedStyle(document.querySelector('.cell.bad')).backgroundColor"}

    assert browser.see(written, asked).values != browser.see(written, asked, dark=True).values


def test_a_grid_of_many_attempts_keeps_its_rows_readable(browser: Browser, tmp_path):
    """
    However many columns there are, the name of a test stands on one line beside its cells.
    """
    report = Report(
        verdict="failed", reason="", tests=(TestResult(nodeid="t.py::test_a_name_of_words", outcome="failed"),)
    )
    attempts = tuple(attempt_of(number, report) for number in range(1, 51))
    path = tmp_path / "many.html"
    path.write_text(page(Result(beginning=Beginning(task="t", suite=""), attempts=attempts)), "utf-8")

    seen = browser.see(path, {"height": "document.querySelector('.grid td').parentElement.offsetHeight"})

    assert seen.values["height"] < 40


def test_the_page_fits_a_phone_however_many_attempts_there_are(browser: Browser, tmp_path):
    """
    A wide grid scrolls in its own frame; the page itself does not.
    """
    report = Report(verdict="failed", reason="", tests=(TestResult(nodeid="t.py::test_" + "x" * 80, outcome="failed"),))
    attempts = [attempt_of(number, report) for number in range(1, 51)]
    path = tmp_path / "wide.html"
    path.write_text(page(Result(beginning=Beginning(task="t" * 200, suite=""), attempts=tuple(attempts))), "utf-8")

    asked = {
        "unfold": "document.querySelectorAll('details').forEach(d => d.open = true)",
        "fits": "document.documentElement.scrollWidth <= innerWidth",
        "scrolls": "(e => e.scrollWidth > e.clientWidth)(document.querySelector('.scroll'))",
    }
    seen = browser.see(path, asked, width=PHONE).values

    assert seen["fits"] and seen["scrolls"]


# --- as text ------------------------------------------------------------------


def test_an_attempt_that_fails_hidden_tests_is_not_shown_as_good():
    """
    Both verdicts stand beside its number.
    """

    def report(verdict: str, outcome: str) -> Report:
        return Report(verdict=verdict, reason="", tests=(TestResult(nodeid="t", outcome=outcome),))  # type: ignore[arg-type]

    attempt = attempt_of(1, report("passed", "passed"), hidden=report("failed", "failed"))

    text = page(Result(beginning=Beginning(task="t", suite="", hidden=""), attempts=(attempt,), outcome="iterations"))

    article = text[text.index("<article") :]
    assert article.startswith('<article id="attempt-1" class="bad">')
    assert "✓ passed</span> all 1 tests pass" in article and "✗ hidden failed</span> 0 of 1 tests pass" in article


def test_tokens_are_told_where_there_are_any():
    """
    A search uses none, and has no column for them.
    """
    silent, talking = attempt_of(1, None), attempt_of(1, None, tokens=Tokens(prompt=5))

    texts = [page(Result(beginning=Beginning(task="t", suite=""), attempts=(one,))) for one in (silent, talking)]

    assert ["tokens read" in text for text in texts] == [False, True]


def test_a_long_search_shows_the_attempts_that_changed_something():
    """
    Of hundreds of attempts the grid keeps those that differ, the best and the last, and says how many it left out.
    """

    def report(outcome: str) -> Report:
        tests = (TestResult(nodeid="t", outcome=outcome),)  # type: ignore[arg-type]
        return Report(verdict="failed", reason="", tests=tests)

    bad, good = report("failed"), report("passed")
    attempts = [attempt_of(number, good if number == 150 else bad) for number in range(1, 301)]

    text = page(Result(beginning=Beginning(task="t", suite=""), attempts=tuple(attempts)))

    assert [number for number in range(1, 301) if f'id="attempt-{number}"' in text] == [1, 150, 151, 300]
    assert "296 attempts that changed nothing are left out." in text
    assert text.count("<article") <= MOST_ATTEMPTS


def test_an_attempt_without_code_says_why():
    """
    A reply from which no code could be taken has its place, too.
    """
    text = page(
        Result(beginning=Beginning(task="t", suite=""), attempts=(attempt_of(1, None, problem="no code block"),))
    )

    assert "no code block" in text


@st.composite
def hostile_results(draw: st.DrawFn) -> Result:
    def said() -> str:
        return draw(HOSTILE).encode("utf-8", "replace").decode()

    attempts = []
    for number in (1, 2):
        failure = Failure(nodeid=said(), phase="call", kind="exception", message=said(), stdout=said())
        report = Report(
            verdict="failed",
            reason=said(),
            tests=(TestResult(nodeid=failure.nodeid, outcome="failed", reason=said()),),
            failures=(failure,),
        )
        attempts.append(
            attempt_of(
                number,
                report,
                hidden=report,
                submission=Submission.from_files({"a.py": said()}),
                reply=said(),
                feedback=said(),
                reflection=said(),
                problem=draw(st.none() | HOSTILE),
            )
        )
    beginning = Beginning(task=said(), suite=said(), generator=said(), disclose=said(), strategy=said())
    return Result(beginning=beginning, attempts=tuple(attempts), outcome="stuck", reason=said())


@given(result=hostile_results())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_of_a_run_becomes_markup(result):
    """
    Task, code, replies, feedback and reports stand on the page as text, whatever is in them.
    """
    assert foreign_markup(page(result)) == []
