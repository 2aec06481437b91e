"""Do real jobs get the verdict that they should? `python -m benchmarks.corpus FOLDER [--runner R] [--seat S]`.

FOLDER holds *.jsonl files whose lines are job lines of `reproof batch` with a key
`expect`: `pass` (the verdict is `passed`) or `fail` (any other verdict of the
candidate, but neither `invalid` nor `tampered`). A key `observed` holds what stock
pytest said: the outcome of every test has to be the same, where it came to an end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from harness import batch
from harness.models import Limits, Report
from harness.seats import SEATS, SeatName


def agrees(expect: str, report: Report) -> bool:
    if expect == "pass":
        return report.verdict == "passed"
    return report.verdict not in ("passed", "invalid", "tampered")


def same_outcomes(observed: dict[str, Any], report: Report) -> bool:
    """Whether the tests that did not pass are those that stock pytest says, and as many did."""
    if observed["outcome"] not in ("passed", "failed") or len(observed["bad"]) < observed["n_bad"]:
        return True
    bad = {test.nodeid for test in report.tests if test.outcome in ("failed", "error", "timeout")}
    passed = sum(test.outcome == "passed" for test in report.tests)
    return bad == set(observed["bad"]) and passed == observed["counts"].get("passed", 0)


async def check(path: Path, runner: str, seat: SeatName, workers: int | None) -> int:
    """Print what went wrong and how often what happened; the number of jobs that were told wrong."""
    lines = path.read_text("utf-8").splitlines()
    jobs = {str(job["id"]): job for job in map(json.loads, lines)}
    verdicts: Counter[str] = Counter()
    seats: Counter[str] = Counter()
    wrong = others = 0
    bar = batch.ProgressBar(len(jobs), sys.stderr)
    async with contextlib.aclosing(
        batch.stream(batch.read_tasks(lines, Limits(), set()), runner=runner, seat=seat, workers=workers)
    ) as results:
        async for task, report in results:
            bar.add(report)
            verdicts[report.verdict] += 1
            seats[report.integrity.seat if report.integrity else "none"] += 1
            job = jobs[str(task.id)]
            if not agrees(job["expect"], report):
                wrong += 1
                print(f"WRONG {task.id}: expected {job['expect']}, got {report.verdict}: {report.reason}")
            elif "observed" in job and not same_outcomes(job["observed"], report):
                others += 1
                print(f"OTHER {task.id}: stock pytest said {job['observed']['counts']}: {report.reason}")
    bar.close()
    print(
        f"{path.name} on {runner}: {len(jobs) - wrong} of {len(jobs)} as expected ({_counted(verdicts)}); "
        f"{others} with other outcomes than stock pytest; seats: {_counted(seats)}"
    )
    return wrong + others


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in found.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runner", action="append", help="may be given more than once (default bubblewrap)")
    parser.add_argument("--seat", choices=SEATS, default="auto")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    paths = sorted(given.folder.glob("*.jsonl"))
    if not paths:
        print(f"no *.jsonl in {given.folder}", file=sys.stderr)
        return 2
    wrong = 0
    for runner in given.runner or ["bubblewrap"]:
        for path in paths:
            wrong += asyncio.run(check(path, runner, given.seat, given.workers))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
