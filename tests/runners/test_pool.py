"""The pool: ready before it is asked, never the same for two, nothing lost and nothing left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from harness.verify import run_blocking
from runners.contract import Environment, Job, Limits, Runner, RunnerError, RunnerLost, RunnerUnavailable, Sandbox
from runners.pool import Lease, Pool

from .leftovers import nothing_left, processes

HERE = Environment()
LIMITS = Limits(memory_mb=256, processes=48, disk_mb=32)
OTHER_LIMITS = Limits(memory_mb=300, processes=48, disk_mb=32)
PATIENCE = 10
"""Seconds after which what should happen is not going to; nothing takes as long."""


class Watched:
    """Sandboxes of a real runner, counted as they open and close; each does so only when its gate is open."""

    def __init__(self, runner: Runner) -> None:
        self.name = runner.name
        self.opened: list[Sandbox] = []
        self.closed: list[Sandbox] = []
        self.may_open, self.may_close = asyncio.Event(), asyncio.Event()
        self.may_open.set()
        self.may_close.set()
        self._runner = runner
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def open(self, environment: Environment, limits: Limits) -> AsyncIterator[Sandbox]:
        await self.may_open.wait()
        async with self._runner.open(environment, limits) as sandbox:
            await self._note(self.opened, sandbox)
            try:
                yield sandbox
            finally:
                await self._note(self.closed, sandbox)
                await self.may_close.wait()

    async def _note(self, seen: list[Sandbox], sandbox: Sandbox) -> None:
        async with self._changed:
            seen.append(sandbox)
            self._changed.notify_all()

    async def until(self, opened: int = 0, closed: int = 0) -> None:
        """Return when so many have opened and so many have begun to close."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.opened) >= opened and len(self.closed) >= closed)


class Broken:
    """A runner that cannot open a sandbox."""

    name = "broken"

    def __init__(self, error: Exception) -> None:
        self._error = error

    @contextlib.asynccontextmanager
    async def open(self, environment: Environment, limits: Limits) -> AsyncIterator[Sandbox]:
        raise self._error
        yield


@pytest.fixture
async def watched(bubblewrap_runner: Runner) -> Watched:
    return Watched(bubblewrap_runner)


