"""Warm sandboxes: ready before they are asked for, and gone or cleaned before anyone else gets them.

**Freshness**, in two strengths. `sandbox`: a sandbox is handed out once and then
thrown away. `fork`: it is handed out again, if its guest vouches that nothing of
the last job is left; at any doubt, and after a number of jobs anyway, it is
thrown away, too.

Sandboxes are kept on a shelf for each environment and each set of limits that a
sandbox is built with. A request takes one from its shelf, or waits in line for
the next that gets ready there. Each lives in a task of its own, so it is closed
by the task that opened it, whoever used it in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from . import session
from .contract import Environment, Job, Limits, Outcome, Runner, RunnerError, RunnerLost
from .session import Guest, OnEvent

__all__ = ["Freshness", "Lease", "Pool"]

Freshness = Literal["sandbox", "fork"]

JOBS_PER_SANDBOX = 500
IDLE_SECONDS = 300.0
RETURN_SECONDS = 0.1
"""Cleaning takes a few milliseconds, unless a job has made much to clean; then another is made instead."""
_Key = tuple[str, int, int, int]


@dataclass
class Lease:
    """A guest for one job."""

    guest: Guest
    freshness: Freshness
    warm: bool = False
    """Whether it was ready before it was asked for."""

    async def run(self, job: Job, on_event: OnEvent | None = None) -> Outcome:
        return await self.guest.run(job, on_event, last=self.freshness == "sandbox")


class _Sandbox:
    """One sandbox and the task that holds it open."""

    def __init__(self, runner: Runner, environment: Environment, limits: Limits, preload: bool) -> None:
        self._opened: asyncio.Future[Guest] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._task = asyncio.create_task(self._hold(runner, environment, limits, preload))
        self.idle_since = 0.0

    async def _hold(self, runner: Runner, environment: Environment, limits: Limits, preload: bool) -> None:
        try:
            async with session.open_guest(runner, environment, limits, preload=preload) as guest:
                self._opened.set_result(guest)
                await self._closing.wait()
        except Exception as exc:
            if self._opened.done():
                raise
            self._opened.set_exception(exc)
        finally:
            self._opened.cancel()

    async def opened(self) -> Guest:
        return await asyncio.shield(self._opened)

    @property
    def guest(self) -> Guest:
        return self._opened.result()

    async def close(self) -> None:
        """Gone, with all that is in it, when this returns."""
        self._closing.set()
        if not self._opened.done():
            self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and self._task.exception() is not None:
            raise RunnerLost("pool", f"a sandbox could not be closed: {self._task.exception()}")


@dataclass
class _Shelf:
    """What is ready, or getting ready, for one kind of request."""

    environment: Environment
    limits: Limits
    ready: deque[_Sandbox] = field(default_factory=deque)
    waiting: deque[asyncio.Future[_Sandbox]] = field(default_factory=deque)
    preparing: int = 0
    leased: int = 0
    returning: int = 0
    """Being cleaned after a job; they are expected back."""

    @property
    def short(self) -> int:
        """How many more than are on their way are waited for by someone who has not given up."""
        return sum(not waiter.done() for waiter in self.waiting) - self.preparing - self.returning

    def next_in_line(self) -> asyncio.Future[_Sandbox] | None:
        while self.waiting:
            future = self.waiting.popleft()
            if not future.done():
                return future
        return None


def _most_here(size: int) -> int:
    """How many this machine can run at once: two for each core, and none without half a gigabyte."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(max(size, 2 * (os.cpu_count() or 1)), memory >> 29))


