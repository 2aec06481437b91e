"""What a run leaves behind, which must be nothing.

Everything is looked up for this process only, so that other runs on the same
machine, of another worker or of another user, do not matter.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker

PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def nothing_left(temporary: Path, docker_host: str | None = None) -> Iterator[None]:
    """Fail if the block leaves a process, container, temporary file, mount, cgroup or descriptor.

    Temporary files go to `temporary` meanwhile.
    """
    # What loses its parent becomes our child instead of init's, and stays visible as ours.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with _temporary_files_in(str(temporary)):
        before = _everything(docker_host)
        yield
        after = _everything(docker_host)
        left = {kind: after[kind] - before[kind] for kind in after if len(after[kind]) > len(before[kind])}
        assert not left, "\n".join(f"{kind} left: {item}" for kind, items in left.items() for item in sorted(items))


@contextlib.contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before


def _everything(docker_host: str | None) -> dict[str, set[str]]:
    return {
        "process": set(processes()),
        "container": set(_containers(docker_host)) if docker_host else set(),
        "temporary file": set(os.listdir(tempfile.gettempdir())),
        "mount": set(_mounts()),
        "cgroup": set(cgroups(os.getpid())),
        "descriptor": set(_descriptors()),
    }


def processes() -> Iterator[str]:
    """Every process below this one, by its id, its start and its name."""
    parents: dict[int, int] = {}
    shown: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            pid, (name, fields) = int(folder.name), _stat(folder)
            parents[pid] = int(fields[1])
            if name.startswith("chrom"):
                continue  # the browser of other tests of this process, which starts and ends helpers as it likes
            if fields[0] == "Z" and parents[pid] == os.getpid():
                os.waitpid(pid, os.WNOHANG)  # an orphan that init would have buried
            else:
                shown[pid] = f"{pid} started at {fields[19]}: {name} in {_folder(folder)}"
    for pid in shown:
        if _is_below(pid, os.getpid(), parents):
            yield shown[pid]


def _stat(folder: Path) -> tuple[str, list[str]]:
    before, _, after = (folder / "stat").read_text("utf-8", "replace").rpartition(")")
    return before.partition("(")[2], after.split()


def _folder(folder: Path) -> str:
    try:
        return os.readlink(folder / "cwd")
    except OSError:
        return "?"


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid := parents.get(pid, 0):
        if pid == ancestor:
            return True
    return False


def _containers(docker_host: str) -> Iterator[str]:
    with contextlib.closing(docker.DockerClient(docker_host)) as client:
        for found in client.api.containers(all=True, filters={"label": f"reproof.owner.pid={os.getpid()}"}):
            yield f"{found['Names']} {found['Status']}"


def cgroups(owner: int) -> Iterator[str]:
    """Those that the process with this id has made."""
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        yield from (f"{folder}/{name}" for name in names if name.startswith(f"reproof-{owner}-"))


def _mounts() -> Iterator[str]:
    """Ours; an engine's belong to containers, which are looked for by their labels."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split()[4]
        if not any(part in target for part in ("reproof-engine", "/overlay", "/containers/", "/netns")):
            yield target


def _descriptors() -> Iterator[str]:
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that listed them
            yield f"{fd} is {os.readlink(f'/proc/self/fd/{fd}')}"
