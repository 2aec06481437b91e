"""Many jobs: a fixed number at once, streamed in and out, resumable.

Nothing is held but the jobs that are running: the next one is read when a worker
is free, and a worker waits while its last result has not been taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from runners.contract import Environment, Limits, Runner, RunnerError
from runners.pool import Freshness, Pool

from . import metrics
from .cache import VerdictCache
from .models import Case, Report, Submission, Suite
from .verify import Progress, averify, entered, run_blocking, version

__all__ = ["BadLine", "Task", "averify_many", "finished_ids", "read_tasks", "result_line", "stream", "verify_many"]


@dataclass(frozen=True)
class Task:
    """One job of many."""

    id: str
    submission: Submission
    suite: Suite
    limits: Limits = field(default_factory=Limits)
    environment: Environment = field(default_factory=Environment)


@dataclass(frozen=True)
class BadLine:
    """A job line that cannot be understood: a result of its own, and the rest goes on."""

    id: str
    reason: str


def verify_many(
    jobs: Iterable[Task | tuple[Submission, Suite]],
    *,
    runner: str | Runner | Pool | None = None,
    limits: Limits | None = None,
    environment: Environment | None = None,
    workers: int | None = None,
    freshness: Freshness = "fork",
    cache: VerdictCache | None = None,
    progress: Progress | None = None,
) -> Iterator[Report]:
    """Reports in the order of the jobs, as they become known; see `averify_many`."""
    reports = averify_many(
        jobs,
        runner=runner,
        limits=limits,
        environment=environment,
        workers=workers,
        freshness=freshness,
        cache=cache,
        progress=progress,
    )
    try:
        while True:
            try:
                yield run_blocking(_next(reports))
            except StopAsyncIteration:
                return
    finally:
        run_blocking(_close(reports))


async def _next(reports: AsyncIterator[Report]) -> Report:
    return await anext(reports)


async def _close(reports: AsyncGenerator[Report, None]) -> None:
    await reports.aclose()


async def averify_many(
    jobs: Iterable[Task | tuple[Submission, Suite]],
    *,
    runner: str | Runner | Pool | None = None,
    limits: Limits | None = None,
    environment: Environment | None = None,
    workers: int | None = None,
    freshness: Freshness = "fork",
    cache: VerdictCache | None = None,
    progress: Progress | None = None,
) -> AsyncGenerator[Report, None]:
    """Verify many jobs, `workers` at a time, and yield their reports in order.

    `limits` and `environment` are for the jobs that are plain pairs. Leaving the
    loop early ends what is running.
    """
    tasks = _numbered(jobs, limits or Limits(), environment or Environment())
    done: dict[int, Report] = {}
    expected = 0
    results = stream(
        tasks, runner=runner, workers=workers, freshness=freshness, cache=cache, progress=progress
    )
    async with contextlib.aclosing(results):
        async for task, report in results:
            done[int(task.id)] = report
            while expected in done:
                yield done.pop(expected)
                expected += 1


def _numbered(
    jobs: Iterable[Task | tuple[Submission, Suite]], limits: Limits, environment: Environment
) -> Iterator[Task]:
    for index, job in enumerate(jobs):
        if isinstance(job, Task):
            yield Task(str(index), job.submission, job.suite, job.limits, job.environment)
        else:
            yield Task(str(index), *job, limits, environment)


async def stream(
    tasks: Iterable[Task | BadLine],
    *,
    runner: str | Runner | Pool | None = None,
    workers: int | None = None,
    freshness: Freshness = "fork",
    cache: VerdictCache | None = None,
    progress: Progress | None = None,
) -> AsyncGenerator[tuple[Task | BadLine, Report], None]:
    """Each task with its report, as each ends. A job that we fail at is `invalid` and hurts no other."""
    waiting = iter(tasks)
    workers = workers or os.cpu_count() or 1
    ended: asyncio.Queue[tuple[Task | BadLine, Report] | None] = asyncio.Queue(maxsize=1)

    async def work(source: Pool | RunnerError) -> None:
        for task in waiting:  # shared by all workers: each takes the next one
            await ended.put((task, await _one(task, source, cache)))

    async def work_all(source: Pool | RunnerError) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(work(source))
        finally:
            await ended.put(None)

    async with contextlib.AsyncExitStack() as stack:
        source = await _source(stack, runner, workers, freshness, progress)
        working = asyncio.create_task(work_all(source))
        try:
            while (item := await ended.get()) is not None:
                yield item
            await working
        finally:
            working.cancel()
            while not working.done():  # a worker may be waiting to hand over what nobody takes any more
                with contextlib.suppress(asyncio.QueueEmpty):
                    ended.get_nowait()
                await asyncio.wait([working], timeout=0.01)
            with contextlib.suppress(asyncio.CancelledError):
                await working


async def _source(
    stack: contextlib.AsyncExitStack,
    runner: str | Runner | Pool | None,
    workers: int,
    freshness: Freshness,
    progress: Progress | None,
) -> Pool | RunnerError:
    """A pool for these workers, or why there is none: then every job is told."""
    try:
        ready = await stack.enter_async_context(entered(runner, progress))
    except RunnerError as exc:
        return exc
    if isinstance(ready, Pool):
        return ready
    # A sandbox is being cleaned or replaced while its worker already has the next job.
    # Used once, it saves nothing to prepare more than this one job will need.
    pool = Pool(
        ready,
        size=workers,
        most=workers,
        freshness=freshness,
        preload=freshness == "fork",
        on_taken=metrics.pool_taken,
    )
    return await stack.enter_async_context(pool)


async def _one(task: Task | BadLine, runner: Pool | RunnerError, cache: VerdictCache | None) -> Report:
    if isinstance(task, BadLine):
        return Report(verdict="invalid", reason=task.reason, version=version())
    if isinstance(runner, RunnerError):
        return Report(verdict="invalid", reason=str(runner), runner=runner.runner, version=version())
    try:
        return await averify(
            task.submission,
            task.suite,
            runner=runner,
            limits=task.limits,
            environment=task.environment,
            cache=cache,
        )
    except Exception as exc:  # a bug of ours; a million other jobs need not know
        reason = f"a fault of Reproof itself: {type(exc).__name__}: {exc}. What the job did is unknown."
        return Report(verdict="invalid", reason=reason, runner=runner.name, version=version())


# --- job lines and result lines -----------------------------------------------


def read_tasks(lines: Iterable[str], limits: Limits, skip: set[str]) -> Iterator[Task | BadLine]:
    """The tasks of a JSON-lines file, but for those whose id is in `skip`."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        task = _read_task(line, number, limits)
        if task.id not in skip:
            yield task


