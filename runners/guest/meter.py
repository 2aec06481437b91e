"""What a job uses: read from its cgroup where there is one, from /proc otherwise."""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from .reaping import Reaper

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def contents(path: str) -> bytes:
    """Of a small file that the kernel makes when it is read; `open` takes longer than the kernel."""
    fd = os.open(path, os.O_RDONLY)
    try:
        found = more = os.read(fd, 1 << 16)
        while more:
            more = os.read(fd, 1 << 16)
            found += more
        return found
    finally:
        os.close(fd)


def read_number(path: str, key: bytes) -> int:
    """A number from one of the `key value` lines of a cgroup file; 0 if it is not there."""
    try:
        lines = contents(path).splitlines()
    except OSError:
        return 0
    for line in lines:
        name, _, value = line.partition(b" ")
        if name == key:
            return int(value)
    return 0


class Process:
    __slots__ = ("parent", "threads", "ticks")

    def __init__(self, parent: int, threads: int, ticks: int) -> None:
        self.parent, self.threads = parent, threads
        self.ticks = ticks
        """CPU time, with that of children that were reaped."""


def processes(private: bool, staff: Collection[int]) -> dict[int, Process]:
    """The job's, by pid: all that there are in a pid namespace, else those below us; but for us and our staff."""
    ours = {os.getpid(), *staff}
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and not (private and (name == "1" or int(name) in ours)):
            found = _process(name)
            if found is not None:
                table[int(name)] = found
    return table if private else {pid: table[pid] for pid in _below(os.getpid(), table) if pid not in ours}


def _process(name: str) -> Process | None:
    try:
        rest = contents(f"/proc/{name}/stat").rpartition(b")")[2].split()
    except OSError:
        return None  # it ended while we looked
    if rest[0] == b"Z" and (int(rest[17]) <= 1 or not _has_live_thread(name)):
        return None
    return Process(int(rest[1]), int(rest[17]), sum(int(rest[i]) for i in (11, 12, 13, 14)))


def _has_live_thread(pid: str) -> bool:
    """Dead it is, unless only its first thread has ended: then another one speaks for all of them."""
    try:
        return any(thread != pid for thread in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return False


def _below(top: int, table: Mapping[int, Process]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    waiting = [top]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            yield pid
            waiting.append(pid)


def owner(pid: int) -> int | None:
    """The user whose process it is; None if it has ended."""
    try:
        lines = contents(f"/proc/{pid}/status").splitlines()  # its folder is root's if the process hides itself
        return next(int(line.split()[1]) for line in lines if line.startswith(b"Uid:"))
    except (OSError, StopIteration):
        return None


class Meter:
    """Watches one job. `over()` names the first limit that it has passed, if any."""

    def __init__(self, settings: dict[str, Any], limits: dict[str, Any], reaper: Reaper) -> None:
        self.limits, self.reaper = limits, reaper
        self.workspace: str = settings["workspace"]
        self.disk_is_mount = settings["disk"] == "tmpfs"
        self.private: bool = settings["private"]
        cgroup = settings["cgroup"]
        unified = cgroup.get("unified")
        if unified:
            self.memory_events = (unified + "/memory.events", b"oom_kill")
            self.memory_used = (unified + "/memory.stat", b"anon")
            self.process_events = (unified + "/pids.events", b"max")
        else:
            memory = cgroup.get("memory", "/nonexistent")
            self.memory_events = (memory + "/memory.oom_control", b"oom_kill")
            self.memory_used = (memory + "/memory.stat", b"total_rss")
            self.process_events = (cgroup.get("pids", "/nonexistent") + "/pids.events", b"max")
        self.has_memory_cgroup = bool(unified or "memory" in cgroup)
        self.used_before = read_number(*self.memory_used)
        self.ooms_before = read_number(*self.memory_events)
        self.denials_before = read_number(*self.process_events)
        self.has_pids_cgroup = bool(unified or "pids" in cgroup)
        self.peak_kb = 0
        self.denied = False
        self.full = False
        self.looks = 0

    def over(self) -> str | None:
        self.looks += 1
        running = processes(self.private, self.reaper.staff)
        self.denied = self.denied or self._processes_over(running)
        if self.looks % 4 == 1:
            self._look_at_disk()
        if self._memory_over(list(running)):
            return "memory"
        if self.denied:
            return "processes"
        used = self.reaper.cpu_seconds + sum(process.ticks for process in running.values()) / TICKS
        if used > self.limits["cpu_seconds"]:
            return "cpu"
        if self.full and not self.disk_is_mount:
            return "disk"
        return None

    def _processes_over(self, running: Mapping[int, Process]) -> bool:
        if self.has_pids_cgroup:
            return read_number(*self.process_events) > self.denials_before
        most: int = self.limits["processes"]
        return sum(process.threads for process in running.values()) > most

    def _memory_over(self, pids: list[int]) -> bool:
        limit_kb: int = self.limits["memory_mb"] * 1024
        used = self._used_kb(pids, limit_kb)
        self.peak_kb = max(self.peak_kb, used)
        return used > limit_kb

    def _used_kb(self, pids: list[int], limit_kb: int) -> int:
        if self.has_memory_cgroup:
            return max(0, read_number(*self.memory_used) - self.used_before) // 1024
        resident = sum(self._resident_kb(pid) for pid in pids)
        if resident > limit_kb and len(pids) > 1:
            # Forks share pages; only their proportional share tells what they use together.
            resident = sum(self._proportional_kb(pid) for pid in pids)
        return resident

    @staticmethod
    def _resident_kb(pid: int) -> int:
        try:
            return int(contents(f"/proc/{pid}/statm").split()[1]) * PAGE // 1024
        except (OSError, IndexError):
            return 0

    def _proportional_kb(self, pid: int) -> int:
        try:
            for line in contents(f"/proc/{pid}/smaps_rollup").splitlines():
                if line.startswith(b"Pss:"):
                    return int(line.split()[1])
        except OSError:
            pass
        return self._resident_kb(pid)

    def _look_at_disk(self) -> None:
        if self.disk_is_mount:
            try:
                state = os.statvfs(self.workspace)
            except OSError:
                return  # a job may lock its own workspace, and looks at nothing by that
            self.full = self.full or state.f_bavail * state.f_frsize < 64 * 1024
        else:
            self.full = self.full or tree_bytes(self.workspace) > self.limits["disk_mb"] * 1024 * 1024

    def evidence(self) -> dict[str, Any]:
        self._look_at_disk()
        return {
            "peak_memory_mb": round(max(self.reaper.peak_kb, self.peak_kb) / 1024, 1),
            "oom_kills": read_number(*self.memory_events) - self.ooms_before,
            "processes_denied": self.denied or self._denied_at_the_end(),
            "disk_full": self.full,
        }

    def _denied_at_the_end(self) -> bool:
        return self.has_pids_cgroup and read_number(*self.process_events) > self.denials_before


def tree_bytes(root: str) -> int:
    total = 0
    for folder, _, files in os.walk(root):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                pass
    return total
