"""A sample of real code with a known answer, where it stands beside the project."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path

import pytest

from benchmarks.corpus import agrees, same_outcomes
from harness import Limits, batch

FOLDER = Path(os.environ.get("REPROOF_CORPORA", Path(__file__).parents[3] / "shared" / "corpora" / "dev"))
EVERY = 40
"""One job in so many; `nox -s corpus` runs them all."""


async def verdicts(lines):
    results = batch.stream(batch.read_tasks(lines, Limits(wall_seconds=20), set()), runner="bubblewrap")
    async with contextlib.aclosing(results):
        return {task.id: report async for task, report in results}


@pytest.mark.parametrize("name", ["humaneval", "mbpp", "quixbugs"])
def test_real_jobs_get_the_verdict_that_they_should(name):
    """What is right passes, what is wrong does not, and nothing is called tampered or invalid."""
    path = FOLDER / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"no corpus at {path}; set REPROOF_CORPORA to its folder")
    lines = path.read_text("utf-8").splitlines()[::EVERY]
    jobs = {str(job["id"]): job for job in map(json.loads, lines)}

    reports = asyncio.run(verdicts(lines))

    assert reports.keys() == jobs.keys()
    assert not [name for name, report in reports.items() if not agrees(jobs[name]["expect"], report)]
    assert not [name for name, report in reports.items() if not same_outcomes(jobs[name]["observed"], report)]