def _read_task(line: str, number: int, limits: Limits) -> Task | BadLine:
    identity = f"line {number}"
    try:
        data = json.loads(line)
        if not isinstance(data, dict):
            raise ValueError(f"holds {type(data).__name__}, not an object")
        identity = str(data.get("id", identity))
        return Task(
            identity,
            Submission(files=data.get("files", {})),
            Suite(
                files=data.get("tests", {}),
                cases=tuple(Case.from_json(case) for case in data.get("cases", ())),
                workers=data.get("workers", 0),
                options=tuple(data.get("options", ())),
            ),
            Limits(**{**limits.model_dump(), **data.get("limits", {})}),
            Environment(requirements=tuple(data.get("requirements", ()))),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        return BadLine(identity, f"line {number} is not a job: {exc}")


def result_line(task: Task | BadLine, report: Report) -> str:
    result: dict[str, Any] = {"id": task.id, "verdict": report.verdict, "reward": report.reward}
    result["report"] = report.model_dump(mode="json")
    return json.dumps(result) + "\n"


def finished_ids(path: Path) -> set[str]:
    """The ids that an earlier run has written; a line that was cut off in the middle is removed."""
    if not path.exists():
        return set()
    ids = set()
    with path.open("rb+") as file:
        whole = 0
        for line in file:
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("cut off")
                ids.add(str(json.loads(line)["id"]))
            except (ValueError, KeyError, TypeError):
                break
            whole += len(line)
        file.truncate(whole)
    return ids


class ProgressBar:
    """How far, how fast, how much longer: one line redrawn on a terminal, a line now and then elsewhere."""

    EVERY_SECONDS = 5.0

    def __init__(self, total: int, file: TextIO) -> None:
        self._total, self._file = total, file
        self._live = file.isatty()
        self._begun = self._shown = time.monotonic()
        self._counts: dict[str, int] = {}

    def add(self, report: Report) -> None:
        self._counts[report.verdict] = self._counts.get(report.verdict, 0) + 1
        now = time.monotonic()
        if now - self._shown >= (0.1 if self._live else self.EVERY_SECONDS):
            self._shown = now
            self._write()

    def close(self) -> None:
        self._write()
        if self._live:
            self._file.write("\n")

    def _write(self) -> None:
        if self._live:
            self._file.write("\r\x1b[K" + self.line(bar=True))
        else:
            self._file.write(self.line(bar=False) + "\n")
        self._file.flush()

    def line(self, bar: bool) -> str:
        done = sum(self._counts.values())
        spent = max(time.monotonic() - self._begun, 1e-6)
        rate = done / spent
        left = f", {_clock((self._total - done) / rate)} left" if rate and done < self._total else ""
        verdicts = ", ".join(f"{count} {name}" for name, count in sorted(self._counts.items()))
        filled = 20 * done // max(self._total, 1)
        drawn = "[" + "#" * filled + "." * (20 - filled) + "] " if bar else ""
        return f"{drawn}{done}/{self._total} jobs, {rate:.1f}/s{left}: {verdicts}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
