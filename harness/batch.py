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
from typing import Any, TextIO, TypeVar

from runners.contract import Environment, Limits, Runner, RunnerError
from runners.pool import Freshness, Pool

from . import metrics
from .cache import VerdictCache
from .models import Case, Report, Seat, Submission, Suite
from .seats import SeatName
from .verify import Progress, averify, entered, run_blocking, told, version

__all__ = ["BadLine", "Task", "averify_many", "finished_ids", "read_tasks", "result_line", "stream", "verify_many"]

T = TypeVar("T")

AHEAD = 16
"""Jobs per worker that `averify_many` begins while the report of an earlier one is not there."""


@dataclass(frozen=True)
class Task:
    """One job of many."""

    id: Any
    """Whatever JSON value its line gives it; comes back as it is."""
    submission: Submission
    suite: Suite
    limits: Limits = field(default_factory=Limits)
    environment: Environment = field(default_factory=Environment)


@dataclass(frozen=True)
class BadLine:
    """A job line that cannot be understood: a result of its own, and the rest goes on."""

    id: Any
    reason: str


def verify_many(
    jobs: Iterable[Task | tuple[Submission, Suite]],
    *,
    runner: str | Runner | Pool | None = None,
    limits: Limits | None = None,
    environment: Environment | None = None,
    workers: int | None = None,
    freshness: Freshness = "fork",
    seat: SeatName = "auto",
    require_seat: Seat | None = None,
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
        seat=seat,
        require_seat=require_seat,
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
    seat: SeatName = "auto",
    require_seat: Seat | None = None,
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
    workers = _at_once(workers)
    room = asyncio.Semaphore(AHEAD * workers)
    results = stream(
        tasks,
        runner=runner,
        workers=workers,
        freshness=freshness,
        seat=seat,
        require_seat=require_seat,
        cache=cache,
        progress=progress,
        room=room,
    )
    async with contextlib.aclosing(results):
        async for task, report in results:
            done[task.id] = report
            while expected in done:
                yield done.pop(expected)
                expected += 1
                room.release()


def _at_once(workers: int | None) -> int:
    if workers is None:
        return os.cpu_count() or 1
    if workers < 1:
        raise ValueError(f"workers: {workers} can do nothing; at least 1")
    return workers


def _numbered(
    jobs: Iterable[Task | tuple[Submission, Suite]], limits: Limits, environment: Environment
) -> Iterator[Task]:
    for index, job in enumerate(jobs):
        if isinstance(job, Task):
            yield Task(index, job.submission, job.suite, job.limits, job.environment)
        else:
            yield Task(index, *job, limits, environment)


async def stream(
    tasks: Iterable[Task | BadLine],
    *,
    runner: str | Runner | Pool | None = None,
    workers: int | None = None,
    freshness: Freshness = "fork",
    seat: SeatName = "auto",
    require_seat: Seat | None = None,
    cache: VerdictCache | None = None,
    progress: Progress | None = None,
    room: asyncio.Semaphore | None = None,
) -> AsyncGenerator[tuple[Task | BadLine, Report], None]:
    """Each task with its report, as each ends. A job that we fail at is `invalid` and hurts no other.

    A worker that has ended a job takes the next one when there is `room`, which the caller gives back.
    """
    waiting = iter(tasks)
    workers = _at_once(workers)
    ended: asyncio.Queue[tuple[Task | BadLine, Report] | None] = asyncio.Queue(maxsize=1)

    async def work(source: Pool | RunnerError | OSError) -> None:
        for task in waiting:  # shared by all workers: each takes the next one
            await ended.put((task, await _one(task, source, seat, require_seat, cache)))
            if room is not None:
                await room.acquire()

    async def work_all(source: Pool | RunnerError | OSError) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(work(source))
        except ExceptionGroup as failed:  # only `tasks` raises there, and its error is the caller's own
            raise failed.exceptions[0] from None
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
) -> Pool | RunnerError | OSError:
    """A pool for these workers, or why there is none: then every job is told."""
    try:
        ready = await stack.enter_async_context(entered(runner, progress))
    except (RunnerError, OSError) as exc:
        return exc
    if isinstance(ready, Pool):
        return ready
    # Used once, it saves nothing to prepare more than this one job will need; but the next
    # one starts while others run and are removed, so that no core waits for the engine.
    pool = Pool(
        ready,
        size=workers + (freshness == "sandbox"),
        most=workers,
        freshness=freshness,
        preload=freshness == "fork",
        on_taken=metrics.pool_taken,
    )
    metrics.pool_opened(pool)
    return await stack.enter_async_context(pool)


