"""A Docker engine for the tests: the one that answers, or else one of our own for as long as it is needed.

    python -m tests.engine [--data FOLDER] -- COMMAND ...

runs COMMAND with DOCKER_HOST set to it. Every process of a test run that asks
gets the same engine; the last one to leave stops it. Users that were killed do
not count, so the next run also cleans up after one that could not.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest
from testcontainers.core.docker_client import get_docker_host

from runners import owners
from runners.contract import RunnerUnavailable
from runners.docker import find_engine
from tests import apt

__all__ = ["Found", "docker_host", "engine"]

START_SECONDS = 60
STOP_SECONDS = 60


@dataclass(frozen=True)
class Found:
    host: str | None
    """Where the engine answers; None where there is none to be had."""
    reason: str = ""
    """Why there is none."""


class NoEngine(Exception):
    """There is no engine and we cannot start one."""


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    """Where an engine answers. Without one the test is skipped, or fails if an engine was promised."""
    with engine() as found:
        if found.host is None:
            promised = "docker" in os.environ.get("REPROOF_REQUIRE_RUNNERS", "").split(",")
            (pytest.fail if promised else pytest.skip)(f"no Docker engine: {found.reason}")
        yield found.host


@contextmanager
def engine(data: Path | None = None) -> Iterator[Found]:
    """An engine until this ends. One that we did not start is not stopped.

    `data` keeps the images of an engine that we start; without it they go with it.
    """
    if answers(None):
        yield Found(get_docker_host() or docker.constants.DEFAULT_UNIX_SOCKET.removeprefix("http+"))
        return
    folder = _folder()
    ticket = folder / "users" / uuid.uuid4().hex
    try:
        with _lock():
            _join(folder, ticket, data)
    except NoEngine as exc:
        yield Found(None, str(exc))
        return
    try:
        yield Found(_host(folder))
    finally:
        with _lock():
            ticket.unlink()
            if not _users(folder):
                _stop(folder)


def answers(host: str | None) -> bool:
    try:
        asyncio.run(find_engine(host))
    except RunnerUnavailable:
        return False
    return True


@contextmanager
def _lock() -> Iterator[None]:
    """One at a time starts or stops it. This file is the lock: it is there, and stays."""
    with open(__file__) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _folder() -> Path:
    """The same for all processes of this checkout. Not on overlayfs, on which there is no second overlay."""
    places = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/dev/shm")]
    fitting = [place for place in places if place.is_dir() and _filesystem(place) != "overlay"]
    checkout = hashlib.sha256(os.path.abspath(__file__).encode()).hexdigest()[:8]
    return (fitting or places)[0] / f"reproof-engine-{os.getuid()}-{checkout}"


def _mounts() -> list[tuple[Path, str]]:
    """Mount points, in the order in which they were mounted, with the kind of filesystem."""
    lines = Path("/proc/self/mounts").read_text().splitlines() if Path("/proc/self/mounts").exists() else []
    return [(Path(line.split()[1]), line.split()[2]) for line in lines]


def _filesystem(path: Path) -> str:
    holding = [(len(point.parts), kind) for point, kind in _mounts() if path.resolve().is_relative_to(point)]
    return max(holding, default=(0, ""))[1]


def _host(folder: Path) -> str:
    return f"unix://{folder}/docker.sock"


def _users(folder: Path) -> list[Path]:
    """The tickets of those who still run."""
    return [path for path in (folder / "users").glob("*") if owners.is_alive(json.loads(path.read_text()))]


def _join(folder: Path, ticket: Path, data: Path | None) -> None:
    if not (folder.exists() and answers(_host(folder))):
        if folder.exists():
            _stop(folder)  # left by a run that was killed
        dockerd = _find_dockerd()
        folder.mkdir(mode=0o700)
        try:
            _start(dockerd, folder, data)
        except BaseException:
            _stop(folder)
            raise
    ticket.parent.mkdir(exist_ok=True)
    ticket.write_text(json.dumps(owners.labels()))


def _find_dockerd() -> str:
    if sys.platform != "linux" or os.getuid() != 0:
        raise NoEngine("none answers, and only root on Linux can start one")
    if not _dockerd():
        try:
            apt.install("docker.io")
        except apt.NotInstalled as exc:
            raise NoEngine(f"none answers, dockerd is not installed, and {exc}") from None
    found = _dockerd()
    if found is None:
        raise NoEngine("none answers, and Debian's docker.io brought no dockerd")
    return found


def _dockerd() -> str | None:
    return shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin")


def _start(dockerd: str, folder: Path, data: Path | None) -> None:
    command = [dockerd, "--data-root", str(data or folder / "data"), "--exec-root", str(folder / "exec")]
    command += ["--pidfile", str(folder / "docker.pid"), "--host", _host(folder)]
    command += ["--bridge=none", "--iptables=false"]  # sandboxes have no network
    # A grandchild: whoever starts it may leave before whoever stops it.
    script = 'log=$1; shift; "$@" </dev/null >"$log" 2>&1 & echo $!'
    started = subprocess.run(
        ["sh", "-c", script, "sh", str(folder / "log"), *command],
        env={**os.environ, "TMPDIR": str(folder)},  # containerd dumps its stacks there when it is slow to end
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    pid = int(started.stdout)
    (folder / "owner.json").write_text(json.dumps(owners.labels(pid)))
    until = time.monotonic() + START_SECONDS
    while not answers(_host(folder)):
        if time.monotonic() > until or not _pid(folder):
            last = (folder / "log").read_text().strip().splitlines()[-1:]
            raise NoEngine(f"dockerd was started but does not answer: {''.join(last)}")
        time.sleep(0.05)


def _pid(folder: Path) -> int | None:
    """Our dockerd's process id, while it is that."""
    with suppress(OSError, ValueError):
        owner = json.loads((folder / "owner.json").read_text())
        return int(owner[owners.PID]) if owners.is_alive(owner) else None
    return None


def _stop(folder: Path) -> None:
    pid = _pid(folder)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while _pid(folder) and time.monotonic() < until:
        time.sleep(0.02)
    for point, _ in reversed(_mounts()):
        if point.is_relative_to(folder):
            subprocess.run(["umount", "--lazy", str(point)], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine", description="Run a command with an engine.")
    parser.add_argument("--data", type=Path, help="keep the engine's images here")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with engine(options.data) as found:
        if found.host is None:
            print(f"no Docker engine: {found.reason}", file=sys.stderr)
        host = {"DOCKER_HOST": found.host} if found.host else {}
        return subprocess.run(options.command, env={**os.environ, **host}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
