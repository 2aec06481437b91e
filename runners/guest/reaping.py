"""Waits for everything that ends, and ends everything that does not.

A job's processes have user ids of their own, so all of them are killed by one call
that spares ours: made with the rights of that user, `kill(-1)` reaches each process
of the job at one moment, however fast they follow each other. Where all have one
user id they are looked up and killed one by one.
"""

from __future__ import annotations

import errno
import os
import time

from . import privileges
from .light import signal
from .meter import owner, processes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

PATIENCE = 10.0
ONE_BY_ONE = 1.0  # so long; then what cannot be caught is killed together with our own


class Reaper:
    """Accounts for the processes of one run."""

    def __init__(self, settings: dict[str, Any], users: Collection[int], staff: Collection[int]) -> None:
        self.users, self.staff = users, staff
        self.private: bool = settings["private"]
        self.bystander: int = settings["bystander"]
        self.gave_up = False
        self.statuses: dict[int, int] = {}
        self.cpu_seconds = 0.0
        self.peak_kb = 0

    def reap(self) -> None:
        """Take leave of the orphans; a zygote does the same for its own child, and tells."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.account(pid, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)

    def account(self, pid: int, status: int, cpu_seconds: float, peak_kb: int) -> None:
        if pid not in self.staff:
            self.statuses[pid] = status
            self.cpu_seconds += cpu_seconds
            self.peak_kb = max(self.peak_kb, peak_kb)

    def kill_all(self) -> int:
        """Leave no process of the job; the number that had outlived its main process."""
        return self._kill(self.users, self._alive)

    def kill_user(self, uid: int | None, spare: int) -> int:
        """Leave no process of one of the job's users; or, where there is one id for all, none but that one."""
        if uid is None:
            return self._kill((), lambda: [pid for pid in self._alive() if pid != spare])
        return self._kill((uid,), lambda: [pid for pid in self._alive() if owner(pid) == uid])

    def _alive(self) -> list[int]:
        return list(processes(self.private, self.staff))

    def _kill(self, users: Collection[int], alive: Callable[[], list[int]]) -> int:
        leftover = None
        until = time.monotonic() + PATIENCE
        while True:
            self.reap()
            found = alive()
            leftover = len(found) if leftover is None else leftover
            if not found:
                return leftover
            if time.monotonic() > until:
                self.gave_up = True
                return leftover
            for uid in users:
                with privileges.acting_as(uid, self.bystander):
                    _kill(-1)
            if not users:
                one_by_one = not self.private or time.monotonic() < until - PATIENCE + ONE_BY_ONE
                for pid in found if one_by_one else (-1,):
                    _kill(pid)
            time.sleep(0.001)


def kill_everything(private: bool) -> None:
    """Leave nothing but this process, and not for long."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        if private:
            _kill(-1)  # all but this process, if it is pid 1
        else:
            for pid in processes(private, ()):
                _kill(pid)
        time.sleep(0.001)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError as exc:
        if exc.errno not in (errno.ESRCH, errno.EPERM):
            raise
