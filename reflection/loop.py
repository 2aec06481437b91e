"""Generate, verify, feed the real failure back, try again.

The state of a run is its attempts and nothing else: what to send next, whether it is stuck and
what is left of the budget all follow from them. That is why a transcript can be resumed.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args

from harness import Environment, Limits, Report, Runner, Submission, Suite, VerdictCache, averify, awarm
from harness.models import Failure, Seat
from harness.seats import SeatName, choose_seat
from harness.verify import run_blocking
from runners.pool import Pool

from . import metrics
from .conversation import Conversation, Exhausted, Generator, GeneratorError, Reply, Turn
from .disclosure import LEVELS, Disclosure
from .disclosure import disclose as disclosed
from .feedback import feedback
from .generators.functions import Function, as_generator
from .prompts import ANOTHER_APPROACH, Strategy, messages_for, reflection_request
from .replies import DEFAULT_PATH, Unreadable, read_reply
from .transcript import Attempt, Beginning, Outcome, Result, Transcript

__all__ = ["code_with_reflection", "code_with_reflection_sync"]

BACK_OFF_SECONDS = (0.25, 1.0, 4.0)
"""Before a verification that could not find out is repeated."""
FEEDBACK_CHARACTERS = 6_000
FEWEST_CHARACTERS = 100
"""Of feedback: to say of both suites how many tests pass."""
MOST_SAMPLES = 64

OnAttempt = Callable[[Attempt], None]

P = ParamSpec("P")
T = TypeVar("T")

BETWEEN = "\n\n"
HIDDEN_TESTS = f"There are hidden tests, too.{BETWEEN}"

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


async def code_with_reflection(
    task: str,
    suite: Suite,
    generator: Generator | Function,
    *,
    start: Submission | None = None,
    hidden: Suite | None = None,
    disclose: Disclosure | None = None,
    max_iterations: int = 3,
    max_seconds: float | None = None,
    max_tokens: int | None = None,
    samples: int = 1,
    strategy: Strategy = "plain",
    feedback_budget: int = FEEDBACK_CHARACTERS,
    transcript: str | Path | None = None,
    runner: str | Runner | Pool | None = None,
    limits: Limits | None = None,
    environment: Environment | None = None,
    seed: int = 0,
    seat: SeatName = "auto",
    require_seat: Seat | None = None,
    cache: VerdictCache | None = None,
    on_attempt: OnAttempt | None = None,
) -> Result:
    """Ask `generator` for code until the suite passes or a budget is used up.

    `generator` is a `Generator`, or any function or coroutine function that takes a `Conversation` and
    returns a reply's text or a `Submission`. `start` is code to begin with: it is verified first, and
    costs no iteration. `samples` candidates are asked for and verified at once in each iteration, which
    goes on from the best of them. `strategy="reflexion"` asks the generator after each failure for a few
    sentences on it, and carries the last ones along.

    `disclose` says how much the generator sees of the hidden suite (`count` unless told otherwise), or,
    where there is none, of the suite (`full`). A candidate passes when it passes both. `feedback_budget` is how
    many characters the feedback on an attempt may have.

    A run stops when a candidate passed, after `max_iterations`, once `max_seconds` or `max_tokens` are used
    up (what is running is finished first, but for seconds), or when it is stuck: the same failures twice
    are said to the generator once, and the next time they end the run. A verification that could not find
    out is repeated, costs no iteration and is never shown to the generator.

    `transcript` names a file that is written as it happens; with one of the same run that is there already,
    the run goes on where that one stopped. Cancelling leaves no sandbox behind.

    `runner`, `seat`, `require_seat` and what else is about verifying are as in `averify`; a runner's name gets
    a pool of warm sandboxes for this run, which attempts share one after the other (`freshness="fork"`).

    Raises:
        ValueError: an argument is wrong; nothing was started.
        GeneratorError: the generator gave no answer. The transcript can be resumed.
        RunnerError: there is no such sandbox to be had here; nothing was generated.
    """
    _check_number("max_iterations", max_iterations)
    _check_number("samples", samples, MOST_SAMPLES)
    _check_number("max_seconds", max_seconds)
    _check_number("max_tokens", max_tokens)
    if feedback_budget < FEWEST_CHARACTERS:
        raise ValueError(f"feedback_budget: {feedback_budget} characters say nothing; at least {FEWEST_CHARACTERS}")
    level: Disclosure = disclose or ("count" if hidden is not None else "full")
    _check_word("disclose", level, LEVELS)
    _check_word("strategy", strategy, get_args(Strategy))
    asked = as_generator(generator)
    suites = [suite] if hidden is None else [suite, hidden]
    for one in suites:
        choose_seat(one, start or Submission.from_code("", DEFAULT_PATH), seat, require_seat)
    beginning = Beginning(
        task=task,
        suite=_digest(suite.files, suite.cases, suite.options),
        hidden=_digest(hidden.files, hidden.cases, hidden.options) if hidden is not None else None,
        start=_digest(start.files) if start is not None else None,
        generator=getattr(asked, "name", type(asked).__name__),
        disclose=level,
        strategy=strategy,
    )
    settings = _Settings(
        max_iterations,
        max_seconds,
        max_tokens,
        samples,
        strategy,
        level,
        feedback_budget,
        on_attempt or (lambda attempt: None),
    )
    verify = partial(
        averify, limits=limits, environment=environment, seed=seed, seat=seat, require_seat=require_seat, cache=cache
    )
    with Transcript(Path(transcript) if transcript is not None else None, beginning) as record:
        try:
            async with _sandboxes(runner, samples * len(suites), limits, environment) as pool:
                judge = _Judge(suites, partial(verify, runner=pool))
                result = await _Run(asked, judge, record, settings).to_the_end(start)
        except BaseException as exc:
            metrics.record_run(record.result, "cancelled" if isinstance(exc, asyncio.CancelledError) else "error")
            raise
        metrics.record_run(result, str(result.outcome))
        return result


def _blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    def blocking(*args: P.args, **kwargs: P.kwargs) -> T:
        """The same for callers without an event loop; an interrupt cancels it and waits for its clean-up."""
        return run_blocking(function(*args, **kwargs))

    return blocking


code_with_reflection_sync = _blocking(code_with_reflection)


def _check_number(name: str, value: float | None, most: float = math.inf) -> None:
    if value is not None and not value > 0:  # nor is NaN
        raise ValueError(f"{name}: {value} leaves nothing to do; more than 0")
    if value is not None and value > most:
        raise ValueError(f"{name}: {value} are too many; at most {most}")


def _check_word(name: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise ValueError(f"{name}: {value!r} is not one of {', '.join(known)}")


def _digest(files: Mapping[str, bytes], *more: object) -> str:
    told = repr((sorted(files.items()), *more))
    return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()


@dataclass(frozen=True)
class _Settings:
    max_iterations: int
    max_seconds: float | None
    max_tokens: int | None
    samples: int
    strategy: Strategy
    level: Disclosure
    feedback_budget: int
    on_attempt: OnAttempt


@asynccontextmanager
async def _sandboxes(
    runner: str | Runner | Pool | None, most: int, limits: Limits | None, environment: Environment | None
) -> AsyncIterator[Runner | Pool]:
    """What the caller has brought, or a pool of this run's own."""
    if runner is not None and not isinstance(runner, str):
        yield runner
        return
    size = min(most, os.cpu_count() or 1)
    async with awarm(runner, size=size, freshness="fork", limits=limits, environment=environment) as pool:
        yield pool


