"""What a job uses: read from its cgroup where there is one, from /proc otherwise."""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from .reaping import Reaper

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def read_number(path: str, key: str | None = None) -> int:
    """A number from a cgroup file, or of one `key value` line in it; 0 if it is not there."""
    try:
        with open(path) as file:
            text = file.read()
    except OSError:
        return 0
    if key is None:
        return int(text) if text.strip().isdigit() else 0
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


def process_table() -> dict[int, tuple[int, int, int]]:
    """pid → (parent, threads, CPU ticks with those of reaped children)."""
    table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                rest = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if rest[0] == b"Z":
            # Dead, unless only its first thread has ended: then another one speaks for all of them.
            name = _live_thread(name) if int(rest[17]) > 1 else ""
            if not name:
                continue
        table[int(name)] = (int(rest[1]), int(rest[17]), sum(int(rest[i]) for i in (11, 12, 13, 14)))
    return table


def _live_thread(pid: str) -> str:
    try:
        return next((thread for thread in os.listdir(f"/proc/{pid}/task") if thread != pid), "")
    except OSError:
        return ""


def processes(table: dict[int, tuple[int, int, int]], private: bool, staff: Collection[int]) -> list[int]:
    """The job's: all that there are in a pid namespace, else those below us; but for us and our staff."""
    mine = os.getpid()
    if private:
        return [pid for pid in table if pid not in (1, mine) and pid not in staff]
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found, waiting = [], [mine]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            found.append(pid)
            waiting.append(pid)
    return [pid for pid in found if pid not in staff]


def owner(pid: int) -> int | None:
    """The user whose process it is; None if it has ended."""
    try:
        with open(f"/proc/{pid}/status") as file:  # the directory's owner is root if the process hides itself
            return next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
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
            self.memory_events = (unified + "/memory.events", "oom_kill")
            self.memory_used = (unified + "/memory.stat", "anon")
            self.process_events = (unified + "/pids.events", "max")
        else:
            memory = cgroup.get("memory", "/nonexistent")
            self.memory_events = (memory + "/memory.oom_control", "oom_kill")
            self.memory_used = (memory + "/memory.stat", "total_rss")
            self.process_events = (cgroup.get("pids", "/nonexistent") + "/pids.events", "max")
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
        table = process_table()
        pids = processes(table, self.private, self.reaper.staff)
        self.denied = self.denied or self._processes_over(table, pids)
        if self.looks % 4 == 1:
            self._look_at_disk()
        if self._memory_over(pids):
            return "memory"
        if self.denied:
            return "processes"
        used = self.reaper.cpu_seconds + sum(table[pid][2] for pid in pids) / TICKS
        if used > self.limits["cpu_seconds"]:
            return "cpu"
        if self.full and not self.disk_is_mount:
            return "disk"
        return None

    def _processes_over(self, table: dict[int, tuple[int, int, int]], pids: list[int]) -> bool:
        if self.has_pids_cgroup:
            return read_number(*self.process_events) > self.denials_before
        most: int = self.limits["processes"]
        return sum(table[pid][1] for pid in pids) > most

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
            with open(f"/proc/{pid}/statm") as file:
                return int(file.read().split()[1]) * PAGE // 1024
        except (OSError, IndexError):
            return 0

    def _proportional_kb(self, pid: int) -> int:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                for line in file:
                    if line.startswith("Pss:"):
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