class Pool:
    """Keeps `size` sandboxes warm; at most `most` are in use at once, and more requests wait in order."""

    def __init__(
        self,
        runner: Runner,
        *,
        size: int | None = None,
        freshness: Freshness = "sandbox",
        most: int | None = None,
        jobs_per_sandbox: int = JOBS_PER_SANDBOX,
        idle_seconds: float = IDLE_SECONDS,
        preload: bool = True,
        on_taken: Callable[[bool, float], None] | None = None,
    ) -> None:
        self.runner = runner
        self.freshness = freshness
        self.hits = 0
        self.misses = 0
        self._size = size if size is not None else os.cpu_count() or 1
        self._in_use = asyncio.Semaphore(most if most is not None else _most_here(self._size))
        self._jobs_per_sandbox = jobs_per_sandbox
        self._idle_seconds = idle_seconds
        self._preload = preload
        self._on_taken = on_taken or (lambda hit, seconds: None)
        self._shelves: dict[_Key, _Shelf] = {}
        self._live: set[_Sandbox] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        return self.runner.name

    @property
    def size(self) -> int:
        """Sandboxes that exist right now: ready, getting ready or in use."""
        return len(self._live)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._start(self._retire_idle())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for those in use, then close all; cancelled, close them at once."""
        self._closed = True
        try:
            await self._unused.wait()
        finally:
            await asyncio.shield(self._close())

    async def _close(self) -> None:
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        await asyncio.gather(*[self._discard(sandbox) for sandbox in self._live])

    async def warm(self, environment: Environment, limits: Limits) -> None:
        """Return when `size` sandboxes for such jobs are ready.

        Raises:
            RunnerError: one did not come up.
        """
        self._check_loop()
        shelf = self._shelf(environment, limits)
        missing = self._size - len(shelf.ready)
        made = await asyncio.gather(*[self._order(shelf) for _ in range(missing)], return_exceptions=True)
        for sandbox in made:
            if isinstance(sandbox, _Sandbox):
                self._put(shelf, sandbox)
        for problem in made:
            if isinstance(problem, BaseException):
                raise problem

    @contextlib.asynccontextmanager
    async def lease(self, environment: Environment, limits: Limits) -> AsyncIterator[Lease]:
        """A guest for one job; afterwards it is cleaned or thrown away behind the scenes.

        Raises:
            RunnerError: no sandbox could be had.
        """
        self._check_loop()
        self._users += 1
        self._unused.clear()
        try:
            async with self._in_use:
                shelf = self._shelf(environment, limits)
                asked = time.perf_counter()
                sandbox, hit = await self._take(shelf)
                self._on_taken(hit, time.perf_counter() - asked)
                done = False
                shelf.leased += 1
                try:
                    yield Lease(sandbox.guest, self.freshness, hit)
                    done = True
                finally:
                    shelf.leased -= 1
                    if done:
                        shelf.returning += self.freshness == "fork"
                        self._start(self._after(shelf, sandbox))
                    else:  # it failed or was cancelled: nobody may see a sandbox in that state
                        await asyncio.shield(self._discard(sandbox))
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()

    # --- taking ---------------------------------------------------------------

    async def _take(self, shelf: _Shelf) -> tuple[_Sandbox, bool]:
        while shelf.ready:
            sandbox = shelf.ready.popleft()
            answering = asyncio.create_task(sandbox.guest.ping())
            try:
                await asyncio.shield(answering)
            except RunnerLost:  # it died on the shelf
                await self._discard(sandbox)
                continue
            except asyncio.CancelledError:
                self._start(self._put_back(shelf, sandbox, answering))
                raise
            self.hits += 1
            return sandbox, True
        self.misses += 1
        future = self._order(shelf)
        try:
            return await future, False
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._put(shelf, future.result())  # it was ours a moment too late
            raise

    def _order(self, shelf: _Shelf) -> asyncio.Future[_Sandbox]:
        """Get in line, and see that enough are being made for all who wait."""
        future: asyncio.Future[_Sandbox] = asyncio.get_running_loop().create_future()
        shelf.waiting.append(future)
        if shelf.short > 0:
            self._prepare(shelf)
        return future

    def _prepare(self, shelf: _Shelf) -> None:
        shelf.preparing += 1
        self._start(self._open(shelf))

    async def _open(self, shelf: _Shelf) -> None:
        sandbox = _Sandbox(self.runner, shelf.environment, shelf.limits, self._preload)
        self._live.add(sandbox)
        try:
            await sandbox.opened()
        except Exception as exc:  # whatever it is: it is for the one who waits
            self._live.discard(sandbox)
            waiter = shelf.next_in_line()
            if waiter is not None:
                waiter.set_exception(exc)
        else:
            self._put(shelf, sandbox)
        finally:
            shelf.preparing -= 1

    def _put(self, shelf: _Shelf, sandbox: _Sandbox) -> None:
        """To the first in line, else on the shelf."""
        waiter = shelf.next_in_line()
        if waiter is not None:
            waiter.set_result(sandbox)
        else:
            sandbox.idle_since = time.monotonic()
            shelf.ready.append(sandbox)

    # --- giving back ----------------------------------------------------------

    async def _put_back(self, shelf: _Shelf, sandbox: _Sandbox, answering: asyncio.Task[None]) -> None:
        """Nobody waits for its answer any more; the next one must not get it instead of their own."""
        try:
            await answering
        except RunnerLost:
            await self._discard(sandbox)
        else:
            self._put(shelf, sandbox)

    async def _after(self, shelf: _Shelf, sandbox: _Sandbox) -> None:
        if self.freshness == "fork" and await self._returned(shelf, sandbox):
            self._put(shelf, sandbox)
        else:
            self._refill(shelf)  # the next one starts while this one is removed
            await self._discard(sandbox)

    async def _returned(self, shelf: _Shelf, sandbox: _Sandbox) -> bool:
        """Whether it may be handed out again. Who waits for it meanwhile does so for a moment only."""
        cleaning = asyncio.create_task(self._is_clean(sandbox))
        try:
            await asyncio.wait([cleaning], timeout=RETURN_SECONDS)
            shelf.returning -= 1
            if not cleaning.done() and shelf.short > 0:
                self._prepare(shelf)
            return await cleaning
        finally:
            cleaning.cancel()

    def _refill(self, shelf: _Shelf) -> None:
        """Have as many ready as there should be, and one for each who waits."""
        back = shelf.returning + shelf.leased if self.freshness == "fork" else 0
        while not self._closed and (shelf.short > 0 or len(shelf.ready) + shelf.preparing + back < self._size):
            self._prepare(shelf)

    async def _is_clean(self, sandbox: _Sandbox) -> bool:
        try:
            clean = await sandbox.guest.settle()
        except RunnerLost:
            return False
        return clean and sandbox.guest.jobs < self._jobs_per_sandbox

    async def _discard(self, sandbox: _Sandbox) -> None:
        with contextlib.suppress(RunnerError):  # what cannot be removed now, the runner's next sweep removes
            await sandbox.close()
        self._live.discard(sandbox)

    async def _retire_idle(self) -> None:
        while True:
            await asyncio.sleep(min(self._idle_seconds, 10))
            for shelf in list(self._shelves.values()):
                while shelf.ready and time.monotonic() - shelf.ready[0].idle_since > self._idle_seconds:
                    await self._discard(shelf.ready.popleft())

    # --- odds -----------------------------------------------------------------

    def _shelf(self, environment: Environment, limits: Limits) -> _Shelf:
        key = (environment.model_dump_json(), limits.memory_mb, limits.disk_mb, limits.processes)
        return self._shelves.setdefault(key, _Shelf(environment, limits))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _check_loop(self) -> None:
        if self._closed:
            raise RunnerLost(self.name, "the pool is closed.")
        if self._loop is None:
            raise ValueError("runner: this pool is not entered; use `async with pool`")
        if asyncio.get_running_loop() is not self._loop:
            raise ValueError("runner: this pool belongs to another event loop; enter it where it is used")
