"""What a test needs and the machine lacks, from Debian, where root and apt are to be had."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NotInstalled", "install"]


class NotInstalled(Exception):
    """The package is not to be had here; the message completes `it is not installed, and ...`."""


def install(package: str) -> None:
    if sys.platform != "linux" or os.getuid() != 0:
        raise NotInstalled("only root on Linux can install it")
    if not shutil.which("apt-get"):
        raise NotInstalled("there is no apt-get to install it")
    with _one_at_a_time(), _no_services():
        for command in (["update"], ["install", "-y", "--no-install-recommends", package]):
            done = subprocess.run(
                ["apt-get", "-q", *command],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise NotInstalled(f"apt-get {command[0]} failed: {last}")


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """This file is the lock: it is there, and stays."""
    with open(__file__) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _no_services() -> Iterator[None]:
    """A package may not start its service: it would outlive the tests."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
