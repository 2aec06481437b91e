"""Do real jobs get the verdict that they should? `python -m benchmarks.corpus FOLDER [--runner R]`.

FOLDER holds *.jsonl files whose lines are job lines of `reproof batch` with a key
`expect`: `pass` (the verdict is `passed`) or `fail` (any other verdict of the
candidate, but neither `invalid` nor `tampered`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections import Counter
from pathlib import Path

from harness import batch
from harness.models import Limits, Report


def agrees(expect: str, report: Report) -> bool:
    if expect == "pass":
        return report.verdict == "passed"
    return report.verdict not in ("passed", "invalid", "tampered")


async def check(path: Path, runner: str, workers: int | None) -> int:
    """Print what went wrong and how often what happened; the number of wrong verdicts."""
    lines = path.read_text("utf-8").splitlines()
    expected = {str(job["id"]): job["expect"] for job in map(json.loads, lines)}
    verdicts: Counter[str] = Counter()
    wrong = 0
    bar = batch.ProgressBar(len(expected), sys.stderr)
    async with contextlib.aclosing(
        batch.stream(batch.read_tasks(lines, Limits(), set()), runner=runner, workers=workers)
    ) as results:
        async for task, report in results:
            bar.add(report)
            verdicts[report.verdict] += 1
            if not agrees(expected[task.id], report):
                wrong += 1
                print(f"WRONG {task.id}: expected {expected[task.id]}, got {report.verdict}: {report.reason}")
    bar.close()
    told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    print(f"{path.name} on {runner}: {sum(verdicts.values()) - wrong} of {len(expected)} as expected ({told})")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runner", action="append", help="may be given more than once (default bubblewrap)")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    paths = sorted(given.folder.glob("*.jsonl"))
    if not paths:
        print(f"no *.jsonl in {given.folder}", file=sys.stderr)
        return 2
    wrong = 0
    for runner in given.runner or ["bubblewrap"]:
        for path in paths:
            wrong += asyncio.run(check(path, runner, given.workers))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
