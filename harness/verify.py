"""verify() and averify(): prepare → run → judge → record. The one path.

The synchronous functions run on one event loop in a thread of its own, so they
may be called from any thread and from inside a running event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import Any, TypeVar

from runners import session
from runners.choice import choose
from runners.contract import Environment, Job, Limits, Outcome, Runner, RunnerError
from runners.pool import Lease, Pool

from . import cases, files, metrics, settings
from .cache import VerdictCache, key_of
from .judge import judge
from .models import Measurements, Report, Seat, Submission, Suite
from .reference import seat_by_trial
from .seats import Choice, SeatName, check_seat, choose_seat

__all__ = ["averify", "entered", "run_blocking", "told", "verify", "version"]

T = TypeVar("T")
Progress = Callable[[str], None]
OnEvent = Callable[[dict[str, Any]], None]


def verify(
    submission: Submission,
    suite: Suite,
    *,
    runner: str | Runner | Pool | None = None,
    limits: Limits | None = None,
    environment: Environment | None = None,
    seed: int = 0,
    seat: SeatName = "auto",
    require_seat: Seat | None = None,
    reference: Submission | None = None,
    cache: VerdictCache | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run the suite against the submission in a sandbox; see `averify`."""
    # Read and remembered in the caller's own thread: in CPython 3.11 a thread that parses a program can
    # make another one fail that does so at the same time (gh-106905).
    choose_seat(suite, submission, seat)
    return run_blocking(
        averify(
            submission,
            suite,
            runner=runner,
            limits=limits,
            environment=environment,
            seed=seed,
            seat=seat,
            require_seat=require_seat,
            reference=reference,
            cache=cache,
            progress=progress,
        )
    )


async def averify(
    submission: Submission,
    suite: Suite,
    *,
    runner: str | Runner | Pool | None = None,
    limits: Limits | None = None,
    environment: Environment | None = None,
    seed: int = 0,
    seat: SeatName = "auto",
    require_seat: Seat | None = None,
    reference: Submission | None = None,
    cache: VerdictCache | None = None,
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
) -> Report:
    """Run the suite against the submission in a sandbox, and judge.

    Whatever the candidate does is a verdict. Whatever we could not find out is the
    verdict `invalid`, with the reason and what to do about it, and a reward of None.

    `runner` is a name, or a runner or pool that is already entered and is then not closed here;
    None takes `[tool.reproof] runner` of the nearest pyproject.toml, or `auto`.
    `seat` is where the candidate runs (docs/integrity.md); `auto` takes `separate` wherever the suite can be
    cut in two: by reading the suite, or, if a `reference` solution is given, by trying both seats with that.
    With `require_seat` a suite that needs a weaker one is a ValueError.
    `cache` answers a job that it has seen before, without running it.
    Cancelling ends the sandbox, and all in it, before this returns.

    Raises:
        ValueError: an argument is wrong; nothing was started.
    """
    begun = time.perf_counter()
    limits = limits or Limits()
    environment = environment or Environment()
    choice = choose_seat(suite, submission, seat, None if reference else require_seat)
    job = prepare(submission, suite, limits, environment, seed, choice.seat)
    name = runner if isinstance(runner, str) else getattr(runner, "name", "")
    try:
        async with entered(runner, progress) as ready:
            name = ready.name
            if reference is not None and seat == "auto" and suite.files:
                choice = await _tried(choice, reference, suite, ready, limits, environment, seed)
                check_seat(choice, require_seat)
                job = replace(job, seat=choice.seat)
            key = key_of(submission, suite, job, name, version()) if cache is not None else ""
            known = cache.get(key) if cache is not None else None
            if known is not None:
                return known
            async with _lease(ready, job) as lease:
                waited = time.perf_counter() - begun if lease.warm else 0.0
                outcome = await lease.run(job, on_event)
    except (RunnerError, OSError) as exc:
        report = Report(verdict="invalid", reason=told(exc), runner=name or "auto", limits=limits, version=version())
        metrics.record(report, error=type(exc).__name__)
        return report
    total = time.perf_counter() - begun
    unused = sorted(set(submission.files) - set(job.submission) - set(suite.files))
    report = conclude(outcome, suite, job, choice, lease, {"queue": waited}, total, unused)
    metrics.record(report)
    if cache is not None:
        with contextlib.suppress(OSError):  # a full disk costs the next run its answer, and not this one
            cache.put(key, report)
    return report


