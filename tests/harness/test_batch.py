"""Many jobs at once: order, laziness, and nothing left behind."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Limits, Submission, Suite, averify, averify_many, verify, verify_many
from harness.batch import ProgressBar, Task, finished_ids
from runners.bubblewrap import BubblewrapRunner

HERE = {"runner": "bubblewrap"}
SUITE = Suite.from_code("from solution import f\ndef test(): assert f() == 1")
RIGHT = (Submission.from_code("def f(): return 1"), SUITE)
WRONG = (Submission.from_code("def f(): return 2"), SUITE)
HANGING = (Submission.from_code("import signal\ndef f():\n    while True: signal.pause()"), SUITE)
SLOW = (Submission.from_code("import time\ndef f():\n    time.sleep(0.5)\n    return 1"), SUITE)


@pytest.fixture(scope="module", autouse=True)
def adopting() -> Iterator[None]:
    """What a sandbox leaves behind becomes a child of this process, and is seen here instead of being lost to init."""
    become_subreaper = 36
    ctypes.CDLL(None).prctl(become_subreaper, 1, 0, 0, 0)
    yield
    ctypes.CDLL(None).prctl(become_subreaper, 0, 0, 0, 0)


def children() -> set[int]:
    """The processes that were started here, by us or by what we started, and that still run."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return {pid for pid in found if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"}


def test_reports_come_in_the_order_of_the_jobs():
    """
    A job that takes longer does not change the order of the reports.
    """
    jobs = [SLOW, WRONG, RIGHT, SLOW, WRONG]

    verdicts = [report.verdict for report in verify_many(jobs, workers=2, **HERE)]

    assert verdicts == ["passed", "failed", "passed", "passed", "failed"]


async def test_the_async_twin_does_the_same():
    """
    `averify_many` yields the same reports in the same order.
    """
    verdicts = [report.verdict async for report in averify_many([SLOW, WRONG, RIGHT], workers=2, **HERE)]

    assert verdicts == ["passed", "failed", "passed"]


def test_no_jobs_are_no_reports():
    """
    An empty iterable is no error.
    """
    assert list(verify_many([], **HERE)) == []


def test_limits_are_for_plain_pairs_and_a_task_has_its_own():
    """
    Limits given to the call hold for pairs; a Task brings its own.
    """
    own = Task("mine", *RIGHT, limits=Limits(memory_mb=300))

    reports = list(verify_many([RIGHT, own], limits=Limits(memory_mb=200), **HERE))

    assert [report.limits.memory_mb for report in reports] == [200, 300]


def test_leaving_early_leaves_nothing_running():
    """
    A caller that stops after the first report ends the jobs that were still running.
    """
    before = children()

    for report in verify_many([RIGHT, HANGING, HANGING], workers=3, **HERE):
        assert report.verdict == "passed"
        break

    assert children() <= before


async def test_leaving_the_async_twin_early_leaves_nothing_running():
    """
    Closing the asynchronous iterator ends what it had started before it returns.
    """
    before = children()
    reports = averify_many([RIGHT, HANGING, HANGING], workers=3, **HERE)

    await anext(reports)
    await reports.aclose()

    assert children() <= before


async def test_cancelling_leaves_nothing_running():
    """
    A task that is cancelled while its sandbox runs has no process left when the cancellation is through.
    """
    before = children()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    running = loop.create_task(averify(*HANGING, on_event=lambda event: begun.set(), **HERE))
    await begun.wait()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert children() <= before


async def test_cancelling_while_a_sandbox_starts_leaves_nothing_running():
    """
    A cancellation ends in bounded time and with nothing left, at whatever moment of the start it comes.
    """
    before = children()
    async with BubblewrapRunner() as runner:
        await averify(*RIGHT, runner=runner)

        for moment in range(40):
            starting = asyncio.ensure_future(averify(*RIGHT, runner=runner))
            await asyncio.wait([starting], timeout=moment / 1000)
            starting.cancel()
            _, stuck = await asyncio.wait([starting], timeout=30)
            assert not stuck, f"cancelled after {moment} ms and never done"

    assert children() <= before