async def _one(
    task: Task | BadLine,
    runner: Pool | RunnerError | OSError,
    seat: SeatName,
    require_seat: Seat | None,
    cache: VerdictCache | None,
) -> Report:
    if isinstance(task, BadLine):
        return Report(verdict="invalid", reason=task.reason, version=version())
    if not isinstance(runner, Pool):
        name = getattr(runner, "runner", "")
        return Report(verdict="invalid", reason=told(runner), runner=name, limits=task.limits, version=version())
    try:
        return await averify(
            task.submission,
            task.suite,
            runner=runner,
            limits=task.limits,
            environment=task.environment,
            seat=seat,
            require_seat=require_seat,
            cache=cache,
        )
    except ValueError as exc:  # the suite needs another seat than the one that is required
        return Report(verdict="invalid", reason=str(exc), runner=runner.name, limits=task.limits, version=version())
    except Exception as exc:  # a bug of ours; a million other jobs need not know
        reason = f"a fault of Reproof itself: {type(exc).__name__}: {exc}. What the job did is unknown."
        return Report(verdict="invalid", reason=reason, runner=runner.name, version=version())


# --- job lines and result lines -----------------------------------------------


def read_tasks(lines: Iterable[str], limits: Limits, skip: set[str]) -> Iterator[Task | BadLine]:
    """The tasks of a JSON-lines file, but for those that `finished_ids` gave to `skip`."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        task = _read_task(line, number, limits)
        if _key(task.id) not in skip:
            yield task


def _key(identity: Any) -> str:
    """Ids are any JSON: 7 and "7" are two of them, and a list cannot be looked up."""
    return json.dumps(identity, sort_keys=True)


def _read_task(line: str, number: int, limits: Limits) -> Task | BadLine:
    identity: Any = f"line {number}"
    try:
        data = json.loads(line)
        if not isinstance(data, dict):
            raise ValueError(f"holds {type(data).__name__}, not an object")
        if data.get("id") is not None:
            identity = data["id"]
        if "files" not in data:
            raise ValueError("files: there are none")
        return Task(
            identity,
            Submission(files=data["files"]),
            Suite(
                files=_field(data, "tests", dict),
                cases=tuple(map(Case.from_json, _field(data, "cases", list))),
                workers=_field(data, "workers", int),
                options=tuple(_field(data, "options", list)),
            ),
            Limits(**{**limits.model_dump(), **_field(data, "limits", dict)}),
            Environment(requirements=tuple(_field(data, "requirements", list))),
        )
    except (ValueError, TypeError, RecursionError) as exc:
        return BadLine(identity, f"line {number} is not a job: {exc}")


def _field(data: dict[str, Any], name: str, kind: type[T]) -> T:
    """What the line says under this name; null is nothing said."""
    value = data.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ValueError(f"{name}: holds {type(value).__name__}, not {kind.__name__}")
    return value


def result_line(task: Task | BadLine, report: Report) -> str:
    result: dict[str, Any] = {"id": task.id, "verdict": report.verdict, "reward": report.reward}
    result["report"] = report.model_dump(mode="json")
    return json.dumps(result) + "\n"


_BEGINNING = b'{"id": '
"""Of every result line."""


def finished_ids(path: Path) -> set[str]:
    """What an earlier run has written, for `read_tasks` to skip.

    A last line that was cut off is removed. One that is damaged elsewhere is kept, and its job is run again.

    Raises:
        ValueError: the file holds no results but something else; it was not touched.
    """
    if not path.is_file():
        return set()
    found: set[str] = set()
    line = torn = foreign = b""
    with path.open("rb+") as file:
        for line in file:
            if (identity := _finished(line)) is not None:
                found.add(identity)
            elif not line.endswith(b"\n") and line.startswith(_BEGINNING[: len(line)]):
                torn = line
            else:
                foreign = line
        if foreign and not found:
            raise ValueError(f"{path}: is not a file of results; nothing was written to it")
        if torn:
            file.truncate(file.tell() - len(torn))
        elif line and not line.endswith(b"\n"):
            file.write(b"\n")
    return found


def _finished(line: bytes) -> str | None:
    try:
        result = json.loads(line)
        return _key(result["id"]) if "verdict" in result else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


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
