"""Warm sandboxes for library users: in a block, from any thread, and gone after it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Environment, Limits, RunnerUnavailable, Submission, Suite, averify, awarm, verify, verify_many, warm
from harness.verify import run_blocking
from tests.runners.leftovers import nothing_left, processes

LIMITS = Limits(memory_mb=256, processes=48, disk_mb=32)
SUITE = Suite.from_code("from solution import f\ndef test(): assert f() == 1")
RIGHT = Submission.from_code("def f(): return 1")
WRONG = Submission.from_code("def f(): return 2")


@pytest.fixture(autouse=True)
def leaves_nothing(bubblewrap_runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """When the block is left, nothing of its sandboxes is."""
    with nothing_left(tmp_path_factory.mktemp("temporary")):
        yield


def test_a_warm_block_verifies():
    """
    The pool is given where a runner is, and every job gets a verdict and a sandbox that was ready.
    """
    with warm("bubblewrap", size=1, limits=LIMITS) as pool:
        report = verify(WRONG, SUITE, runner=pool, limits=LIMITS)

    assert report.verdict == "failed"
    assert (report.freshness, report.runner) == ("sandbox", "bubblewrap")
    assert (pool.hits, pool.misses) == (1, 0)
    assert report.measurements.start_seconds == 0


async def test_an_async_warm_block_verifies():
    """
    `awarm` does the same on the caller's own event loop.
    """
    async with awarm("bubblewrap", size=2, limits=LIMITS) as pool:
        reports = await asyncio.gather(*[averify(each, SUITE, runner=pool, limits=LIMITS) for each in (RIGHT, WRONG)])

    assert [report.verdict for report in reports] == ["passed", "failed"]
    assert pool.hits == 2


def test_nothing_is_parsed_behind_the_callers_back():
    """
    A thread of ours that parses a program could make the caller's own parsing fail (CPython gh-106905):
    once a pool is warm none does, but while the caller waits for it.
    """
    program = """
import sys, threading
from harness import Submission, Suite, verify, warm

parsed = []
waiting = False

def watch(event, args):
    if event == "compile" and sys._getframe(1).f_globals.get("__name__") == "ast":
        parsed.append(waiting or threading.current_thread() is threading.main_thread())

suite = Suite.from_code("from solution import f\\ndef test(): assert f() == 1")
with warm("bubblewrap", size=1) as pool:
    sys.addaudithook(watch)
    for code in ("def f(): return 1", "def f(): return 2", "def f(): return 3"):
        waiting = True
        verify(Submission.from_code(code), suite, runner=pool)
        waiting = False
