"""The loop on real sandboxes: when it stops, what it says, what it keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness import Environment, Limits, RunnerLost, Submission, Suite
from harness.metrics import REGISTRY
from harness.verify import entered
from reflection import (
    Conversation,
    Exhausted,
    GeneratorError,
    Reply,
    Tokens,
    code_with_reflection,
    code_with_reflection_sync,
    prompts,
    read_transcript,
)
from reflection import loop as loop_module
from reflection.prompts import ANOTHER_APPROACH
from runners.contract import Runner, Sandbox
from tests.runners.leftovers import nothing_left

RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
WORSE = "def add(a, b):\n    return None\n"
SUITE = Suite.from_code("""\
from solution import add

def test_add():
    assert add(1, 2) == 3

def test_zero():
    assert add(0, 0) == 0
""")
TASK = "Write add(a, b)."


def block(code: str) -> str:
    return f"```python\n{code}```"


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


class Script:
    """A generator that says what it was given to say, and keeps what it was told."""

    def __init__(self, *answers: str | Reply | Exception) -> None:
        self.answers = list(answers)
        self.told: list[Conversation] = []

    async def generate(self, conversation: Conversation) -> Reply:
        self.told.append(conversation)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Reply(text=answer) if isinstance(answer, str) else answer

    @property
    def last_words(self) -> str:
        return self.told[-1].messages[-1].content


@pytest.fixture
def run(bubblewrap_runner: Runner) -> Callable[..., object]:
    async def started(*answers: str | Reply | Exception, **more: object) -> object:
        script = Script(*answers)
        result = await code_with_reflection(TASK, SUITE, script, **{"runner": bubblewrap_runner, **more})
        return result, script

    return started


async def test_it_stops_when_a_candidate_passes(run):
    """
    The failure of the first attempt is fed back, and the second attempt is the result.
    """
    result, script = await run(block(WRONG), block(RIGHT))

    assert result.passed and result.outcome == "passed"
    assert result.submission == Submission.from_code(RIGHT)
    assert [attempt.report.verdict for attempt in result.attempts] == ["failed", "passed"]
    assert "expected:  3" in result.attempts[0].feedback and "got:       -1" in result.attempts[0].feedback
    assert script.last_words == f"Attempt 1:\n\n{result.attempts[0].feedback}"


async def test_it_stops_after_its_iterations(run):
    """
    No more is asked for than was allowed.
    """
    result, script = await run(block(WRONG), block(WORSE), max_iterations=2)

    assert (result.outcome, result.passed, len(script.told)) == ("iterations", False, 2)


async def test_the_best_attempt_is_kept(run):
    """
    A later attempt that passes fewer tests does not take the place of an earlier one.
    """
    result, _ = await run(block(WRONG), block(WORSE), max_iterations=2)

    assert result.submission == Submission.from_code(WRONG)
    assert result.best.number == 1


async def test_it_stops_when_the_tokens_are_used_up(run):
    """
    An iteration that would begin beyond the budget does not.
    """
    spent = Reply(text=block(WRONG), tokens=Tokens(prompt=60, completion=50))

    result, script = await run(spent, block(RIGHT), max_tokens=100)

    assert (result.outcome, result.tokens.total, len(script.told)) == ("tokens", 110, 1)


async def test_it_stops_when_the_time_is_used_up(bubblewrap_runner):
    """
    A generator that does not come back is given up.
    """

    async def forever(conversation: Conversation) -> str:
        await asyncio.Event().wait()
        return ""

    result = await code_with_reflection(TASK, SUITE, forever, runner=bubblewrap_runner, max_seconds=0.01)

    assert (result.outcome, result.passed, result.submission) == ("seconds", False, None)


async def test_a_timeout_of_the_generator_is_its_own(run):
    """
    It is not taken for the end of the run's time.
    """
    with pytest.raises(TimeoutError, match="mine"):
        await run(TimeoutError("mine"), max_seconds=60)


async def test_the_same_failures_are_said_once_and_then_end_it(run):
    """
    The second time the generator is asked for another approach; the third time it is stuck.
    """
    result, script = await run(*[block(WRONG)] * 5, max_iterations=5)

    assert (result.outcome, len(script.told)) == ("stuck", 3)
    assert ANOTHER_APPROACH not in script.told[1].messages[-1].content
    assert script.last_words.endswith(ANOTHER_APPROACH)


async def test_numbers_that_differ_from_run_to_run_do_not_hide_that_it_is_stuck():
    """
    How much was measured when a candidate had too much memory is not what failed.
    """
    hungry = block("def add(a, b):\n    kept = []\n    while True:\n        kept.append(bytearray(1 << 20))\n")
    script = Script(*[hungry] * 5)

    result = await code_with_reflection(
        TASK, SUITE, script, max_iterations=5, runner="bubblewrap", limits=Limits(memory_mb=128)
    )

    assert (result.outcome, len(script.told)) == ("stuck", 3)


async def test_other_failures_are_progress_of_a_kind(run):
    """
    Attempts that fail in different ways are not stuck.
    """
    result, _ = await run(block(WRONG), block(WORSE), block(WRONG), block(WORSE), max_iterations=4)

    assert result.outcome == "iterations"


async def test_a_generator_that_searches_is_not_stuck(run):
    """
    Many candidates that fail alike are what a search is.
    """
    tries = [Reply(submission=Submission.from_code(f"{WRONG}# {n}\n"), searching=True) for n in range(4)]

    result, _ = await run(*tries, max_iterations=4)

    assert (result.outcome, len(result.attempts)) == ("iterations", 4)


async def test_a_generator_that_has_nothing_more_is_stuck(run):
    """
    Its own words are the reason.
    """
    result, _ = await run(block(WRONG), Exhausted("mine", "has tried all"))

    assert (result.outcome, result.reason) == ("stuck", "mine: has tried all")


@pytest.mark.parametrize("reply", ["I am sorry.", "```diff\n--- a/solution.py\n+++ b/solution.py\n@@\n-x\n+y\n```"])
async def test_a_reply_without_code_is_fed_back(run, reply):
    """
    It costs an iteration and no verification, and the generator is told what was wrong with it.
    """
    result, script = await run(block(WRONG), reply, block(RIGHT))

    assert result.passed and result.verifications == 2
    assert result.attempts[1].report is None
    assert script.last_words == f"Attempt 2:\n\n{result.attempts[1].problem}"


async def test_attempts_are_called_by_their_number(run):
    """
    Feedback, messages and transcript speak of the same attempt, whatever came in between.
    """
    half = "def add(a, b):\n    return 3 if a else None\n"

    result, script = await run("Well.", block(WORSE), block(WRONG), block(half), block(RIGHT), max_iterations=5)

    assert "test_zero fails.\n   It passed in attempt 3 and fails now." in result.attempts[3].feedback
    assert script.last_words.startswith("Attempt 4:\n\n1 of 2 tests pass.")


@pytest.mark.parametrize("strategy", ["plain", "reflexion"])
async def test_the_generator_sees_the_code_that_a_diff_is_of(run, strategy, monkeypatch):
    """
    Of exchanges that are left out, the code that came of them stays: the next diff is made against it.
    """
    monkeypatch.setattr(prompts, "REMEMBERED_ATTEMPTS", 1)
    diff = "```diff\n--- a/solution.py\n+++ b/solution.py\n@@\n def add(a, b):\n-    return {}\n+    return {}\n```"
    answers = [block("def add(a, b):\n    return 'one'\n"), diff.format("'one'", "'two'"), "Sorry."]
    if strategy == "reflexion":
        answers = [words for answer in answers for words in (answer, "I see.")]

    result, script = await run(*answers, diff.format("'two'", "a + b"), strategy=strategy, max_iterations=4)

    assert result.passed
    assert "solution.py\n```\ndef add(a, b):\n    return 'two'\n```" in script.told[-1].messages[1].content


async def test_both_suites_share_the_budget(run):
    """
    What is said of an attempt fits, and of the hidden suite there is something in it.
    """
    result, _ = await run(block(WORSE), block(RIGHT), hidden=HIDDEN, disclose="full", feedback_budget=300)

    said = result.attempts[0].feedback
    assert len(said) <= 300
    assert said.startswith("0 of 2 tests pass.") and "There are hidden tests, too.\n\n0 of 1 tests pass." in said


async def test_a_reply_that_is_no_text_is_no_crash(run, tmp_path):
    """
    JSON can carry lone surrogates, which no file can: they are written out, in a reflection as well.
    """
    path = tmp_path / "run.jsonl"
    result, _ = await run("\ud800", "\ud801", block(RIGHT), transcript=path, strategy="reflexion")

    first = result.attempts[0]
    assert result.passed and (first.reply, first.reflection) == ("\\ud800", "\\ud801")
    assert read_transcript(tmp_path / "run.jsonl") == result


async def test_the_start_is_verified_first_and_costs_no_iteration(run):
    """
    Code to begin with is in the first message, with what is wrong with it.
    """
    result, script = await run(block(RIGHT), start=Submission.from_code(WRONG), max_iterations=1)

    assert result.passed and [attempt.iteration for attempt in result.attempts] == [0, 1]
    assert "return a - b" in script.last_words and "expected:  3" in script.last_words


async def test_a_start_that_passes_needs_no_generator(run):
    """
    There is nothing to ask for.
    """
    result, script = await run(start=Submission.from_code(RIGHT))

    assert result.passed and not script.told


async def test_samples_are_verified_at_once_and_the_best_is_gone_on_from(run):
    """
    Of an iteration's candidates the generator is told of the one that passes most.
    """
    result, script = await run(block(WORSE), block(WRONG), block(RIGHT), block(WORSE), samples=2, max_iterations=2)

    assert result.passed and result.iterations == 2
    assert {attempt.sample for attempt in result.attempts} == {0, 1}
    assert [message.content for message in script.told[-1].messages if message.role == "assistant"] == [block(WRONG)]
    assert len(script.told[-1].turns) == 2


async def test_one_sample_that_cannot_be_had_does_not_lose_the_others(run):
    """
    An endpoint that fails for one of two candidates fails for that one only.
    """
    result, _ = await run(GeneratorError("mine", "is busy"), block(RIGHT), samples=2)

    assert result.passed


async def test_a_generator_that_fails_ends_the_run(run, tmp_path):
    """
    It is an error of ours and no verdict, and the transcript keeps what there was.
    """
    path = tmp_path / "run.jsonl"

    with pytest.raises(GeneratorError, match="is gone"):
        await run(block(WRONG), GeneratorError("mine", "is gone"), transcript=path)

    assert len(read_transcript(path).attempts) == 1 and read_transcript(path).outcome is None


async def test_reflexion_asks_what_went_wrong_and_carries_it_along(run):
    """
    After each failure the generator says why; the last of these sentences stand before the next attempt.
    """
    said = [f"Reason {n}." for n in range(5)]
    answers = [words for n in range(5) for words in (block(f"def add(a, b):\n    return {n + 10}\n"), said[n])]

    result, script = await run(*answers, block(RIGHT), strategy="reflexion", max_iterations=6)

    assert result.passed and result.attempts[0].reflection == "Reason 0."
    assert [conversation.wants for conversation in script.told[:3]] == ["code", "reflection", "code"]
    opening = script.told[-1].messages[1].content
    assert [words in opening for words in said] == [False, False, True, True, True]


async def test_what_a_reflection_costs_is_counted(run):
    """
    Its tokens belong to the attempt that it is about, and its time is time of the generator's.
    """
    spent = Tokens(prompt=1, completion=2)
    before = value("reflection_generation_seconds_count")

    result, _ = await run(
        Reply(text=block(WRONG), tokens=spent),
        Reply(text="It subtracts.", tokens=spent),
        Reply(text=block(RIGHT), tokens=spent),
        strategy="reflexion",
    )

    assert [attempt.tokens.total for attempt in result.attempts] == [6, 3]
    assert value("reflection_generation_seconds_count") - before == 3


@pytest.mark.parametrize("seat", ["separate", "in_process"])
async def test_candidates_are_judged_from_the_seat_that_was_asked_for(run, seat):
    """
    The public and the hidden suite alike.
    """
    result, _ = await run(block(RIGHT), hidden=HIDDEN, seat=seat)

    assert [report.integrity.seat for report in result.attempts[0].reports] == [seat, seat]


@pytest.mark.parametrize("which", ["suite", "hidden"])
async def test_a_suite_that_needs_a_weaker_seat_than_is_required_is_refused(bubblewrap_runner, which):
    """
    It is said before the generator is asked, and of the hidden suite, too.
    """
    script = Script()
    reaching_in = Suite.from_code("import solution\n\nclass Mine(solution.Base): pass\n\ndef test_it(): pass\n")
    suites = {"suite": SUITE, "hidden": HIDDEN, which: reaching_in}

    with pytest.raises(ValueError, match="separate is required"):
        await code_with_reflection(TASK, generator=script, **suites, runner=bubblewrap_runner, require_seat="separate")

    assert not script.told


# --- hidden tests -------------------------------------------------------------

HIDDEN = Suite.from_code(
    "from solution import add\n\ndef test_secret_sauce():\n    assert add(70, 7) == 77\n", "test_hidden.py"
)
OVERFIT = "def add(a, b):\n    return 3 if a else 0\n"


async def test_hidden_tests_are_judged_apart(run):
    """
    A candidate that is written to the public tests shows in the gap.
    """
    result, _ = await run(block(OVERFIT), hidden=HIDDEN, max_iterations=1)

    assert not result.passed
    assert (result.report.verdict, result.hidden.verdict) == ("passed", "failed")
    assert result.gap == 1.0


async def test_of_hidden_tests_only_the_count_is_told(run):
    """
    Unless told otherwise the generator learns that hidden tests fail, and neither which nor why.
    """
    result, script = await run(block(OVERFIT), block(RIGHT), hidden=HIDDEN)

    assert result.passed and result.gap == 0.0
    everything = repr(script.told)
    assert "There are hidden tests" in script.last_words and "0 of 1 tests pass" in script.last_words
    assert not any(secret in everything for secret in ("secret_sauce", "77", "70", "test_hidden"))


async def test_public_tests_are_told_in_full_beside_hidden_ones(run):
    """
    The level is the hidden suite's; what is public is public.
    """
    _, script = await run(block(WRONG), block(RIGHT), hidden=HIDDEN)

    assert "expected:  3" in script.last_words and "secret_sauce" not in repr(script.told)


# --- when we cannot find out --------------------------------------------------


class Faltering:
    """A runner whose first sandboxes are lost, or those `after` a few."""

    def __init__(self, runner: Runner, times: int, after: int = 0) -> None:
        self.name = runner.name
        self._runner = runner
        self._lost = [False] * after + [True] * times

    @asynccontextmanager
    async def open(self, environment: Environment, limits: Limits) -> AsyncIterator[Sandbox]:
        if self._lost and self._lost.pop(0):
            raise RunnerLost(self.name, "the machine is on fire")
        async with self._runner.open(environment, limits) as sandbox:
            yield sandbox


async def test_a_verification_that_did_not_find_out_is_repeated(run, bubblewrap_runner):
    """
    It costs no iteration, and the generator never hears of it.
    """
    result, script = await run(block(WRONG), block(RIGHT), runner=Faltering(bubblewrap_runner, 1), max_iterations=2)

    assert result.passed and result.attempts[0].verifications == 2
    assert "fire" not in repr(script.told)


async def test_if_it_never_finds_out_it_says_so(run, bubblewrap_runner, monkeypatch):
    """
    The outcome is `invalid`, with the reason: not a candidate that failed.
    """
    monkeypatch.setattr(loop_module, "BACK_OFF_SECONDS", (0.0, 0.0))

    result, script = await run(block(RIGHT), runner=Faltering(bubblewrap_runner, 99))

    assert (result.outcome, result.attempts[0].verifications, len(script.told)) == ("invalid", 3, 1)
    assert "fire" in result.reason


async def test_what_it_did_not_find_out_is_tried_again_by_the_next_run(run, bubblewrap_runner, tmp_path, monkeypatch):
    """
    A run that is resumed asks for that iteration anew; no two attempts have one number.
    """
    monkeypatch.setattr(loop_module, "BACK_OFF_SECONDS", ())
    options = {"transcript": tmp_path / "run.jsonl", "start": Submission.from_code(WRONG), "max_iterations": 1}
    await run(runner=Faltering(bubblewrap_runner, 1), **options)
    await run(block(WORSE), runner=Faltering(bubblewrap_runner, 1, after=1), **options)

    result, _ = await run(block(RIGHT), **options)

    assert result.passed
    told = [(attempt.number, attempt.iteration, attempt.report.verdict) for attempt in result.attempts]
    assert told == [(1, 0, "invalid"), (2, 0, "failed"), (3, 1, "invalid"), (4, 1, "passed")]
    assert read_transcript(tmp_path / "run.jsonl") == result


class Watched:
    """A runner that says when it has opened a sandbox."""

    def __init__(self, runner: Runner) -> None:
        self.name = runner.name
        self.opened = asyncio.Event()
        self._runner = runner

    @asynccontextmanager
    async def open(self, environment: Environment, limits: Limits) -> AsyncIterator[Sandbox]:
        async with self._runner.open(environment, limits) as sandbox:
            self.opened.set()
            yield sandbox


async def test_cancelling_a_verification_leaves_no_sandbox_behind(tmp_path):
    """
    A run that is cancelled while a candidate hangs ends what it started, before it returns.
    """
    script = Script(block("import signal\n\ndef add(a, b):\n    signal.pause()\n"))

    with nothing_left(tmp_path):
        async with entered("bubblewrap", None) as runner:
            watched = Watched(runner)
            running = asyncio.create_task(code_with_reflection(TASK, SUITE, script, runner=watched))
            await watched.opened.wait()
            running.cancel()
            await asyncio.wait([running])

    assert running.cancelled()


async def test_cancelling_a_generation_leaves_no_sandbox_behind(tmp_path):
    """
    The run's own pool of warm sandboxes is gone when it returns.
    """
    asked = asyncio.Event()

    async def generator(conversation: Conversation) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    with nothing_left(tmp_path):
        running = asyncio.create_task(code_with_reflection(TASK, SUITE, generator, runner="bubblewrap", samples=2))
        await asked.wait()
        running.cancel()
        await asyncio.wait([running])

    assert running.cancelled()


# --- transcripts --------------------------------------------------------------


async def test_a_run_can_be_resumed(run, tmp_path):
    """
    A second run with the same transcript goes on where the first one stopped, with all that was said.
    """
    path = tmp_path / "run.jsonl"
    first, _ = await run(block(WRONG), block(WORSE), transcript=path, max_iterations=2)

    second, script = await run(block(RIGHT), transcript=path, max_iterations=3)

    assert second.passed and len(second.attempts) == 3
    assert second.attempts[:1] == first.attempts[:1]
    assert [message.role for message in script.told[0].messages].count("assistant") == 2
    assert read_transcript(path) == second


async def test_a_run_that_passed_is_not_run_again(run, tmp_path):
    """
    Its transcript has the answer.
    """
    path = tmp_path / "run.jsonl"
    first, _ = await run(block(RIGHT), transcript=path)

    second, script = await run(transcript=path)

    assert second.passed and second.submission == first.submission and not script.told


async def test_a_transcript_of_another_run_is_left_alone(run, tmp_path):
    """
    Nothing is overwritten, and nothing started.
    """
    path = tmp_path / "run.jsonl"
    await run(block(RIGHT), transcript=path)
    before = path.read_bytes()

    with pytest.raises(ValueError, match="another start"):
        await run(block(RIGHT), transcript=path, start=Submission.from_code(WRONG))

    assert path.read_bytes() == before


async def test_the_transcript_is_written_as_it_happens(run, tmp_path):
    """
    When the generator is asked for the second time, the first attempt is on disk already.
    """
    path = tmp_path / "run.jsonl"
    seen: list[int] = []

    async def generator(conversation: Conversation) -> str:
        seen.append(len(read_transcript(path).attempts))
        return block(RIGHT if seen[1:] else WRONG)

    await code_with_reflection(TASK, SUITE, generator, runner="bubblewrap", transcript=path)

    assert seen == [0, 1]


# --- callers ------------------------------------------------------------------


def test_a_function_is_a_generator_and_no_loop_is_needed(tmp_path: Path):
    """
    The synchronous twin takes a plain function, and brings its own pool of sandboxes.
    """
    result = code_with_reflection_sync(
        TASK, SUITE, lambda conversation: Submission.from_code(RIGHT), runner="bubblewrap"
    )

    assert result.passed


async def test_a_function_that_returns_something_else_is_told_so(run, bubblewrap_runner):
    """
    The mistake is the caller's, and names the function.
    """
    with pytest.raises(TypeError, match="returned int"):
        await code_with_reflection(TASK, SUITE, lambda conversation: 7, runner=bubblewrap_runner)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_iterations": 0},
        {"samples": 0},
        {"samples": 65},
        {"max_seconds": -1},
        {"max_seconds": float("nan")},
        {"max_tokens": 0},
        {"feedback_budget": 99},
        {"disclose": "some"},
        {"strategy": "refelxion"},
        {"seat": "best"},
    ],
    ids=str,
)
async def test_an_argument_that_makes_no_sense_is_refused(bubblewrap_runner, wrong):
    """
    The error names the argument, before the generator is asked for anything.
    """
    script = Script()

    with pytest.raises(ValueError, match=next(iter(wrong))):
        await code_with_reflection(TASK, SUITE, script, runner=bubblewrap_runner, **wrong)

    assert not script.told


async def test_a_run_is_counted(run):
    """
    Outcome, tokens, iterations and seconds are in the harness's registry.
    """
    names = [
        ("reflection_runs_total", {"outcome": "passed"}),
        ("reflection_tokens_total", {"kind": "completion"}),
        ("reflection_iterations_count", {}),
        ("reflection_generation_seconds_count", {}),
        ("reflection_verification_seconds_count", {}),
    ]
    before = [value(name, **labels) for name, labels in names]

    await run(Reply(text=block(RIGHT), tokens=Tokens(prompt=1, completion=5)))

    assert [value(name, **labels) - was for (name, labels), was in zip(names, before, strict=True)] == [1, 5, 1, 1, 1]