class _Judge:
    """Verifies candidates against each suite, and asks again where it could not find out."""

    def __init__(self, suites: Sequence[Suite], verify: Callable[[Submission, Suite], Awaitable[Report]]) -> None:
        self._suites, self._verify = suites, verify

    async def reports(self, submission: Submission) -> tuple[list[Report], int]:
        """One report per suite, and how many verifications it took."""
        answers = await asyncio.gather(*[self._one(submission, suite) for suite in self._suites])
        return [report for report, _ in answers], sum(tries for _, tries in answers)

    async def _one(self, submission: Submission, suite: Suite) -> tuple[Report, int]:
        report, tries = await self._verify(submission, suite), 1
        for pause in BACK_OFF_SECONDS:
            if report.verdict != "invalid":
                break
            await asyncio.sleep(pause)
            report, tries = await self._verify(submission, suite), tries + 1
        return report, tries


class _Stop(Exception):
    """The run ends here, and why."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


class _Run:
    def __init__(self, generator: Generator, judge: _Judge, record: Transcript, settings: _Settings) -> None:
        self._generator, self._judge, self._record, self._settings = generator, judge, record, settings
        self._turns: dict[int, Turn] = {}
        spent = max((attempt.elapsed_seconds for attempt in record.result.attempts), default=0.0)
        self._begun = time.monotonic() - spent

    @property
    def _result(self) -> Result:
        return self._record.result

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    async def to_the_end(self, start: Submission | None) -> Result:
        try:
            async with asyncio.timeout(self._seconds_left()) as clock:
                if start is not None and not any(attempt.known for attempt in self._result.attempts):
                    await self._attempt_start(start)
                while True:
                    await self._conclude_iteration()
                    await self._iterate()
        except TimeoutError:
            if not clock.expired():  # the generator's own
                raise
            return self._end("seconds", f"the {self._settings.max_seconds:g} seconds are used up")
        except _Stop as stop:
            return self._end(stop.outcome, stop.reason)
        except Exhausted as exc:
            return self._end("stuck", str(exc))

    def _seconds_left(self) -> float | None:
        return None if self._settings.max_seconds is None else max(0.0, self._settings.max_seconds - self._elapsed)

    def _end(self, outcome: Outcome, reason: str) -> Result:
        return self._record.end(outcome, reason, self._elapsed)

    # --- an iteration -------------------------------------------------------------

    async def _attempt_start(self, start: Submission) -> None:
        await self._verify(_Candidate(0, 0, Reply(submission=start), 0.0))
        self._stop_if_nothing_is_known(0)

    async def _iterate(self) -> None:
        """Ask for this iteration's candidates and verify each as it comes."""
        iteration = self._result.iterations + 1
        conversation = self._conversation()
        tasks = [
            asyncio.create_task(self._sample(conversation, iteration, sample))
            for sample in range(self._settings.samples)
        ]
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        failed = [exc for task in tasks if (exc := task.exception()) is not None]
        if len(failed) == len(tasks) or any(not isinstance(exc, GeneratorError) for exc in failed):
            raise next((exc for exc in failed if not isinstance(exc, Exhausted)), failed[0])
        self._stop_if_nothing_is_known(iteration)

    async def _sample(self, conversation: Conversation, iteration: int, sample: int) -> None:
        reply, seconds = await self._ask(conversation)
        await self._verify(_Candidate(iteration, sample, reply, seconds), conversation.submission)

    async def _ask(self, conversation: Conversation) -> tuple[Reply, float]:
        """The generator's answer, without lone surrogates, which no file can hold, and how long it took."""
        begun = time.monotonic()
        reply = await self._generator.generate(conversation)
        seconds = time.monotonic() - begun
        metrics.record_generation(reply.tokens, seconds)
        return replace(reply, text=reply.text.encode("utf-8", "backslashreplace").decode("utf-8")), seconds

    async def _verify(self, candidate: _Candidate, before: Submission | None = None) -> None:
        begun = time.monotonic()
        submission, problem = candidate.reply.submission, None
        if submission is None:
            try:
                submission = read_reply(candidate.reply.text, before)
            except Unreadable as exc:
                problem = str(exc)
        reports, verifications = await self._judge.reports(submission) if submission is not None else ([], 0)
        attempt = Attempt(
            number=len(self._result.attempts) + 1,
            iteration=candidate.iteration,
            sample=candidate.sample,
            reply=candidate.reply.text,
            problem=problem,
            submission=submission,
            report=reports[0] if reports else None,
            hidden=reports[1] if len(reports) > 1 else None,
            searching=candidate.reply.searching,
            tokens=candidate.reply.tokens,
            generation_seconds=candidate.seconds,
            verification_seconds=time.monotonic() - begun,
            verifications=verifications,
            elapsed_seconds=self._elapsed,
        )
        self._record.add(attempt)
        if attempt.reports:
            metrics.record_verification(attempt.verification_seconds)
        self._settings.on_attempt(attempt)

    def _stop_if_nothing_is_known(self, iteration: int) -> None:
        reports = [report for attempt in self._of(iteration) for report in attempt.reports]
        unknown = [report for report in reports if report.verdict == "invalid"]
        if unknown and not any(attempt.known for attempt in self._of(iteration)):
            raise _Stop("invalid", unknown[0].reason)

    def _of(self, iteration: int) -> list[Attempt]:
        return [attempt for attempt in self._result.attempts if attempt.iteration == iteration]

    # --- between iterations -------------------------------------------------------

    async def _conclude_iteration(self) -> None:
        """Stop here, or tell the generator what came of the last iteration, unless it has been told."""
        told = self._told()
        last = [attempt for attempt in self._of(self._result.iterations) if attempt.known]
        best = max(last, key=lambda attempt: (attempt.passed, attempt.tests_passed), default=None)
        if best is not None and best.passed:
            raise _Stop("passed", f"attempt {best.number} passed")
        self._stop_if_spent()
        if best is None or best.feedback:
            return
        stuck = bool(told) and not best.searching and _signature(best) == _signature(told[-1])
        if stuck and _was_told(told):
            raise _Stop("stuck", "the same failures again, after the generator had been told so")
        words = self._feedback(best)
        if stuck:
            words += BETWEEN + ANOTHER_APPROACH
        reply, seconds = Reply(), 0.0
        if self._settings.strategy == "reflexion":
            reply, seconds = await self._ask(self._reflection(best, words))
        self._record.tell(best.number, words, reply.text.strip(), reply.tokens, seconds)

    def _stop_if_spent(self) -> None:
        most = self._settings.max_iterations
        if self._result.iterations >= most:
            raise _Stop("iterations", f"no candidate passed in {most} iteration{'s' * (most != 1)}")
        if self._settings.max_tokens is not None and self._result.tokens.total >= self._settings.max_tokens:
            raise _Stop("tokens", f"{self._result.tokens.total} of {self._settings.max_tokens} tokens are used up")

    def _told(self) -> list[Attempt]:
        return [attempt for attempt in self._result.attempts if attempt.feedback]

    def _feedback(self, attempt: Attempt) -> str:
        if attempt.problem is not None:
            return attempt.problem
        failed = [index for index, report in enumerate(attempt.reports) if not report.passed]
        parts: list[str] = []
        room = self._settings.feedback_budget
        for index in reversed(failed):  # what the hidden suite leaves of its half is the public one's
            opening = HIDDEN_TESTS if index else ""
            most = room if index == failed[0] else room // 2
            parts.insert(0, opening + self._words(attempt, index, most - len(opening)))
            room -= len(parts[0]) + len(BETWEEN)
        return BETWEEN.join(parts)

    def _words(self, attempt: Attempt, index: int, most: int) -> str:
        """On one of an attempt's reports; of the attempts before only those count that the generator was told of."""
        before = self._result.attempts[: attempt.number - 1]
        return feedback(
            attempt.reports[index],
            most,
            disclose=self._levels(attempt)[index],
            previous=[one.reports[index] if one.feedback and one.reports else None for one in before],
            submission=attempt.submission,
        )

    def _reflection(self, attempt: Attempt, words: str) -> Conversation:
        """The question what went wrong, to a generator that has read these words on it."""
        known = self._conversation([*self._told(), attempt.model_copy(update={"feedback": words})])
        return replace(known, messages=reflection_request(known.messages), wants="reflection")

    def _conversation(self, told: Sequence[Attempt] | None = None) -> Conversation:
        told = self._told() if told is None else told
        return Conversation(
            task=self._result.task,
            messages=messages_for(self._result.task, told, self._settings.strategy),
            turns=tuple(self._turn(attempt) for attempt in self._result.attempts if attempt.known),
        )

    def _turn(self, attempt: Attempt) -> Turn:
        known = self._turns.get(attempt.number)
        if known is None or known.feedback != attempt.feedback:
            told = [
                disclosed(report, level, submission=attempt.submission)
                for report, level in zip(attempt.reports, self._levels(attempt), strict=True)
            ]
            known = self._turns[attempt.number] = Turn(attempt.submission, tuple(told), attempt.feedback)
        return known

    def _levels(self, attempt: Attempt) -> list[Disclosure]:
        """How much may be told of each of its reports."""
        levels: list[Disclosure] = [self._settings.level] if attempt.hidden is None else ["full", self._settings.level]
        return levels[: len(attempt.reports)]


@dataclass(frozen=True)
class _Candidate:
    iteration: int
    sample: int
    reply: Reply
    seconds: float


def _signature(attempt: Attempt) -> object:
    """The same for attempts that fail alike."""
    if attempt.problem is not None:
        return "no code"
    return [(report.verdict, sorted(map(_symptom, report.failures))) for report in attempt.reports]


def _symptom(failure: Failure) -> tuple[str, str, str]:
    """Without what differs from run to run: addresses, and what was measured when a limit was passed."""
    message = "" if failure.kind in ("memory", "limit", "timeout") else _ADDRESS.sub("", failure.message)
    return failure.nodeid, failure.kind, message


def _was_told(told: Sequence[Attempt]) -> bool:
    return any(attempt.feedback.endswith(ANOTHER_APPROACH) for attempt in told)
