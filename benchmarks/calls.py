"""What a call to a candidate in another process costs, as a ratio to a bare round trip over a pipe.

The bare one is 100 bytes there and back between two Python processes. Both are measured in
turns, in the same run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runners.guest.judging import Connection

ECHO = "import os, sys\nwhile data := os.read({0}, 100): os.write({1}, data)"
SERVE = "from runners.guest import candidate; candidate.serve({{}}, {2!r}, {0}, {1})"
CALLS = 2_000


class _Nobody:
    """In place of a supervisor: nothing is to happen of which one would have to hear."""

    def send(self, event: Any) -> None:
        raise AssertionError(event)


@contextmanager
def _process(program: str, folder: str = "") -> Iterator[tuple[int, int]]:
    """A Python process, and the ends of the pipes to and from it."""
    (asked, requests), (answers, said) = os.pipe(), os.pipe()
    command = [sys.executable, "-c", program.format(asked, said, folder)]
    process = subprocess.Popen(command, pass_fds=(asked, said))
    for fd in (asked, said):
        os.close(fd)
    try:
        yield requests, answers
    finally:
        for fd in (requests, answers):
            os.close(fd)
        process.wait()


def measure(repeat: int = 7) -> dict[str, list[float]]:
    """Seconds for one of each, in turns, all on one core: a bare trip between two takes up to ten times as long."""
    times: dict[str, list[float]] = {"bare round trip": [], "call": []}
    all_cores = os.sched_getaffinity(0)
    one_core = {min(all_cores)}
    os.sched_setaffinity(0, one_core)
    with tempfile.TemporaryDirectory() as folder, _process(ECHO) as (there, back):
        Path(folder, "solution.py").write_text("def add(a, b): return a + b\n")
        with _process(SERVE, folder) as (requests, answers):
            connection = Connection(requests, answers, _Nobody(), _Nobody(), folder, 1 << 20)  # type: ignore[arg-type]
            add = connection.module("solution").add
            for _ in range(repeat):
                begun = time.perf_counter()
                for _ in range(CALLS):
                    os.write(there, b"x" * 100)
                    os.read(back, 100)
                times["bare round trip"].append((time.perf_counter() - begun) / CALLS)
                connection.begin("a test")
                begun = time.perf_counter()
                for number in range(CALLS):
                    assert add(number, 1) == number + 1
                times["call"].append((time.perf_counter() - begun) / CALLS)
                connection.begin("between tests")
                os.sched_setaffinity(0, one_core)
    os.sched_setaffinity(0, all_cores)
    return times


def ratio(times: dict[str, list[float]]) -> float:
    return statistics.median(times["call"]) / statistics.median(times["bare round trip"])