@pytest.fixture(autouse=True)
def leaves_nothing(bubblewrap_runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After a pool is closed, nothing is left of its sandboxes."""
    with nothing_left(tmp_path_factory.mktemp("temporary")):
        yield


def job(code: str = "def test_it(): pass") -> Job:
    return Job(submission={}, suite={"test_it.py": code.encode()}, limits=LIMITS)


async def passes(lease: Lease) -> bool:
    """Whether a job runs to its end there."""
    outcome = await lease.run(job())
    return outcome.parts["pytest"].exit_code == 0 and outcome.events[-1]["e"] == "finish"


async def use(pool: Pool, limits: Limits = LIMITS) -> Lease:
    """Run one job, and return the lease when it is over."""
    async with pool.lease(HERE, limits) as lease:
        assert await passes(lease)
    return lease


def kill_new(before: set[str]) -> None:
    """Kill every process below this one that was not there before."""
    for shown in set(processes()) - before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(shown.split()[0]), signal.SIGKILL)


# --- ready before it is asked for -------------------------------------------------


async def test_warm_gets_the_target_size_ready(watched):
    """
    When `warm` returns, as many sandboxes as the pool should hold can be had at once.
    """
    async with Pool(watched, size=3, most=3) as pool, contextlib.AsyncExitStack() as stack:
        await pool.warm(HERE, LIMITS)
        watched.may_open.clear()
        async with asyncio.timeout(PATIENCE):
            leases = [await stack.enter_async_context(pool.lease(HERE, LIMITS)) for _ in range(3)]

        assert [lease.warm for lease in leases] == [True, True, True]
        assert len({lease.guest for lease in leases}) == len(watched.opened) == pool.size == 3
        watched.may_open.set()


async def test_warming_twice_makes_no_more(watched):
    """
    What is ready already is not made again.
    """
    async with Pool(watched, size=2) as pool:
        await pool.warm(HERE, LIMITS)
        await pool.warm(HERE, LIMITS)

        assert len(watched.opened) == pool.size == 2


async def test_a_sandbox_that_was_ready_is_a_hit(watched):
    """
    Whether one was ready, and how long a request waited, is counted and told.
    """
    taken: list[tuple[bool, float]] = []
    async with Pool(watched, size=1, most=2, on_taken=lambda *told: taken.append(told)) as pool:
        await pool.warm(HERE, LIMITS)
        async with pool.lease(HERE, LIMITS) as first, pool.lease(HERE, LIMITS) as second:
            assert (first.warm, second.warm) == (True, False)

        assert (pool.hits, pool.misses) == (1, 1)
        assert [hit for hit, _ in taken] == [True, False]
        assert 0 <= taken[0][1] < taken[1][1]


async def test_it_is_replaced_before_the_next_request(watched):
    """
    After one is used up, the next is made without anyone asking.
    """
    async with Pool(watched, size=1, most=1) as pool:
        await pool.warm(HERE, LIMITS)
        await use(pool)
        await watched.until(opened=2, closed=1)

        assert len(watched.opened) == 2


async def test_requests_of_another_kind_have_their_own_shelf(watched):
    """
    A sandbox is never handed out for limits that it was not built with.
    """
    async with Pool(watched, size=1, most=2) as pool:
        await pool.warm(HERE, LIMITS)
        async with pool.lease(HERE, OTHER_LIMITS) as other, pool.lease(HERE, LIMITS) as same:
            assert (other.warm, same.warm) == (False, True)
            assert "300 MB" in other.guest.sandbox.isolation.memory
            assert "256 MB" in same.guest.sandbox.isolation.memory


async def test_an_environment_has_its_own_shelf(watched):
    """
    A sandbox is never handed out for another environment.
    """
    async with Pool(watched, size=1, most=2) as pool:
        await pool.warm(HERE, LIMITS)
        async with pool.lease(Environment(variables={"A": "1"}), LIMITS) as other:
            assert not other.warm


async def test_limits_of_time_do_not_matter_to_a_shelf(watched):
    """
    Limits that a job brings along, and a sandbox does not have, may differ.
    """
    async with Pool(watched, size=1) as pool:
        await pool.warm(HERE, LIMITS)
        async with pool.lease(HERE, LIMITS.model_copy(update={"wall_seconds": 7.0})) as lease:
            assert lease.warm


async def test_an_idle_sandbox_is_retired(watched):
    """
    What nobody has asked for in a while is closed.
    """
    async with Pool(watched, size=2, idle_seconds=0.05) as pool:
        await pool.warm(HERE, LIMITS)
        await watched.until(closed=2)

        assert len(watched.opened) == 2


async def test_retiring_goes_on_while_new_kinds_are_asked_for(watched):
    """
    A request of a new kind, just when an idle sandbox is being closed, does not end the retiring.
    """
    async with Pool(watched, size=1, most=2, idle_seconds=0.05, freshness="fork") as pool:
        await pool.warm(HERE, LIMITS)
        watched.may_close.clear()
        await watched.until(closed=1)
        await use(pool, OTHER_LIMITS)
        watched.may_close.set()
        await watched.until(closed=2)

        assert len(watched.opened) == 2


# --- handed out once, or again --------------------------------------------------------


async def test_a_sandbox_is_used_once(watched):
    """
    In freshness `sandbox` no two jobs get the same, and a used one is gone.
    """
    async with Pool(watched, size=1, most=1) as pool:
        guests = [(await use(pool)).guest for _ in range(3)]
        await watched.until(closed=3)

        assert len(set(guests)) == 3
        assert [guest.jobs for guest in guests] == [1, 1, 1]


async def test_a_shared_sandbox_is_used_again(watched):
    """
    In freshness `fork` one that is clean after its job serves the next one.
    """
    async with Pool(watched, size=1, most=1, freshness="fork") as pool:
        leases = [await use(pool) for _ in range(6)]

        assert max(lease.guest.jobs for lease in leases) > 1
        assert {lease.freshness for lease in leases} == {"fork"}


async def test_a_shared_sandbox_is_replaced_after_its_share_of_jobs(watched):
    """
    However clean it is, after so many jobs a sandbox is thrown away.
    """
    async with Pool(watched, size=1, most=1, freshness="fork", jobs_per_sandbox=2) as pool:
        leases = [await use(pool) for _ in range(6)]
        await watched.until(closed=2)

        assert max(lease.guest.jobs for lease in leases) == 2


async def test_a_sandbox_in_doubt_is_thrown_away(watched):
    """
    A job that leaves what cannot be removed costs its sandbox, and the next one has a new one.
    """
    leaves = """
import os

def test_leave():
    for _ in range(3_000):
        os.mkdir("left")
        os.chdir("left")
    os.chmod("..", 0)
"""
    async with Pool(watched, size=1, most=1, freshness="fork") as pool:
        async with pool.lease(HERE, LIMITS) as first:
            await first.run(job(leaves))
        await watched.until(closed=1)
        second = await use(pool)

        assert second.guest is not first.guest


@pytest.mark.parametrize("freshness", ["sandbox", "fork"])
async def test_two_at_a_time_never_share(watched, freshness):
    """
    While a sandbox is in use, nobody else gets it.
    """
    in_use: set[object] = set()

    async def one() -> None:
        async with pool.lease(HERE, LIMITS) as lease:
            assert lease.guest not in in_use
            in_use.add(lease.guest)
            assert await passes(lease)
            in_use.remove(lease.guest)

    async with Pool(watched, size=2, most=3, freshness=freshness) as pool:
        await asyncio.gather(*[one() for _ in range(12)])

        assert pool.hits + pool.misses == 12


async def test_no_more_than_the_cap_are_in_use(watched):
    """
    Requests past the cap wait, and are served in the order in which they came.
    """
    served: list[int] = []
    most = in_use = 0
    two_are_in_use = asyncio.Event()

    async def one(number: int) -> None:
        nonlocal most, in_use
        async with pool.lease(HERE, LIMITS) as lease:
            served.append(number)
            in_use += 1
            most = max(most, in_use)
            if in_use == 2:
                two_are_in_use.set()
            async with asyncio.timeout(PATIENCE):
                await two_are_in_use.wait()
            assert await passes(lease)
            in_use -= 1

    async with Pool(watched, size=2, most=2, freshness="fork") as pool:
        await asyncio.gather(*[one(number) for number in range(8)])

    assert all(abs(place - number) <= 1 for place, number in enumerate(served)), served  # two are served at once
    assert most == 2


# --- when something goes wrong ----------------------------------------------------------


async def test_a_failure_inside_of_a_lease_discards_the_sandbox(watched):
    """
    A sandbox whose user failed is in an unknown state, and nobody else sees it.
    """
    async with Pool(watched, size=1, most=1, freshness="fork") as pool:
        with pytest.raises(KeyError):
            async with pool.lease(HERE, LIMITS) as first:
                raise KeyError
        second = await use(pool)

        assert second.guest is not first.guest
        assert watched.closed == [first.guest.sandbox]


async def test_cancelling_a_job_discards_the_sandbox(watched):
    """
    A job that is cancelled half way takes its sandbox with it.
    """
    begun = asyncio.Event()
    leases: list[Lease] = []

    async def hang() -> None:
        async with pool.lease(HERE, LIMITS) as lease:
            leases.append(lease)
            await lease.run(job("import time\ndef test_it(): time.sleep(60)"), lambda event: begun.set())

    async with Pool(watched, size=1, most=1, freshness="fork") as pool:
        hanging = asyncio.create_task(hang())
        await begun.wait()
        hanging.cancel()
        await asyncio.wait([hanging])
        second = await use(pool)

        assert hanging.cancelled()
        assert second.guest is not leases[0].guest


async def test_a_request_that_is_cancelled_in_line_holds_nobody_up(watched):
    """
    The next in line is served as if the cancelled one had never been there.
    """
    async with Pool(watched, size=1, most=1, freshness="fork") as pool:
        async with pool.lease(HERE, LIMITS) as lease:
            assert await passes(lease)
            waiting = [asyncio.create_task(use(pool)) for _ in range(2)]
            await asyncio.sleep(0)
            waiting[0].cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait(waiting)

        assert waiting[0].cancelled()
        assert waiting[1].result().guest.jobs


async def test_a_sandbox_whose_request_is_cancelled_goes_to_the_next(watched):
    """
    What was being made for a request that gave up is there for the next one.
    """
    watched.may_open.clear()
    async with Pool(watched, size=1, most=1) as pool:
        waiting = asyncio.create_task(use(pool))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        watched.may_open.set()
        lease = await use(pool)

        assert lease.guest.sandbox is watched.opened[0]


async def test_a_request_that_is_cancelled_during_the_health_check_loses_nothing(watched):
    """
    Whoever comes next gets a sandbox that works.
    """
    async with Pool(watched, size=1, most=1) as pool:
        await pool.warm(HERE, LIMITS)
        asking = asyncio.create_task(use(pool))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])

        assert asking.cancelled()
        assert (await use(pool)).guest.jobs == 1


async def test_a_sandbox_that_died_on_the_shelf_is_not_handed_out(watched):
    """
    One that was killed while nobody looked is replaced, and its user notices nothing.
    """
    before = set(processes())
    async with Pool(watched, size=1, most=1) as pool:
        await pool.warm(HERE, LIMITS)
        kill_new(before)
        lease = await use(pool)

        assert lease.guest.sandbox is watched.opened[1]
        assert watched.closed[0] is watched.opened[0]
        assert not lease.warm


async def test_a_sandbox_that_is_killed_in_use_is_not_handed_out_again(watched):
    """
    Its job is lost, and says so; the next job has another sandbox.
    """
    before = set(processes())
    async with Pool(watched, size=1, most=1, freshness="fork") as pool:
        with contextlib.suppress(RunnerLost):
            async with pool.lease(HERE, LIMITS) as first:
                kill_new(before)
                await first.run(job())
                pytest.fail("it ran")
        second = await use(pool)

        assert second.guest is not first.guest


@pytest.mark.parametrize(
    "error",
    [RunnerUnavailable("broken", "there is none."), RunnerLost("broken", "it fell over."), OSError("too many files")],
    ids=["unavailable", "lost", "something else"],
)
async def test_a_runner_that_cannot_start_is_an_error_for_all_who_wait(error):
    """
    Each of them hears why, and none waits for ever.
    """
    async with Pool(Broken(error), size=1, most=3) as pool:
        async with asyncio.timeout(PATIENCE):
            heard = await asyncio.gather(*[use(pool) for _ in range(5)], return_exceptions=True)

        assert [str(each) for each in heard] == [str(error)] * 5
        assert pool.size == 0


async def test_warm_tells_that_a_runner_cannot_start():
    """
    A pool that cannot be warmed says so at once.
    """
    async with Pool(Broken(RunnerUnavailable("broken", "there is none.")), size=3) as pool:
        with pytest.raises(RunnerUnavailable, match="there is none"):
            async with asyncio.timeout(PATIENCE):
                await pool.warm(HERE, LIMITS)


async def test_a_sandbox_that_dies_as_it_starts_is_an_error(watched):
    """
    One that is killed before its guest has said hello is told as lost, and is not waited for.
    """
    before = set(processes())
    async with Pool(watched, size=1, most=1) as pool:
        asking = asyncio.create_task(use(pool))
        await watched.until(opened=1)
        kill_new(before)
        with pytest.raises(RunnerError):
            async with asyncio.timeout(PATIENCE):
                await asking


async def test_a_pool_belongs_to_its_event_loop(bubblewrap_runner):
    """
    Used from another loop it says so, instead of hanging.
    """
    pool = Pool(bubblewrap_runner, size=1)
    run_blocking(_entered(pool))
    try:
        with pytest.raises(ValueError, match="another event loop"):
            async with pool.lease(HERE, LIMITS):
                pass
    finally:
        run_blocking(_left(pool))


async def _entered(pool: Pool) -> Pool:
    return await pool.__aenter__()


async def _left(pool: Pool) -> None:
    await pool.__aexit__(None, None, None)


async def test_a_pool_that_is_not_entered_says_so(bubblewrap_runner):
    """
    Without `async with` nothing is started.
    """
    with pytest.raises((ValueError, RunnerError)):
        async with Pool(bubblewrap_runner, size=1).lease(HERE, LIMITS):
            pass


# --- closing --------------------------------------------------------------------------------


async def test_closing_waits_for_those_in_use(watched):
    """
    A pool closes when the last job is done, and then nothing is left of it.
    """
    leases: list[Lease] = []

    async def hold() -> bool:
        async with pool.lease(HERE, LIMITS) as lease:
            leases.append(lease)
            held.set()
            await may_go_on.wait()
            return await passes(lease)

    held, may_go_on = asyncio.Event(), asyncio.Event()
    pool = await _entered(Pool(watched, size=2, most=2))
    await pool.warm(HERE, LIMITS)
    holding = asyncio.create_task(hold())
    await held.wait()
    closing = asyncio.create_task(_left(pool))
    await asyncio.sleep(0)
    assert not closing.done()
    may_go_on.set()
    await closing

    assert await holding
    assert pool.size == 0
    assert len(watched.closed) == len(watched.opened)


async def test_closing_serves_those_in_line(watched):
    """
    Who asked before the pool was closed is served.
    """
    pool = await _entered(Pool(watched, size=1, most=1))
    asking = [asyncio.create_task(use(pool)) for _ in range(3)]
    await asyncio.sleep(0)
    await _left(pool)

    assert len({lease.guest for lease in [await each for each in asking]}) == 3
    assert pool.size == 0


async def test_a_closed_pool_hands_out_nothing(watched):
    """
    Who asks after it was closed is told.
    """
    pool = await _entered(Pool(watched, size=1))
    await _left(pool)

    with pytest.raises(RunnerLost, match="closed"):
        async with pool.lease(HERE, LIMITS):
            pass


async def test_closing_ends_what_is_getting_ready(watched):
    """
    A sandbox that is half made when the pool closes is not left behind.
    """
    async with Pool(watched, size=2, most=2) as pool:
        await use(pool)
        watched.may_open.clear()

    assert pool.size == 0
    assert len(watched.closed) == len(watched.opened)


async def test_a_close_that_is_cancelled_still_closes(watched):
    """
    Cancelled while it waits for a job, closing ends that job's sandbox with all others.
    """
    pool = await _entered(Pool(watched, size=2, most=2))
    await pool.warm(HERE, LIMITS)
    async with pool.lease(HERE, LIMITS):
        closing = asyncio.create_task(_left(pool))
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
    async with asyncio.timeout(PATIENCE):
        await watched.until(closed=2)

    assert closing.cancelled()


# --- docker -----------------------------------------------------------------------------------


async def test_a_pool_of_containers(docker_runner, docker_host, tmp_path: Path):
    """
    Containers are ready before they are asked for, used once, and gone when the pool is.
    """
    with nothing_left(tmp_path, docker_host):
        watched = Watched(docker_runner)
        async with Pool(watched, size=2, most=2) as pool:
            await pool.warm(HERE, LIMITS)
            leases = await asyncio.gather(*[use(pool) for _ in range(3)])

            assert len({lease.guest for lease in leases}) == 3
            assert [lease.warm for lease in leases[:2]] == [True, True]


async def test_a_container_that_died_on_the_shelf_is_not_handed_out(docker_runner, docker_host, tmp_path: Path):
    """
    One that was killed while nobody looked is replaced, and its user notices nothing.
    """
    with nothing_left(tmp_path, docker_host):
        watched = Watched(docker_runner)
        async with Pool(watched, size=1, most=1) as pool:
            await pool.warm(HERE, LIMITS)
            container = watched.opened[0]._container
            await asyncio.to_thread(container.client.api.kill, container.name)
            lease = await use(pool)

            assert lease.guest.sandbox is watched.opened[1]


async def test_a_shared_container_is_used_again(docker_runner):
    """
    In freshness `fork` one that is clean after its job serves the next one.
    """
    async with Pool(docker_runner, size=1, most=1, freshness="fork") as pool:
        leases = [await use(pool) for _ in range(6)]

        assert max(lease.guest.jobs for lease in leases) > 1
