"""Transcripts: what is written can be read, and what was cut off is not in the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import Report, Submission, TestResult
from reflection import Attempt, Tokens, read_transcript
from reflection.transcript import Beginning, Transcript

BEGINNING = Beginning(task="Write add.", suite="0" * 64, generator="mine")

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
REPORTS = st.builds(
    Report,
    verdict=st.sampled_from(["passed", "failed", "timeout", "broken"]),
    reason=TEXT,
    tests=st.lists(st.builds(TestResult, nodeid=TEXT, outcome=st.sampled_from(["passed", "failed"])), max_size=3).map(
        tuple
    ),
)
FILES = st.dictionaries(st.sampled_from(["a.py", "pkg/b.py", "data.bin"]), st.binary(max_size=20), min_size=1)
ATTEMPTS = st.builds(
    Attempt,
    number=st.just(0),
    iteration=st.integers(0, 3),
    reply=TEXT,
    problem=st.none() | TEXT,
    submission=st.none() | FILES.map(Submission.from_files),
    report=st.none() | REPORTS,
    hidden=st.none() | REPORTS,
    tokens=st.builds(Tokens, prompt=st.integers(0, 9), completion=st.integers(0, 9)),
    verification_seconds=st.floats(0, 100),
)


def passing(*outcomes: str) -> Report:
    tests = tuple(TestResult(nodeid=f"t.py::{n}", outcome=outcome) for n, outcome in enumerate(outcomes))
    return Report(verdict="passed" if set(outcomes) == {"passed"} else "failed", reason="", tests=tests)


def attempt(number: int, *outcomes: str, hidden: Report | None = None) -> Attempt:
    code = Submission.from_code(f"x = {number}\n")
    return Attempt(number=number, iteration=number, submission=code, report=passing(*outcomes), hidden=hidden)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(ATTEMPTS, max_size=4), st.booleans())
def test_what_is_written_is_read_back(tmp_path: Path, attempts, ended):
    """
    Any attempts, with any bytes in their files, come back as they were.
    """
    path = tmp_path / "run.jsonl"
    path.unlink(missing_ok=True)
    with Transcript(path, BEGINNING) as transcript:
        for number, one in enumerate(attempts, 1):
            transcript.add(one.model_copy(update={"number": number}))
            transcript.tell(number, f"feedback {number}", "a reflection", Tokens(prompt=1), 0.25)
        if ended:
            transcript.end("stuck", "no idea", 1.5)

    assert read_transcript(path) == transcript.result
    assert [told.feedback for told in transcript.result.attempts] == [f"feedback {n + 1}" for n in range(len(attempts))]
    assert [told.generation_seconds for told in transcript.result.attempts] == [
        one.generation_seconds + 0.25 for one in attempts
    ]


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path, kept: float):
    """
    A run that was killed while it wrote can be read, and gone on with from the last whole line.
    """
    path = tmp_path / "run.jsonl"
    with Transcript(path, BEGINNING) as transcript:
        transcript.add(attempt(1, "failed"))
        whole = len(path.read_bytes())
        transcript.add(attempt(2, "passed"))
    data = path.read_bytes()
    path.write_bytes(data[: whole + int(kept * (len(data) - whole))])

    assert len(read_transcript(path).attempts) == 1
    with Transcript(path, BEGINNING) as resumed:
        resumed.add(attempt(2, "passed"))
    assert len(read_transcript(path).attempts) == 2


@pytest.mark.parametrize(
    "text", ["{}\n", "hello\n", '{"event": "attempt"}\n', '{"event": "begin", "task": 1}\n', "[]\n"]
)
def test_a_file_that_is_no_transcript_is_refused(tmp_path: Path, text: str):
    """
    The error names the file and the line, and the file stays as it is.
    """
    path = tmp_path / "notes.jsonl"
    path.write_text(text)

    with pytest.raises(ValueError, match=r"notes\.jsonl: line 1 is not of a transcript"):
        Transcript(path, BEGINNING)

    assert path.read_text() == text


def test_an_attempt_that_we_could_not_judge_costs_no_iteration(tmp_path: Path):
    """
    It stays in the transcript, and a run that is resumed does not count what nobody found out.
    """
    path = tmp_path / "run.jsonl"
    unknown = attempt(2, "failed").model_copy(update={"report": Report(verdict="invalid", reason="on fire")})
    with Transcript(path, BEGINNING) as transcript:
        transcript.add(attempt(1, "failed"))
        transcript.add(unknown)

    with Transcript(path, BEGINNING) as resumed:
        assert [one.number for one in resumed.result.attempts] == [1, 2]
        assert resumed.result.iterations == 1


def test_what_nobody_found_out_is_not_the_best(tmp_path: Path):
    """
    Tests that passed before a sandbox was lost do not speak for a candidate.
    """
    lost = passing("passed", "passed").model_copy(update={"verdict": "invalid"})
    transcript = Transcript(None, BEGINNING)
    for one in (attempt(1, "passed", "failed"), attempt(2).model_copy(update={"report": lost})):
        transcript.add(one)

    assert transcript.result.best.number == 1


def test_a_run_that_is_gone_on_with_has_not_ended(tmp_path: Path):
    """
    What was the end of the first run is not that of the second, should that be interrupted.
    """
    path = tmp_path / "run.jsonl"
    with Transcript(path, BEGINNING) as transcript:
        transcript.add(attempt(1, "failed"))
        transcript.end("iterations", "no candidate passed in 1 iteration", 1.5)
    with Transcript(path, BEGINNING) as resumed:
        resumed.add(attempt(2, "failed"))

    read = read_transcript(path)
    assert (read.outcome, read.reason, read.seconds) == (None, "", 0)
    assert read == resumed.result


def test_the_best_attempt_is_the_first_of_those_that_pass_most():
    """
    A later attempt has to be better, and not just as good.
    """
    transcript = Transcript(None, BEGINNING)
    for one in (attempt(1, "failed", "failed"), attempt(2, "passed", "failed"), attempt(3, "failed", "passed")):
        transcript.add(one)

    assert transcript.result.best.number == 2


def test_tests_that_the_suite_skips_make_no_gap():
    """
    Nobody fails them, and nobody passes them.
    """
    transcript = Transcript(None, BEGINNING)
    transcript.add(attempt(1, "passed", "passed", hidden=passing("passed", "skipped", "xfailed")))

    assert transcript.result.gap == 0


def test_the_gap_is_what_public_tests_flatter():
    """
    All public tests and a quarter of the hidden ones: three quarters were learned by heart.
    """
    transcript = Transcript(None, BEGINNING)
    transcript.add(attempt(1, "passed", hidden=passing("passed", "failed", "failed", "failed")))

    assert transcript.result.gap == 0.75
    assert not transcript.result.attempts[0].passed
