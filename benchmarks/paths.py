"""Do the prepared way and the ordinary one tell the same? `python -m benchmarks.paths FOLDER [--runner R]`.

FOLDER holds *.jsonl files of job lines. Each job runs twice: in a warm sandbox that takes one
job after the other, which goes on from a pytest session begun before any job; and in a new
sandbox, whose interpreter has imported nothing beforehand and begins its session with the job.
Verdict, reason, node ids, outcomes and failures have to be the same, but for what no two runs
have in common: times, addresses, where a test was that took too long, how deep a recursion was.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness import batch
from harness.models import Limits, Report
from harness.verify import entered
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
    return {
        "verdict": report.verdict,
        "reason": _masked(report.reason),
        "tests": [(test.nodeid, test.outcome) for test in report.tests],
        "failures": [_masked(failure.model_dump()) for failure in report.failures],
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


async def compare(path: Path, runner: str, workers: int, every: int) -> int:
    """Print what differs; the number of jobs that do."""
    lines = path.read_text("utf-8").splitlines()[::every]
    prepared = sum(_is_plain(task) for task in batch.read_tasks(lines, LIMITS, set()))
    async with entered(runner, None) as ready:
        warm = Pool(ready, size=workers, most=workers, freshness="fork")  # type: ignore[arg-type]
        cold = Pool(ready, size=workers, most=workers, freshness="sandbox", preload=False)  # type: ignore[arg-type]
        first = await _all(lines, warm, workers)
        second = await _all(lines, cold, workers)
    different = [identity for identity in first if first[identity] != second[identity]]
    for identity in different:
        for name in first[identity]:
            if first[identity][name] != second[identity][name]:
                print(f"DIFFERENT {identity}, {name}:\n  {first[identity][name]}\n  {second[identity][name]}")
    print(f"{path.name} on {runner}: {len(first) - len(different)} of {len(first)} the same; {prepared} were prepared")
    return len(different)


def _is_plain(task: Any) -> bool:
    suite = [[path, base64.b64encode(data).decode()] for path, data in task.suite.files.items()]
    job = {"workers": task.suite.workers, "options": task.suite.options, "seed": 0, "suite": suite}
    return bool(suite) and is_plain({**job, "variables": task.environment.variables})


async def _all(lines: Iterable[str], pool: Pool, workers: int) -> dict[str, dict[str, Any]]:
    tasks = batch.read_tasks(lines, LIMITS, set())
    async with pool, contextlib.aclosing(batch.stream(tasks, runner=pool, workers=workers)) as results:
        return {str(task.id): told(report) async for task, report in results}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runner", default="bubblewrap")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="one job in so many")
    given = parser.parse_args()
    paths = sorted(given.folder.glob("*.jsonl"))
    if not paths:
        print(f"no *.jsonl in {given.folder}", file=sys.stderr)
        return 2
    different = sum(asyncio.run(compare(path, given.runner, given.workers, given.every)) for path in paths)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
