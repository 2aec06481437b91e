"""Sandboxes that are ready before they are asked for, for as long as a block lasts."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

from runners.contract import Environment, Limits, Runner
from runners.pool import Freshness, Pool

from . import metrics
from .verify import Progress, entered, run_blocking

__all__ = ["awarm", "warm"]


@contextlib.contextmanager
def warm(
    runner: str | Runner | None = None,
    *,
    size: int | None = None,
    freshness: Freshness = "sandbox",
    limits: Limits | None = None,
    environment: Environment | None = None,
    progress: Progress | None = None,
) -> Iterator[Pool]:
    """`with warm("bubblewrap") as pool: verify(..., runner=pool)`; see `awarm`."""
    pools = awarm(runner, size=size, freshness=freshness, limits=limits, environment=environment, progress=progress)
    pool = run_blocking(_enter(pools))
    try:
        yield pool
    finally:
        run_blocking(_leave(pools))


async def _enter(pools: contextlib.AbstractAsyncContextManager[Pool]) -> Pool:
    return await pools.__aenter__()


async def _leave(pools: contextlib.AbstractAsyncContextManager[Pool]) -> None:
    await pools.__aexit__(None, None, None)


@contextlib.asynccontextmanager
async def awarm(
    runner: str | Runner | None = None,
    *,
    size: int | None = None,
    freshness: Freshness = "sandbox",
    limits: Limits | None = None,
    environment: Environment | None = None,
    progress: Progress | None = None,
) -> AsyncIterator[Pool]:
    """A pool with `size` sandboxes (one per core) ready for jobs with these limits and this environment.

    `freshness="sandbox"` hands each out once, `"fork"` again after it has been cleaned. Leaving
    the block waits for the jobs that are running, and removes every sandbox.

    Raises:
        RunnerError: there is no such sandbox to be had here.
    """
    async with (
        entered(runner, progress) as ready,
        Pool(_no_pool(ready), size=size, freshness=freshness, on_taken=metrics.pool_taken) as pool,
    ):
        metrics.pool_opened(pool)
        await pool.warm(environment or Environment(), limits or Limits())
        yield pool


def _no_pool(runner: Runner | Pool) -> Runner:
    if isinstance(runner, Pool):
        raise ValueError("runner: is a pool already")
    return runner
