"""A cgroup for one sandbox, where this machine lets us have one.

Version 1 (one tree per controller) and version 2 (one tree), below whatever
cgroup we are in. Without one, the guest measures; the report says which.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .contract import Limits

__all__ = ["Cgroup", "create", "supported"]

OVERHEAD_MB = 96
"""Our own processes in the sandbox; tmpfs pages are charged too, so `disk_mb` comes on top."""
ROOT = Path("/sys/fs/cgroup")
PREFIX = "reproof-"


@dataclass(frozen=True)
class Cgroup:
    """Directories by controller: `memory`, `pids` (version 1) or `unified` (version 2)."""

    folders: Mapping[str, Path]

    @property
    def version(self) -> int:
        return 2 if "unified" in self.folders else 1

    def add(self, pid: int) -> None:
        """Put a process in, and thereby all that it will start."""
        for folder in self.folders.values():
            (folder / "cgroup.procs").write_text(str(pid))

    def oom_kills(self) -> int:
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        folder = self.folders.get("unified") or self.folders["memory"]
        for line in (folder / name).read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
        return 0

    def remove(self) -> None:
        """Kill what is still inside and remove the directories."""
        until = time.monotonic() + 5
        for folder in self.folders.values():
            while folder.exists():
                for pid in (folder / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                try:
                    folder.rmdir()
                except OSError:  # busy until the dead are reaped
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.001)


def create(limits: Limits) -> Cgroup | None:
    """A new cgroup with these limits, or None where this machine gives us none."""
    parents = supported()
    if parents is None:
        return None
    name = f"{PREFIX}{os.getpid()}-{uuid.uuid4().hex[:12]}"
    made = Cgroup({controller: parent / name for controller, parent in parents.items()})
    try:
        for folder in made.folders.values():
            folder.mkdir()
        _set_limits(made, limits)
    except OSError:
        made.remove()
        raise
    return made


def _set_limits(cgroup: Cgroup, limits: Limits) -> None:
    memory = (limits.memory_mb + limits.disk_mb + OVERHEAD_MB) * 1024 * 1024
    processes = limits.processes + 5  # bwrap's two, the supervisor and its two zygotes
    if cgroup.version == 2:
        folder = cgroup.folders["unified"]
        (folder / "memory.max").write_text(str(memory))
        _write_if_there(folder / "memory.swap.max", "0")
        (folder / "pids.max").write_text(str(processes))
    else:
        (cgroup.folders["memory"] / "memory.limit_in_bytes").write_text(str(memory))
        _write_if_there(cgroup.folders["memory"] / "memory.memsw.limit_in_bytes", str(memory))
        (cgroup.folders["pids"] / "pids.max").write_text(str(processes))


def _write_if_there(path: Path, text: str) -> None:
    if path.exists():
        with contextlib.suppress(OSError):
            path.write_text(text)


@cache
def supported() -> Mapping[str, Path] | None:
    """The directories that we may make cgroups in, found by making one."""
    for candidate in (_version_1(), _version_2()):
        if candidate and all(_usable(parent, controller) for controller, parent in candidate.items()):
            sweep(candidate)
            return candidate
    return None


def sweep(parents: Mapping[str, Path]) -> None:
    """Remove what a killed harness left: its pid is in the name, and nothing is inside any more."""
    for parent in parents.values():
        for folder in parent.glob(PREFIX + "*-*"):
            owner = folder.name.removeprefix(PREFIX).partition("-")[0]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _own() -> dict[str, str]:
    """Controller → our own cgroup; the empty name is version 2's."""
    own = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                own[controller] = path.lstrip("/")
    return own


def _version_1() -> dict[str, Path] | None:
    own = _own()
    if "memory" not in own or "pids" not in own:
        return None
    return {name: _existing(ROOT / name, own[name]) for name in ("memory", "pids")}


def _existing(mount: Path, path: str) -> Path:
    """In a container /proc/self/cgroup may name a path that is not mounted here."""
    return mount / path if (mount / path).is_dir() else mount


def _version_2() -> dict[str, Path] | None:
    own = _own()
    if "" not in own or not (ROOT / "cgroup.controllers").exists():
        return None
    here = _existing(ROOT, own[""])
    # A cgroup with processes cannot have controlled children; our parent's children can.
    for parent in (here, here.parent):
        if parent.is_relative_to(ROOT) and {"memory", "pids"} <= set(
            (parent / "cgroup.subtree_control").read_text().split()
        ):
            return {"unified": parent}
    return None


def _usable(parent: Path, controller: str) -> bool:
    probe = parent / f"{PREFIX}{os.getpid()}-probe-{uuid.uuid4().hex[:8]}"
    needed = {"memory": ["memory.limit_in_bytes"], "pids": ["pids.max"], "unified": ["memory.max", "pids.max"]}
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        return all(os.access(probe / name, os.W_OK) for name in needed[controller])
    finally:
        probe.rmdir()