assert parsed and all(parsed), parsed
"""

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_default_limits_and_environment_are_warm():
    """
    Without a word about limits, jobs without a word about limits find a sandbox ready.
    """
    with warm("bubblewrap", size=1) as pool:
        report = verify(RIGHT, SUITE, runner=pool)

    assert report.verdict == "passed"
    assert pool.hits == 1


def test_jobs_with_other_limits_are_verified_too():
    """
    What the pool was not warmed for takes longer, and is right.
    """
    with warm("bubblewrap", size=1, limits=LIMITS) as pool:
        report = verify(RIGHT, SUITE, runner=pool, limits=Limits(memory_mb=300))

    assert report.verdict == "passed"
    assert "300 MB" in report.isolation.memory
    assert pool.misses == 1


def test_a_shared_pool_says_so():
    """
    Where jobs share a sandbox, every report names that freshness.
    """
    with warm("bubblewrap", size=1, freshness="fork", limits=LIMITS) as pool:
        reports = [verify(RIGHT, SUITE, runner=pool, limits=LIMITS) for _ in range(3)]

    assert [(report.verdict, report.freshness) for report in reports] == [("passed", "fork")] * 3


@pytest.mark.parametrize("freshness", ["sandbox", "fork"])
def test_many_threads_share_a_pool(freshness):
    """
    `verify` with a pool may be called from any thread, and each gets the verdict of its own job.
    """
    with warm("bubblewrap", size=2, freshness=freshness, limits=LIMITS) as pool, ThreadPoolExecutor(6) as threads:
        jobs = [RIGHT, WRONG] * 6
        verdicts = list(threads.map(lambda job: verify(job, SUITE, runner=pool, limits=LIMITS).verdict, jobs))

    assert verdicts == ["passed", "failed"] * 6


async def test_a_pool_of_another_loop_is_a_wrong_argument():
    """
    A pool that was warmed elsewhere is refused by name, before anything is run.
    """
    with warm("bubblewrap", size=1, limits=LIMITS) as pool, pytest.raises(ValueError, match="another event loop"):
        await averify(RIGHT, SUITE, runner=pool, limits=LIMITS)


def test_many_jobs_from_a_warm_pool():
    """
    `verify_many` takes a pool as it takes a runner, and leaves it open.
    """
    with warm("bubblewrap", size=1, freshness="fork", limits=LIMITS) as pool:
        many = verify_many([(RIGHT, SUITE), (WRONG, SUITE)], runner=pool, limits=LIMITS, workers=2)
        verdicts = [report.verdict for report in many]
        verdicts.append(verify(RIGHT, SUITE, runner=pool, limits=LIMITS).verdict)

    assert verdicts == ["passed", "failed", "passed"]


def test_leaving_the_block_waits_for_running_jobs():
    """
    A job of another thread comes to its verdict although the block ends.
    """
    begun = threading.Event()
    slow = Submission.from_code("import time\ntime.sleep(0.3)\ndef f(): return 1")
    verdicts: list[str] = []

    def work() -> None:
        async def watched() -> str:
            report = await averify(slow, SUITE, runner=pool, limits=LIMITS, on_event=lambda event: begun.set())
            return report.verdict

        verdicts.append(run_blocking(watched()))

    with warm("bubblewrap", size=1, limits=LIMITS) as pool:
        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(30)
    thread.join()

    assert verdicts == ["passed"]


def test_an_exception_in_the_block_comes_through():
    """
    The block is cleaned up, and its user sees their own exception.
    """
    before = set(processes())
    with pytest.raises(KeyError), warm("bubblewrap", size=1, limits=LIMITS):
        raise KeyError("mine")

    assert set(processes()) == before


def test_a_pool_is_not_warmed_twice():
    """
    A pool as the runner of a pool is a wrong argument.
    """
    with (
        warm("bubblewrap", size=1, limits=LIMITS) as pool,
        pytest.raises(ValueError, match="pool already"),
        warm(pool),
    ):
        pass


def test_an_unknown_runner_is_a_wrong_argument():
    """
    Nothing is started for a name that no runner has.
    """
    with pytest.raises(ValueError, match="no such runner"), warm("no-such-runner"):
        pass


def test_what_cannot_be_warmed_says_why():
    """
    An environment that cannot be made is told on entry, not to each job.
    """
    with (
        pytest.raises(RunnerUnavailable),
        warm("bubblewrap", size=1, environment=Environment(requirements=("no-such-package-of-reproof==0.0.1",))),
    ):
        pass


def test_after_the_block_the_pool_is_closed():
    """
    A job that comes too late is `invalid`, with the reason.
    """
    with warm("bubblewrap", size=1, limits=LIMITS) as pool:
        pass
    report = verify(RIGHT, SUITE, runner=pool, limits=LIMITS)

    assert report.verdict == "invalid"
    assert "closed" in report.reason


def test_a_warm_container_verifies(docker_runner):
    """
    Containers are warmed in the same way.
    """
    with warm(docker_runner, size=1, limits=LIMITS) as pool:
        report = verify(WRONG, SUITE, runner=pool, limits=LIMITS)

    assert report.verdict == "failed"
    assert report.runner == "docker"
    assert pool.hits == 1