async def _tried(
    otherwise: Choice,
    reference: Submission,
    suite: Suite,
    runner: Runner | Pool,
    limits: Limits,
    environment: Environment,
    seed: int,
) -> Choice:
    async def trial(seat: SeatName) -> Report:
        return await averify(
            reference, suite, runner=runner, limits=limits, environment=environment, seed=seed, seat=seat
        )

    return await seat_by_trial(suite, reference, trial) or otherwise


def told(exc: RunnerError | OSError) -> str:
    """Why we could not find out. An OSError that comes this far is this machine's: no space, no permission."""
    return str(exc) if isinstance(exc, RunnerError) else f"this machine refused: {exc}. What the job did is unknown."


def prepare(
    submission: Submission, suite: Suite, limits: Limits, environment: Environment, seed: int, seat: Seat = "in_process"
) -> Job:
    """The job, without anything that is expected of it."""
    ids = cases.case_ids(suite.cases)
    return Job(
        submission=files.admitted(submission.files, suite.files),
        suite=suite.files,
        calls=tuple(cases.call_of(case, nodeid) for case, nodeid in zip(suite.cases, ids, strict=True)),
        seat=seat,
        workers=suite.workers,
        options=suite.options,
        seed=seed,
        limits=limits,
        environment=environment,
    )


@contextlib.asynccontextmanager
async def _lease(runner: Runner | Pool, job: Job) -> AsyncIterator[Lease]:
    if isinstance(runner, Pool):
        async with runner.lease(job.environment, job.limits) as lease:
            yield lease
    else:
        async with session.open_guest(runner, job.environment, job.limits) as guest:
            yield Lease(guest, "sandbox")


def conclude(
    outcome: Outcome,
    suite: Suite,
    job: Job,
    choice: Choice,
    lease: Lease,
    waited: dict[str, float],
    total: float,
    unused: list[str],
) -> Report:
    begun = time.perf_counter()
    result = judge(outcome, suite.cases, job.limits, choice.seat)
    if unused:
        named = ", ".join(unused[:5]) + (f" and {len(unused) - 5} more" if len(unused) > 5 else "")
        result.notes.append(f"not used from the submission, since only the suite decides: {named}")
    parts = outcome.parts.values()
    seconds = {f"{name}_seconds": spent for name, spent in {**outcome.seconds, **waited}.items()}
    if lease.warm:
        seconds["start_seconds"] = 0.0  # it had started before this job was known
    else:  # what the runner spent before the guest could be spoken to is starting, too
        seconds["start_seconds"] += max(0.0, total - sum(outcome.seconds.values()))
    return Report(
        verdict=result.verdict,
        reason=result.reason,
        counts=result.counts,
        tests=tuple(result.tests),
        failures=tuple(result.failures),
        warnings=tuple(result.warnings),
        notes=tuple(result.notes),
        output="".join(part.output for part in parts),
        runner=outcome.isolation.runner,
        isolation=outcome.isolation,
        freshness=lease.freshness,
        integrity=result.integrity.model_copy(update={"reason": choice.reason}) if result.integrity else None,
        limits=job.limits,
        measurements=Measurements(
            total_seconds=total,
            judge_seconds=time.perf_counter() - begun,
            cpu_seconds=sum(part.cpu_seconds for part in parts),
            peak_memory_mb=max((part.peak_memory_mb for part in parts), default=0),
            output_bytes=sum(part.output_bytes for part in parts),
            leftover_processes=sum(part.leftover_processes for part in parts),
            restarts=sum(part.restarts + max(0, len(part.candidates) - 1) for part in parts),
            **seconds,
        ),
        seed=job.seed,
        python=str(outcome.guest.get("python", "")),
        pytest=str(outcome.guest.get("pytest", "")),
        version=version(),
    )


@contextlib.asynccontextmanager
async def entered(runner: str | Runner | Pool | None, progress: Progress | None) -> AsyncIterator[Runner | Pool]:
    """The runner that is meant, ready to open sandboxes."""
    if runner is not None and not isinstance(runner, str):
        yield runner
        return
    async with await choose(runner or settings.default_runner(), progress) as chosen:
        yield chosen


@cache
def version() -> str:
    return metadata.version("reproof")


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run it on our own event loop and wait; an interrupt cancels it and waits for its clean-up."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            with contextlib.suppress(BaseException):
                future.result(timeout=60)
        raise


_starting = threading.Lock()


_loops: dict[int, asyncio.AbstractEventLoop] = {}


def _loop() -> asyncio.AbstractEventLoop:
    """One loop for this process; a fork has no thread of ours and gets its own."""
    with _starting:
        loop = _loops.get(os.getpid())
        if loop is None:
            _loops.clear()
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="reproof", daemon=True).start()
        return loop
