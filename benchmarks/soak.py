"""1,000 verifications in a row, a third of them hostile: is anything left, does memory grow?

`python -m benchmarks.soak [--count 1000] [--runner bubblewrap] [--runner docker]`
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from harness import Limits, Submission, Suite, verify
from harness.verify import entered, run_blocking
from runners.contract import Runner

SUITE = Suite.from_code("from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n")
LIMITS = Limits(wall_seconds=20, test_seconds=0.5, memory_mb=192, processes=24, disk_mb=16, output_kb=256)

HONEST = {
    "right": ("def add(a, b): return a + b", "passed"),
    "wrong": ("def add(a, b): return a - b", "failed"),
    "syntax": ("def add(a, b) return a", "broken"),
    "noisy": ("def add(a, b):\n    print('x' * 1000)\n    return a + b", "passed"),
}
HOSTILE = {
    "exits": ("import os\nos._exit(0)", "crashed"),
    "loops": (
        "def add(a, b):\n    while True:\n        try:\n            while True: pass\n"
        "        except BaseException: pass",
        "timeout",
    ),
    "segfaults": ("import ctypes\nctypes.string_at(0)", "crashed"),
    "hoards": ("def add(a, b):\n    return len(b'x' * (1 << 30)) and 3", "out_of_memory"),
    "forks": ("import os\ndef add(a, b):\n    while True:\n        os.fork()", "limit"),
    "fills": ("def add(a, b):\n    with open('big', 'wb') as f:\n        while True: f.write(b'x' * 65536)", "limit"),
    "floods": ("def add(a, b):\n    print('x' * (1 << 20))\n    return 3", "limit"),
    "kills": (
        "import os\ndef add(a, b):\n    for pid in (-1, 1, os.getppid(), os.getpid()):\n"
        "        try: os.kill(pid, 9)\n        except OSError: pass",
        "crashed",
    ),
    "lingers": (
        "import os, time\ndef add(a, b):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(1000)\n"
        "    return a + b",
        "passed",
    ),
}


def one(index: int, runner: Runner) -> tuple[str, str, str]:
    kinds = HOSTILE if index % 3 == 0 else HONEST
    name = list(kinds)[index // 3 % len(kinds)]
    code, expected = kinds[name]
    report = verify(Submission.from_code(code), SUITE, runner=runner, limits=LIMITS)
    return name, expected, report.verdict


def state() -> dict[str, int]:
    """All that our own sandboxes could leave behind; others may run at the same time."""
    mine = os.getpid()
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(mine)], capture_output=True, text=True, check=False)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "processes": len(children.stdout.split()) - 1,  # ps itself
        "descriptors": len(os.listdir("/proc/self/fd")),
        "mounts": sum(not any(word in line for word in ("/overlay2/", "/containers/", "/netns/")) for line in mounts),
        "temporary files": len(list(Path(tempfile.gettempdir()).glob("reproof-*"))),
        "cgroups": sum(1 for _ in Path("/sys/fs/cgroup").glob(f"**/reproof-{mine}-*")),
        "containers": _containers(mine),
    }


def _containers(owner: int) -> int:
    label = f"label=reproof.owner.pid={owner}"
    listed = subprocess.run(["docker", "ps", "-aq", "--filter", label], capture_output=True, text=True, check=False)
    return len(listed.stdout.split())


def memory_kb() -> int:
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def soak(name: str, count: int) -> bool:
    context = entered(name, print)
    runner = run_blocking(context.__aenter__())
    wrong: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    warm = max(30, count // 10)
    before: dict[str, int] = {}
    memory = 0
    begun = time.monotonic()
    for index in range(count):
        if index == warm:
            before, memory = state(), memory_kb()
        kind, expected, got = one(index, runner)
        verdicts[got] += 1
        if got != expected:
            wrong[f"{kind}: {got}, not {expected}"] += 1
        if index % 100 == 99:
            print(f"{name}: {index + 1}/{count}, {memory_kb() // 1024} MB, {state()}", flush=True)
    after, grown = state(), memory_kb() / max(memory, 1)
    run_blocking(context.__aexit__(None, None, None))
    left = {key: after[key] - before[key] for key in after if after[key] > before[key]}
    print(f"{name}: {count} verifications in {time.monotonic() - begun:.0f} s: {dict(verdicts.most_common())}")
    print(f"{name}: wrong verdicts {dict(wrong) or 'none'}; left behind {left or 'nothing'}; memory × {grown:.3f}")
    return not wrong and not left and grown < 1.1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--runner", action="append")
    given = parser.parse_args()
    good = [soak(name, given.count) for name in given.runner or ["bubblewrap", "docker"]]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
