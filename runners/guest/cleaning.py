"""Leaves nothing of a job for the next one in the same sandbox; says so if it cannot be sure.

What can outlive a job's processes: files in the places that it may write to, and IPC
objects. They are removed with the rights of the job's own user, so whatever a job has
prepared for the one who cleans up, nothing happens that it could not have done itself.
(Keyrings could outlive it, too: `privileges.py` keeps candidates from them.)
"""

from __future__ import annotations

import os
import stat

from . import privileges
from .light import call_c, signal
from .meter import contents, processes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any


_IPC = {"shm": "shmctl", "sem": "semctl", "msg": "msgctl"}


def clean(settings: dict[str, Any], users: Collection[int], staff: Collection[int]) -> bool:
    """Remove what a job's users left behind; True if nothing is there any more."""
    for uid in users or (None,):
        remove(settings, uid)
    return _is_clean(settings, staff)


def remove(settings: dict[str, Any], uid: int | None) -> None:
    """Remove what one user left behind, as far as that goes."""
    with privileges.acting_as(uid, settings["bystander"]):
        try:
            if uid is not None:
                os.kill(-1, signal.SIGKILL)  # should one have been fast enough not to be seen: now none is
            for folder in _folders(settings):
                _empty(folder)
            for kind, number in list(_ipc_objects(settings)):
                _remove_ipc(kind, number)
        except Exception:
            pass  # whether it worked is looked up, not assumed


def remove_candidate(settings: dict[str, Any], uid: int | None) -> None:
    """The same for a candidate whose judge goes on; where there is one user for both, by where its files are."""
    if uid is not None:
        return remove(settings, uid)
    import shutil

    for name in ("candidate", "tmp", "home"):
        shutil.rmtree(os.path.join(settings["workspace"], name), ignore_errors=True)
    return None


def _folders(settings: dict[str, Any]) -> list[str]:
    return [folder for folder in (settings["workspace"], *settings["scratch"]) if os.path.isdir(folder)]


def _is_clean(settings: dict[str, Any], staff: Collection[int]) -> bool:
    try:
        return not (
            processes(settings["private"], staff)
            or any(os.listdir(folder) for folder in _folders(settings))
            or any(_ipc_objects(settings))
            or _has_used_the_network(settings)
        )
    except OSError:
        return False  # what cannot be looked at cannot be vouched for


def _has_used_the_network(settings: dict[str, Any]) -> bool:
    """Connections leave traces, and keep their ports for a while; there is no way to clear them."""
    if not settings["private"]:
        return False
    for name in ("sockstat", "sockstat6"):  # /proc/net/tcp would tell more, and takes milliseconds
        try:
            rows = [line.split() for line in contents("/proc/net/" + name).splitlines()]
        except FileNotFoundError:
            continue  # a kernel without it
        for kind, *pairs in rows:
            counts = dict(zip(pairs[::2], pairs[1::2]))  # noqa: B905  # 3.9
            if kind != b"sockets:" and (counts.get(b"inuse", b"0") != b"0" or counts.get(b"tw", b"0") != b"0"):
                return True
    return False


def _ipc_objects(settings: dict[str, Any]) -> Iterator[tuple[str, int]]:
    if not settings["private"]:
        return  # they are the host's, and none of our business
    for kind in _IPC:
        try:
            rows = contents("/proc/sysvipc/" + kind).splitlines()[1:]
        except OSError:
            continue  # a kernel without them
        for row in rows:
            yield kind, int(row.split()[1])
    try:
        for _ in os.listdir("/dev/mqueue"):
            yield "mqueue", 0
    except OSError:
        pass


def _remove_ipc(kind: str, number: int) -> None:
    if kind == "mqueue":
        _empty("/dev/mqueue")
    else:
        arguments = (number, 0, 0) if kind == "sem" else (number, 0, None)
        call_c(_IPC[kind], *arguments)  # IPC_RMID is 0


def _empty(folder: str) -> None:
    if not os.path.isdir(folder):
        return  # a link into a folder that is gone by now
    user = os.geteuid()
    for entry in os.scandir(folder):
        try:
            if entry.stat(follow_symlinks=False).st_uid != user:
                continue  # the other of a job's users will see to it
            if entry.is_dir(follow_symlinks=False):
                _remove_tree(entry.path)
            else:
                os.unlink(entry.path)
        except OSError:
            pass


def _remove_tree(path: str) -> None:
    try:
        os.rmdir(path)  # most that a job was given it has not used
        return
    except OSError:
        import shutil
    try:
        shutil.rmtree(path)
    except OSError:
        for folder, _, _ in os.walk(path):  # a job may have locked its own directories
            os.chmod(folder, stat.S_IRWXU)
        shutil.rmtree(path)
