"""The guest's only trusted process: takes a job, forks for it, watches, gives evidence.

It never runs candidate code. It has imported pytest beforehand, so that a job
starts with a fork instead of an interpreter; it is single-threaded for the same
reason. What it says to the host:

    hello   → versions; sent once, when everything is imported
    event   → what the job's child reported, as it happens
    end     → how one part of the job ended, with evidence
    done    → nothing of the job is left, or (`clean` is false) we are not sure of that

Where it is pid 1 of a pid namespace, nothing inside can signal it. It is a subreaper,
so that a process that was daemonised comes back to it.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import gc
import os
import select
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING

from . import child, cleaning, frames
from .meter import Meter, process_table, processes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pytest

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

LARGEST_EVENT = 32 * 1024 * 1024
MOST_EVENT_BYTES = 256 * 1024 * 1024
KEPT_OUTPUT = 64 * 1024
TICK = 0.05
GRACE = 2.0  # between asking a test to stop and killing its process
MOST_RESTARTS = 20
PRELOADS = ("asyncio", "decimal", "difflib", "doctest", "fractions", "hypothesis", "pprint")


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(settings: dict[str, Any]) -> None:
    wire_in, wire_out = _take_the_wire()
    prctl(PR_SET_DUMPABLE, 0)  # same user or not: no one reads or traces this process
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # As pid 1 it is deaf to all that it has no handler for; Python comes with one for SIGINT.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    host = Host(wire_in, wire_out)
    hello, ready = _warm_up(settings)
    faulthandler.disable()  # pytest has enabled it: a handler for signals that would otherwise be ignored
    host.send(hello)
    status = 0
    try:
        _serve(settings, host, ready)
    except HostGone:
        pass
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        Reaper(settings["private"]).kill_all()
        os._exit(status)  # nothing here is worth the time that an interpreter takes to leave


def _serve(settings: dict[str, Any], host: Host, ready: pytest.Session | None) -> None:
    """One job after the other, until the host is gone.

    Where jobs have user ids of their own, each has a supervisor of its own, too, forked from
    this process: no job's data is ever in here, so none is in the memory that the next job is
    forked from. With one id for all, such a supervisor could be killed by its job; then this
    process does it itself, and no second job can be vouched for.
    """
    number = 0
    while True:
        command = host.command()
        if command == b"P":
            host.send({"type": "pong"})
        elif settings["uid"] is None:
            Work(host.receive(), settings, host, ready, alone=False).to_the_end()
        else:
            # No two jobs of a sandbox have the same user id.
            own = dict(settings, uid=settings["uid"] + number % settings["uids"])
            if _in_a_fork(lambda: Work(host.receive(), own, host, ready, alone=True).to_the_end()):  # noqa: B023
                raise HostGone
            Reaper(settings["private"]).kill_all()
            number += 1


def _in_a_fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    status = 1
    try:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        work()
        status = 0
    except HostGone:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _take_the_wire() -> tuple[int, int]:
    """Move stdin and stdout out of reach of anything that prints or reads."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return wire_in, wire_out


def _warm_up(settings: dict[str, Any]) -> tuple[dict[str, Any], pytest.Session | None]:
    """Do, before any job, what most jobs would otherwise do each for itself."""
    hello: dict[str, Any] = {"type": "hello", "python": _python(), "pytest": None, "missing": None}
    try:
        import pytest
    except ImportError:
        return hello, None
    from . import calls, testing  # noqa: F401

    hello["pytest"] = pytest.__version__
    if settings["preloads"] is None:
        return hello, None
    os.environ.update(settings["variables"])  # some modules look at them when they are imported
    needed = set(sys.modules)
    for name in (*PRELOADS, *settings["preloads"]):
        try:
            __import__(name)
        except ImportError:
            if name in settings["preloads"]:
                hello["missing"] = name
    testing.preload()
    workspace, temporary, _ = child.folders(settings)
    ready = testing.prepare(workspace, temporary)
    child.preloaded = {name.partition(".")[0] for name in set(sys.modules) - needed}
    # What is here now stays: no collection in a job has to look at it, or copies it by looking.
    gc.collect()
    gc.freeze()
    return hello, ready


def _python() -> str:
    return "%d.%d.%d" % sys.version_info[:3]


class HostGone(Exception):
    """The stream to the host has ended; so does everything here."""