def test_it_works_from_many_threads():
    """
    Threads that verify at the same time each get their own answer.
    """
    found: dict[int, list[str]] = {}

    def work(number: int) -> None:
        jobs = [RIGHT, WRONG] if number % 2 else [WRONG, RIGHT]
        found[number] = [report.verdict for report in verify_many(jobs, workers=1, **HERE)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {
        0: ["failed", "passed"],
        1: ["passed", "failed"],
        2: ["failed", "passed"],
        3: ["passed", "failed"],
    }


async def test_it_works_inside_a_running_loop():
    """
    The synchronous functions may be called where an event loop is already running.
    """
    assert verify(*RIGHT, **HERE).verdict == "passed"
    assert [report.verdict for report in verify_many([WRONG, RIGHT], **HERE)] == ["failed", "passed"]


async def test_asynchronous_verifications_run_side_by_side():
    """
    Verifications that are gathered in one loop do not mix up their answers.
    """
    reports = await asyncio.gather(*[averify(*job, **HERE) for job in (RIGHT, WRONG, RIGHT)])

    assert [report.verdict for report in reports] == ["passed", "failed", "passed"]


@pytest.mark.parametrize(
    "bad", [HANGING, (Submission.from_code("import os; os._exit(0)"), SUITE)], ids=["hangs", "dies"]
)
def test_one_bad_job_does_not_hurt_the_others(bad):
    """
    A candidate that hangs or dies is one report among the others.
    """
    reports = list(verify_many([RIGHT, bad, RIGHT], limits=Limits(wall_seconds=1), workers=2, **HERE))

    assert [report.verdict == "passed" for report in reports] == [True, False, True]


def test_a_job_that_is_no_job_does_not_hurt_the_others():
    """
    Something else among the jobs is an invalid report, or a ValueError to the caller, and never a hang.
    """
    try:
        verdicts = [report.verdict for report in verify_many([RIGHT, ("text", "text"), RIGHT], workers=1, **HERE)]
    except ValueError:
        return

    assert verdicts == ["passed", "invalid", "passed"]


def test_the_callers_own_error_comes_out_as_it_is():
    """
    An exception of the iterable that gives the jobs reaches the caller unwrapped, after nothing is left running.
    """
    before = children()

    def jobs() -> Iterator[tuple[Submission, Suite]]:
        yield RIGHT
        raise LookupError("the caller's own")

    with pytest.raises(LookupError, match="the caller's own"):
        list(verify_many(jobs(), workers=2, **HERE))

    assert children() <= before


def test_jobs_are_read_as_they_are_needed():
    """
    Of an endless iterable no more is read than what is running and what waits to be taken.
    """
    read = 0

    def jobs() -> Iterator[tuple[Submission, Suite]]:
        nonlocal read
        for _ in itertools.count():
            read += 1
            yield RIGHT

    reports = verify_many(jobs(), workers=2, **HERE)
    taken = list(itertools.islice(reports, 3))
    verify(*RIGHT, **HERE)  # time enough for an eager reader to read on
    verify(*RIGHT, **HERE)
    reports.close()

    assert len(taken) == 3
    assert read <= 3 + 2 * 2 + 2


def test_a_slow_job_does_not_make_the_others_pile_up():
    """
    While the first report is not there, only so many of the following are held for it.
    """
    read = 0

    def jobs() -> Iterator[tuple[Submission, Suite]]:
        nonlocal read
        yield HANGING
        for _ in range(60):
            read += 1
            yield RIGHT

    reports = verify_many(jobs(), workers=2, limits=Limits(wall_seconds=4), **HERE)
    first = next(reports)
    seen = read
    reports.close()

    assert first.verdict == "timeout"
    assert seen < 60


def test_an_unknown_runner_is_a_value_error():
    """
    A wrong name of a runner is told before any job is read.
    """
    with pytest.raises(ValueError, match="no such runner 'vm'"):
        list(verify_many([RIGHT], runner="vm"))


def test_no_workers_are_a_value_error():
    """
    A number of workers that could do nothing is refused.
    """
    with pytest.raises(ValueError, match="workers"):
        list(verify_many([RIGHT], workers=-1, **HERE))


def test_finished_ids_of_a_file_that_is_not_there(tmp_path):
    """
    Before the first run nothing is finished.
    """
    assert finished_ids(tmp_path / "none.jsonl") == set()


def test_a_progress_bar_is_one_line_on_a_terminal():
    """
    On a terminal the bar is redrawn in place: how far, how fast, and what came of it.
    """
    leader, follower = os.openpty()
    report = verify(*RIGHT, **HERE)

    with os.fdopen(follower, "w") as terminal:
        bar = ProgressBar(1, terminal)
        bar.add(report)
        bar.close()
        shown = os.read(leader, 10_000).decode()
    os.close(leader)

    assert "[####################] 1/1 jobs" in shown
    assert "1 passed" in shown
    assert shown.count("\n") == 1
