"""Do the short ways and the ordinary one tell the same? `python -m benchmarks.paths FOLDER [--runner R]`.

FOLDER holds *.jsonl files of job lines. Each job runs twice: in a warm sandbox that takes one
job after the other, where simple suites are run with no session at all, and others go on from a
pytest session begun before any job; and in a new sandbox, whose interpreter has imported nothing
beforehand and begins a session with the job, whatever the suite is. With `--cold` the first is a
new sandbox, too, so that only the session makes the difference. Verdict, reason, node ids,
outcomes and failures have to be the same, but for what no two runs have in common: times,
addresses, how far a test got that took too long, how deep a recursion was.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import itertools
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness import batch
from harness.models import Limits, Report
from harness.seats import choose_seat
from harness.verify import entered, prepare
from runners import session, suites
from runners.contract import Job
from runners.guest.testing import is_plain
from runners.pool import Pool

LIMITS = Limits(wall_seconds=1800, cpu_seconds=1800, test_seconds=60)
"""So much that only what hangs is stopped, however busy the machine is."""
_VARYING = (
    (re.compile(r"0x[0-9a-f]+"), "0x…"),
    (re.compile(r"\d+(\.\d+)? ?(ms|s|seconds)\b"), "… s"),
    (re.compile(r"\d+(\.\d+)? ?MB\b"), "… MB"),
)


def told(report: Report) -> dict[str, Any]:
    late = {failure.nodeid for failure in report.failures if failure.kind == "timeout"}
    failures = [failure for failure in report.failures if failure.kind == "timeout" or failure.nodeid not in late]
    return {
        "verdict": report.verdict,
        "reason": _masked(report.reason),
        "tests": [(test.nodeid, test.outcome) for test in report.tests],
        "failures": [_masked(failure.model_dump()) for failure in failures],
    }


def _masked(data: Any) -> Any:
    if isinstance(data, dict):
        if data.get("kind") in ("timeout", "recursion"):  # where it was at that moment
            data = {name: data[name] for name in ("nodeid", "phase", "kind", "message")}
        return {name: _masked(item) for name, item in data.items() if name != "seconds"}
    if isinstance(data, list | tuple):
        return [_masked(item) for item in data]
    if isinstance(data, str):
        for pattern, mark in _VARYING:
            data = pattern.sub(mark, data)
    return data


async def compare(path: Path, runner: str, workers: int, every: int, cold: bool) -> int:
    """Print what differs; the number of jobs that do."""
    lines = path.read_text("utf-8").splitlines()[::every]
    async with entered(runner, None) as ready:
        new = partial(Pool, ready, size=workers, most=workers, freshness="sandbox", preload=False)
        warm = partial(Pool, ready, size=workers, most=workers, freshness="fork")
        first = await _all(lines, (new if cold else warm)(), workers)
        session.DIRECT = False
        second = await _all(lines, new(), workers)
        session.DIRECT = True
    different = [identity for identity in first if first[identity] != second[identity]]
    for identity in different:
        for name, one in first[identity].items():
            if one != second[identity][name]:
                print(f"DIFFERENT {identity}, {name}:", *_apart(one, second[identity][name]), sep="\n  ")
    print(f"{path.name} on {runner}: {len(first) - len(different)} of {len(first)} the same; {_counted(lines)}")
    return len(different)


def _apart(one: Any, other: Any) -> Iterator[str]:
    """Where two of them begin to differ, as far as a line goes."""
    if isinstance(one, list):
        pairs = itertools.zip_longest(one, other)
        one, other = next(pair for pair in pairs if pair[0] != pair[1])
    for each in (one, other):
        yield textwrap.shorten(repr(each), 1000)


def _counted(lines: Iterable[str]) -> str:
    """How many went which way in a warm sandbox."""
    direct = plain = 0
    for task in batch.read_tasks(lines, LIMITS, set()):
        if isinstance(task, batch.Task):
            seat = choose_seat(task.suite, task.submission).seat
            job = prepare(task.submission, task.suite, LIMITS, task.environment, 0, seat)
            is_direct = bool(job.suite) and suites.compiled(job, GUEST).direct
            direct += is_direct
            plain += bool(job.suite) and not is_direct and _is_plain(job)
    return f"{direct} were run directly, {plain} went on from a session that was ready"


GUEST = {**suites._versions(), "folder": "/job/work", "direct": True}


def _is_plain(job: Job) -> bool:
    suite = [[path, base64.b64encode(data).decode()] for path, data in job.suite.items()]
    told = {"workers": job.workers, "options": job.options, "seed": 0, "suite": suite}
    return is_plain({**told, "variables": job.environment.variables})


async def _all(lines: Iterable[str], pool: Pool, workers: int) -> dict[str, dict[str, Any]]:
    tasks = batch.read_tasks(lines, LIMITS, set())
    async with pool, contextlib.aclosing(batch.stream(tasks, runner=pool, workers=workers)) as results:
        return {str(task.id): told(report) async for task, report in results}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runner", default="bubblewrap")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cold", action="store_true", help="in a new sandbox each, with and without a session")
    parser.add_argument("--every", type=int, default=1, help="one job in so many")
    given = parser.parse_args()
    paths = sorted(given.folder.glob("*.jsonl"))
    if not paths:
        print(f"no *.jsonl in {given.folder}", file=sys.stderr)
        return 2
    different = sum(asyncio.run(compare(path, given.runner, given.workers, given.every, given.cold)) for path in paths)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