class Host:
    def __init__(self, wire_in: int, wire_out: int) -> None:
        self.fd = wire_in
        self._out = wire_out
        self._decoder = frames.Decoder()
        self._waiting: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        data = memoryview(frames.encode(message))
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError as exc:
            raise HostGone from exc

    def command(self) -> bytes:
        """What is wanted next, in one byte: P, to be told that we are here, or J, a job, which follows."""
        byte = os.read(self.fd, 1)
        if not byte:
            raise HostGone
        return byte

    def receive(self) -> dict[str, Any]:
        while not self._waiting:
            data = os.read(self.fd, 1 << 20)
            if not data:
                raise HostGone
            self._waiting.extend(self._decoder.feed(data))
        return self._waiting.pop(0)

    def check(self) -> None:
        """The host says nothing while a job runs; what can be read is its end."""
        if not os.read(self.fd, 1):
            raise HostGone


class Work:
    """One job: its parts one after the other, each in a sandbox that holds nothing of the one before."""

    def __init__(
        self, job: dict[str, Any], settings: dict[str, Any], host: Host, ready: pytest.Session | None, *, alone: bool
    ) -> None:
        self.job, self.settings, self.host, self.ready = job, settings, host, ready
        self.deadline = time.monotonic() + job["limits"]["wall_seconds"]
        self.clean = alone

    def to_the_end(self) -> None:
        parts = [part for part, wanted in (("cases", self.job["calls"]), ("pytest", self.job["pytest"])) if wanted]
        for index, part in enumerate(parts):
            if index:
                self._clean_up(leaving=False)
            self.host.send({"type": "end", "part": part, "evidence": self._run(part)})
        if not self.job["last"] and self.clean:
            self._clean_up(leaving=True)
        self.host.send({"type": "done", "clean": self.clean})

    def _clean_up(self, *, leaving: bool) -> None:
        """Else a file that one process wrote could configure the next: a conftest.py, for instance."""
        self.clean = cleaning.clean(self.settings, leaving=leaving) and self.clean

    def _run(self, part: str) -> dict[str, Any]:
        """Run one part to its end, in as many processes as tests that would not stop ask for."""
        finished: set[Any] = set()
        evidence: dict[str, Any] | None = None
        restarts = 0
        while True:
            job = dict(self.job, finished=sorted(finished))
            run = Run(part, job, self.settings, self.host, self.deadline, self.ready)
            evidence = merge(evidence, run.to_the_end())
            evidence["restarts"] = restarts
            self.clean = self.clean and not run.reaper.gave_up
            if evidence["stopped"] != "test" or restarts >= MOST_RESTARTS or not run.current:
                return evidence
            if time.monotonic() > self.deadline:
                return evidence
            finished |= run.finished | {run.current}
            self._report_stuck(part, run, evidence)
            self._clean_up(leaving=False)
            restarts += 1

    def _report_stuck(self, part: str, run: Run, evidence: dict[str, Any]) -> None:
        seconds = round(time.monotonic() - run.current_since, 3)
        event = {"e": "stuck", "id": run.current, "stack": evidence["stack"], "seconds": seconds}
        self.host.send({"type": "event", "part": part, "event": event})


def merge(earlier: dict[str, Any] | None, later: dict[str, Any]) -> dict[str, Any]:
    """Evidence of two processes of one part: how the last ended, what both used."""
    if earlier is None:
        return later
    for key in ("wall_seconds", "cpu_seconds", "output_bytes", "leftover_processes"):
        later[key] += earlier[key]
    later["peak_memory_mb"] = max(earlier["peak_memory_mb"], later["peak_memory_mb"])
    later["oom_kills"] = max(earlier["oom_kills"], later["oom_kills"])
    later["output"] = (earlier["output"] + later["output"])[-KEPT_OUTPUT:]
    for key in ("processes_denied", "disk_full"):
        later[key] = earlier[key] or later[key]
    later["garbled"] = earlier["garbled"] or later["garbled"]
    return later


