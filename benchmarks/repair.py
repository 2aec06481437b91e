"""What is feedback worth? `python -m benchmarks.repair [JOBS.jsonl] [--disclose LEVEL ...]`.

Repairs programs with a known fault, by search and without a model, once for each level of disclosure:
what `reproof reflect --generator repair --iterations 200 --seconds 120 --start BUGGY --disclose LEVEL` does.
The search is the same each time, and only what it is told differs. So the share of programs that it mends,
and the number of verifications that it needs for it, measure what is told.

JOBS.jsonl holds job lines of `reproof batch` with a key `expect`; those with `"expect": "fail"` are repaired.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Limits, Submission, Suite, awarm
from reflection import RepairGenerator, Result, code_with_reflection

DEFAULT = Path(__file__).parents[2] / "shared" / "corpora" / "dev" / "quixbugs.jsonl"
LIMITS = Limits(test_seconds=1, wall_seconds=3, cpu_seconds=3)
ITERATIONS, SECONDS = 200, 120.0


@dataclass(frozen=True)
class Repair:
    name: str
    level: str
    result: Result

    @property
    def edit(self) -> str:
        best = self.result.best
        return best.reply.replace("\n", " ") if self.result.passed and best is not None else self.result.reason


async def repair(job: dict[str, Any], level: Any, runner: Any) -> Repair:
    result = await code_with_reflection(
        "Mend the program.",
        Suite.from_files(job["tests"]),
        RepairGenerator(),
        start=Submission.from_files(job["files"]),
        disclose=level,
        max_iterations=ITERATIONS,
        max_seconds=SECONDS,
        runner=runner,
        limits=LIMITS,
    )
    return Repair(str(job["id"]), level, result)


async def measure(jobs: list[dict[str, Any]], levels: list[str], runner: str) -> list[Repair]:
    """Level by level for each program, so that a busy machine is as hard on the one as on the other."""
    done = []
    async with awarm(runner, size=1, freshness="fork", limits=LIMITS) as pool:
        for job in jobs:
            for level in levels:
                done.append(await repair(job, level, pool))
                last = done[-1]
                state = "mended" if last.result.passed else f"not mended ({last.result.outcome})"
                told = f"{last.result.verifications} verifications, {last.result.seconds:.0f} s"
                print(f"{last.name} {level}: {state}, {told}: {last.edit}", file=sys.stderr, flush=True)
    return done


def table(repairs: Iterable[Repair], levels: list[str]) -> str:
    by_name: dict[str, dict[str, Repair]] = {}
    for one in repairs:
        by_name.setdefault(one.name, {})[one.level] = one
    lines = ["| program | " + " | ".join(f"{level}: verifications" for level in levels) + " |"]
    lines.append("| --- |" + " --- |" * len(levels))
    for name, found in by_name.items():
        cells = [_cell(found[level]) for level in levels]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines.append("| **mended** | " + " | ".join(_rate(by_name, level) for level in levels) + " |")
    lines.append("| **verifications in all** | " + " | ".join(_spent(by_name, level) for level in levels) + " |")
    return "\n".join(lines)


def _cell(one: Repair) -> str:
    mark = "✓" if one.result.passed else "✗"
    return f"{mark} {one.result.verifications}"


def _rate(by_name: dict[str, dict[str, Repair]], level: str) -> str:
    mended = sum(found[level].result.passed for found in by_name.values())
    return f"{mended} of {len(by_name)} ({mended / len(by_name):.0%})"


def _spent(by_name: dict[str, dict[str, Repair]], level: str) -> str:
    counts = [found[level].result.verifications for found in by_name.values()]
    return f"{sum(counts)}, median {statistics.median(counts):.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", type=Path, nargs="?", default=DEFAULT)
    parser.add_argument("--disclose", action="append", choices=("count", "names", "io", "full"))
    parser.add_argument("--only", action="append", help="programs whose id holds this")
    parser.add_argument("--runner", default="bubblewrap")
    given = parser.parse_args()
    if not given.jobs.is_file():
        print(f"{given.jobs}: there are no programs to repair", file=sys.stderr)
        return 2
    levels = given.disclose or ["full", "count"]
    jobs = [job for line in given.jobs.read_text("utf-8").splitlines() if (job := json.loads(line))["expect"] == "fail"]
    jobs = [job for job in jobs if not given.only or any(part in job["id"] for part in given.only)]
    print(table(asyncio.run(measure(jobs, levels, given.runner)), levels))
    return 0


if __name__ == "__main__":
    sys.exit(main())