class Run:
    """One child process, from fork to the last of its descendants."""

    def __init__(
        self,
        part: str,
        job: dict[str, Any],
        settings: dict[str, Any],
        host: Host,
        deadline: float,
        ready: pytest.Session | None,
    ) -> None:
        self.part, self.job, self.settings, self.host, self.ready = part, job, settings, host, ready
        self.limits: dict[str, Any] = job["limits"]
        self.deadline = deadline
        self.started = time.monotonic()
        self.reaper = Reaper(settings["private"])
        self.events = frames.Decoder(LARGEST_EVENT)
        self.sequence = 0
        self.event_bytes = 0
        self.current: str | None = None
        self.current_since = 0.0
        self.asked = 0.0
        self.finished: set[Any] = set()
        self.garbled: str | None = None
        self.stopped: str | None = None
        self.stack = b""
        self.output = Output(self.limits["output_kb"] * 1024)

    def to_the_end(self) -> dict[str, Any]:
        self.meter = Meter(self.settings, self.limits, self.reaper)
        self.measured = self.started
        self._fork()
        try:
            while not self.reaper.ended(self.pid):
                self._wait(TICK)
                if self.stopped is None:
                    self._enforce()
        finally:
            leftover = self.reaper.kill_all()
            self._drain()
            self._close()
        return self._evidence(leftover)

    # --- starting -----------------------------------------------------------

    def _fork(self) -> None:
        pipes = {name: os.pipe() for name in ("events", "stdout", "stderr", "stack")}
        wake_r, wake_w = os.pipe()
        os.set_blocking(wake_w, False)
        os.set_blocking(wake_r, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.pid = os.fork()
        if self.pid == 0:
            signal.set_wakeup_fd(-1)
            ends = {name: pair[1] for name, pair in pipes.items()}
            shut = [pair[0] for pair in pipes.values()] + [wake_r, wake_w, self.host.fd, self.host._out]
            child.run(self.part, self.job, self.settings, ends, shut, self.ready)
        for _, write_end in pipes.values():
            os.close(write_end)
        self.wake = (wake_r, wake_w)
        self.readers: dict[int, Callable[[bytes], None]] = {
            pipes["events"][0]: self._on_events,
            pipes["stdout"][0]: self.output.add,
            pipes["stderr"][0]: self.output.add,
            pipes["stack"][0]: self._on_stack,
            wake_r: lambda data: None,
        }
        for fd in self.readers:
            os.set_blocking(fd, False)

    # --- watching -----------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        ready, _, _ = select.select([*self.readers, self.host.fd], [], [], seconds)
        for fd in ready:
            if fd == self.host.fd:
                self.host.check()
            else:
                self._read(fd)

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, 1 << 18)
        except BlockingIOError:
            return False
        if not data:
            if fd != self.wake[0]:
                os.close(fd)
                del self.readers[fd]
            return False
        self.readers[fd](data)
        return True

    def _on_stack(self, data: bytes) -> None:
        if len(self.stack) < 16384:
            self.stack += data

    def _on_events(self, data: bytes) -> None:
        if self.garbled:
            return
        self.event_bytes += len(data)
        try:
            messages = self.events.feed(data)
        except frames.FrameError as exc:
            self.garbled = str(exc)
            return
        for event in messages:
            if event.pop("n", None) != self.sequence:
                self.garbled = f"an event is out of turn: expected number {self.sequence}"
                return
            self.sequence += 1
            if not isinstance(event.get("id", ""), str):
                self.garbled = "an event's test id is not a string"
                return
            self._note(event)
            try:
                self.host.send({"type": "event", "part": self.part, "event": event})
            except frames.FrameError as exc:  # JSON can be read that cannot be written, as 1e999
                self.garbled = str(exc)
                return

    def _note(self, event: dict[str, Any]) -> None:
        kind = event.get("e")
        if kind == "start":
            self.current, self.current_since, self.asked = event.get("id"), time.monotonic(), 0.0
        elif kind == "stop":
            self.finished.add(event.get("id"))
            self.current = None
        self.output.add_captured(event.get("out", 0))

    def _enforce(self) -> None:
        now = time.monotonic()
        if self.garbled:
            return self._stop("garbled")
        if now > self.deadline:
            return self._stop("wall", where=True)
        if self.output.over or self.event_bytes > MOST_EVENT_BYTES:
            return self._stop("output")
        if now - self.measured >= TICK:
            self.measured = now
            over = self.meter.over()
            if over:
                return self._stop(over, where=over == "cpu")
        if self.current and not self.job["workers"]:
            return self._enforce_test(now)
        return None

    def _enforce_test(self, now: float) -> None:
        spent = now - self.current_since - self.limits["test_seconds"]
        if spent > GRACE:
            self._stop("test", where=True)
        elif spent > 0 and now - self.asked > 0.25:
            self.asked = now
            self._signal(child.SIGNAL_TIME)

    def _signal(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def _stop(self, why: str, where: bool = False) -> None:
        self.stopped = why
        if where:
            self._signal(child.SIGNAL_STACK)
            until, heard = time.monotonic() + 0.5, -1
            # It is written line by line: complete when a moment passes without another one.
            while time.monotonic() < until and len(self.stack) > heard and not self.reaper.ended(self.pid):
                heard = len(self.stack) if self.stack else -1
                self._wait(0.05)
        self._signal(signal.SIGKILL)

    # --- ending -------------------------------------------------------------

    def _drain(self) -> None:
        """What the dead left in the pipes; no one is alive to write more."""
        for fd in list(self.readers):
            while fd in self.readers and self._read(fd):
                pass
        if self.garbled is None:
            try:
                self.events.close()
            except frames.FrameError as exc:
                # A process that is killed can leave half a frame; one that exits cannot.
                if self.stopped is None and self.reaper.statuses[self.pid] == 0:
                    self.garbled = str(exc)

    def _close(self) -> None:
        signal.set_wakeup_fd(-1)
        for fd in set(self.readers) | set(self.wake):
            os.close(fd)

    def _evidence(self, leftover: int) -> dict[str, Any]:
        status = self.reaper.statuses[self.pid]
        evidence: dict[str, Any] = {
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "stopped": self.stopped,
            "stopped_at": self.current,
            "stack": self.stack.decode("utf-8", "replace") or None,
            "wall_seconds": time.monotonic() - self.started,
            "cpu_seconds": self.reaper.cpu_seconds,
            "output_bytes": self.output.total,
            "output": self.output.text(),
            "leftover_processes": leftover,
            "garbled": self.garbled,
        }
        evidence.update(self.meter.evidence())
        return evidence


class Output:
    """What came past pytest's capture: counted, and its head and tail kept."""

    def __init__(self, limit: int) -> None:
        self.limit, self.total, self.captured = limit, 0, 0
        self.head, self.tail = b"", b""

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = KEPT_OUTPUT // 2 - len(self.head)
        if room > 0:
            self.head, data = self.head + data[:room], data[room:]
        self.tail = (self.tail + data)[-KEPT_OUTPUT // 2 :]

    def add_captured(self, count: Any) -> None:
        if isinstance(count, int) and count > 0:
            self.total += count
            self.captured += count

    @property
    def over(self) -> bool:
        return self.total > self.limit

    def text(self) -> str:
        cut = self.total - self.captured - len(self.head) - len(self.tail)
        middle = b"\n[... %d bytes cut ...]\n" % cut if cut > 0 else b""
        return (self.head + middle + self.tail).decode("utf-8", "replace")


class Reaper:
    """Waits for everything that ends here, and ends everything that does not."""

    def __init__(self, private: bool) -> None:
        self.private = private
        self.gave_up = False
        self.statuses: dict[int, int] = {}
        self.cpu_seconds = 0.0
        self.peak_kb = 0

    def ended(self, pid: int) -> bool:
        self._reap()
        return pid in self.statuses

    def _reap(self) -> bool:
        """True while there is, or may be, something left to wait for."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.statuses[pid] = status
            self.cpu_seconds += usage.ru_utime + usage.ru_stime
            self.peak_kb = max(self.peak_kb, usage.ru_maxrss)

    def kill_all(self) -> int:
        """Leave no process of the job; the number that had outlived its main process."""
        leftover = None
        until = time.monotonic() + 10
        while self._reap():
            alive = processes(process_table(), self.private)
            leftover = len(alive) if leftover is None else leftover
            if self.private:
                try:
                    os.kill(-1, signal.SIGKILL)  # all but this process and pid 1
                except ProcessLookupError:
                    pass
            else:
                for pid in alive:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except OSError as exc:
                        if exc.errno not in (errno.ESRCH, errno.EPERM):
                            raise
            if time.monotonic() > until:
                self.gave_up = True
                break
            time.sleep(0.001)
        return leftover or 0
