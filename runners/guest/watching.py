"""One run of one part of a job: its processes, from their start to the last of their descendants.

A run has a main process, whose end is the run's. In the separate seat that is the
judge; the candidate is a second one, which may end, be killed and be replaced while the
run goes on. Both count together for every limit but the time of a test.
"""

from __future__ import annotations

import os
import select
import time

from . import child, cleaning, frames, light, output
from .light import signal
from .meter import Meter
from .reaping import Reaper
from .zygote import ZygoteLost

TYPE_CHECKING = False

if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Mapping
    from typing import Any

    from .supervisor import Host, Job, Staff
    from .zygote import Zygote

LARGEST_EVENT = 32 * 1024 * 1024
MOST_EVENT_BYTES = 256 * 1024 * 1024
KEPT_STACK = 16 * 1024
TICK = 0.05
GRACE = 2.0  # between asking a test to stop and killing its process
PATIENCE = 5.0  # between killing a process and hearing that it has ended
MOST_CANDIDATES = 20


class Child:
    """A process that a zygote was told to fork."""

    def __init__(self, zygote: Zygote, role: str, uid: int | None, ends: Mapping[str, int]) -> None:
        self.zygote = zygote
        self.pid: int | None = None
        self.status: int | None = None
        self.stack = b""
        self.usage: list[Any] = [0.0, 0]
        self.lost = False
        try:
            zygote.order(role, uid, ends)
        except ZygoteLost:
            self.lost = True

    @property
    def ended(self) -> bool:
        return self.lost or self.status is not None

    def listen(self) -> None:
        """Take its zygote's next message: its pid, or its end."""
        try:
            if self.pid is None:
                self.pid = self.zygote.started(PATIENCE)
            else:
                self.status, *self.usage = self.zygote.ended(PATIENCE)
        except ZygoteLost:
            self.lost = True

    def signal(self, number: int) -> None:
        if self.pid is None and not self.ended:
            self.listen()
        if self.pid is not None and not self.ended:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def on_stack(self, data: bytes) -> None:
        if len(self.stack) < KEPT_STACK:
            self.stack += data

    def ending(self) -> dict[str, Any]:
        """How it ended; one whose zygote was killed was killed, too."""
        status = int(signal.SIGKILL) if self.status is None else self.status
        return {
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "stack": self.stack.decode("utf-8", "replace") or None,
        }


class Run:
    def __init__(self, part: str, job: Job, staff: Staff, host: Host, finished: set[Any]) -> None:
        self.part, self.job, self.staff, self.host = part, job, staff, host
        self.limits = job.limits
        self.separate = part == "pytest" and job.seat == "separate"
        self.started = self.measured = time.monotonic()
        self.reaper = Reaper(staff.settings, job.users, staff.pids)
        self.meter = Meter(staff.settings, self.limits, self.reaper)
        self.before = finished
        self.readers: dict[int, Callable[[bytes], None]] = {}
        self.events = frames.Decoder(LARGEST_EVENT)
        self.sequence = 0
        self.event_bytes = 0
        self.current: str | None = None
        self.current_since = 0.0
        self.asked = 0.0
        self.preparing_since: float | None = None
        """When the judge began to import what it had not needed before; the host's patience is the limit for that."""
        self.finished: set[Any] = set()
        self.garbled: str | None = None
        self.stopped: str | None = None
        self.stopped_at = 0.0
        self.output = output.Output(self.limits["output_kb"] * 1024)
        self.candidate: Child | None = None
        self.candidates: list[dict[str, Any]] = []
        self.leftover = 0
        self.control: _socket.socket | None = None
        self.lost = self.wanted = False
        """What the judge has said: that it has lost its candidate, that it wants another one."""

    def to_the_end(self) -> dict[str, Any]:
        self._start()
        try:
            while not self.main.ended:
                self._wait(TICK)
                if self.stopped is None:
                    self._enforce()
                elif time.monotonic() > self.stopped_at + PATIENCE:
                    self.main.zygote.kill()  # it does not tell of its child: it has been stopped, too
            leftover = self._kill_all()
            self._drain()
        finally:
            self._close()
        return self._evidence(leftover)

    # --- starting -----------------------------------------------------------

    def _start(self) -> None:
        if not self.separate:
            self.main = self._fork(self.part, {"events": self._on_events}, {})
            return
        self.control, theirs = light.pair()
        requests, answers = os.pipe(), os.pipe()
        ends = {"requests": requests[1], "answers": answers[0], "control": theirs.detach()}
        self.main = self._fork("judge", {"events": self._on_events}, ends)
        self._start_candidate(requests[0], answers[1])

    def _start_candidate(self, requests: int, answers: int) -> None:
        self.candidate = self._fork("candidate", {}, {"requests": requests, "answers": answers})

    def _fork(self, role: str, heard: dict[str, Callable[[bytes], None]], ends: dict[str, int]) -> Child:
        """Start a process that has these ends of pipes, and others of which we read what it says."""
        pipes = {name: os.pipe() for name in (*heard, "stdout", "stderr", "stack")}
        ends = {"job": self.job.copy_for(role, self.before), **ends, **{name: pipes[name][1] for name in pipes}}
        forked = Child(self.staff.zygote(role), role, self.job.user(role), ends)
        for fd in ends.values():
            os.close(fd)
        readers = {**heard, "stdout": self.output.add, "stderr": self.output.add, "stack": forked.on_stack}
        for name, (fd, _) in pipes.items():
            os.set_blocking(fd, False)
            self.readers[fd] = readers[name]
        return forked

    # --- watching -----------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        links = {each.zygote.fd: each for each in (self.main, self.candidate) if each and not each.ended}
        ready, _, _ = select.select([*self.readers, *links, self.host.fd, self.staff.wake], [], [], seconds)
        for fd in ready:
            if fd in links:
                links[fd].listen()
            elif fd == self.host.fd:
                self.host.check()
            elif fd == self.staff.wake:
                self.staff.woken()
                self.reaper.reap()
            else:
                self._read(fd)
        if self.candidate and self.candidate.ended:
            self._candidate_ended(None)
        if self.lost:
            self.lost = False
            self._end_candidate("lost")
            self._answer(b"ended")
        if self.wanted:
            self._replace_candidate()

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, 1 << 18)
        except BlockingIOError:
            return False
        if not data:
            os.close(fd)
            del self.readers[fd]
            return False
        self.readers[fd](data)
        return True

    def _on_events(self, data: bytes) -> None:
        if self.garbled:
            return
        self.event_bytes += len(data)
        try:
            for payload in self.events.payloads(data):
                event = frames.parse(payload)
                self._check(event)
                kind = event.get("e")
                if kind == "lost_candidate" and self.separate:
                    self.lost = True
                elif kind == "new_candidate" and self.separate:
                    self.wanted = True
                elif kind == "preparing" and self.separate:
                    self.preparing_since = time.monotonic()
                elif kind == "prepared" and self.preparing_since is not None:
                    self._forgive(time.monotonic() - self.preparing_since)
                else:
                    self._note(event)
                    self.host.pass_on(self.part, payload)
        except frames.FrameError as exc:
            self.garbled = str(exc)
        self.host.flush()

    def _check(self, event: dict[str, Any]) -> None:
        if event.get("n") != self.sequence:
            raise frames.FrameError(f"an event is out of turn: expected number {self.sequence}")
        self.sequence += 1
        if not isinstance(event.get("id", ""), str):
            raise frames.FrameError("an event's test id is not a string")

    def _note(self, event: dict[str, Any]) -> None:
        kind = event.get("e")
        if kind == "start":
            self.current, self.current_since, self.asked = event.get("id"), time.monotonic(), 0.0
        elif kind == "stop":
            self.finished.add(event.get("id"))
            self.current = None
        self.output.add_captured(event.get("out", 0))

    def _forgive(self, seconds: float) -> None:
        """What the judge has spent on itself is not the job's time."""
        self.preparing_since = None
        self.job.deadline += seconds
        self.current_since += seconds

    def _enforce(self) -> None:
        now = time.monotonic()
        if self.garbled:
            return self._stop("garbled")
        preparing = self.preparing_since is not None
        if now > self.job.deadline and not preparing:
            return self._stop("wall", where=True)
        if self.output.over or self.event_bytes > MOST_EVENT_BYTES:
            return self._stop("output")
        if now - self.measured >= TICK:
            self.measured = now
            over = self.meter.over()
            if over:
                return self._stop(over, where=over == "cpu")
        if self.current and not self.job.workers and not preparing:
            return self._enforce_test(now)
        return None

    def _enforce_test(self, now: float) -> None:
        spent = now - self.current_since - self.limits["test_seconds"]
        if spent > GRACE:
            self._stop("test", where=True)
        elif spent > 0 and now - self.asked > 0.25:
            self.asked = now
            if self.candidate:
                # Most likely the judge waits for it, and goes on without it: it is asked only if it does not.
                self._end_candidate("test", where=True)
            else:
                self.main.signal(child.SIGNAL_TIME)

    def _stop(self, why: str, where: bool = False) -> None:
        self.stopped, self.stopped_at = why, time.monotonic()
        if self.candidate:
            self._end_candidate(why, where)  # where the judge is meanwhile, which waits for it, tells nobody anything
        elif where:
            self._ask_where(self.main)
        self.main.signal(signal.SIGKILL)

    def _ask_where(self, asked: Child) -> None:
        asked.signal(child.SIGNAL_STACK)
        until, heard = time.monotonic() + GRACE, -1
        # It is written line by line: complete when a moment passes without another one.
        while time.monotonic() < until and len(asked.stack) > heard and not asked.ended:
            heard = len(asked.stack) if asked.stack else -1
            self._wait(0.05)

    # --- the candidate --------------------------------------------------------

    def _end_candidate(self, why: str, where: bool = False) -> None:
        """End it with all that it has started; the judge goes on without it."""
        ending = self.candidate
        if ending is None:
            return
        if where:
            self._ask_where(ending)
        ending.signal(signal.SIGKILL)
        while not ending.ended:
            ending.listen()
        self._candidate_ended(why)

    def _candidate_ended(self, why: str | None) -> None:
        ended, self.candidate = self.candidate, None
        if ended is None:
            return
        if ended.pid is not None and ended.status is not None:
            self.reaper.account(ended.pid, ended.status, *ended.usage)
        self._kill_candidates_processes()
        ending = ended.ending()
        by_us = ending["signal"] == signal.SIGKILL  # else it was faster
        self.candidates.append({**ending, "stopped": why if by_us else None, "during": self.current})

    def _kill_candidates_processes(self) -> None:
        if self.main.pid is not None:
            self.leftover += self.reaper.kill_user(self.job.user("candidate"), self.main.pid)

    def _replace_candidate(self) -> None:
        """What the judge asked for: one that finds nothing of the one before; or the word that there is none."""
        self.wanted = False
        self._end_candidate("replaced")
        assert self.control is not None
        if self.stopped is not None or len(self.candidates) > MOST_CANDIDATES:
            return self._answer(b"none")
        cleaning.remove_candidate(self.staff.settings, self.job.user("candidate"))
        requests, answers = os.pipe(), os.pipe()
        self._start_candidate(requests[0], answers[1])
        self._answer(b"new", requests[1], answers[0])
        return None

    def _answer(self, what: bytes, *ends: int) -> None:
        assert self.control is not None
        try:
            light.send(self.control, what, ends, wait=False)
        except OSError:
            pass  # it has ended
        for fd in ends:
            os.close(fd)

    # --- ending -------------------------------------------------------------

    def _kill_all(self) -> int:
        if self.main.pid is not None and self.main.status is not None:
            self.reaper.account(self.main.pid, self.main.status, *self.main.usage)
        if self.candidate:
            self._end_candidate("end")
        return self.leftover + self.reaper.kill_all()

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
                if self.stopped is None and self.main.status == 0:
                    self.garbled = str(exc)

    def _close(self) -> None:
        for fd in self.readers:
            os.close(fd)
        if self.control is not None:
            self.control.close()

    def _evidence(self, leftover: int) -> dict[str, Any]:
        evidence: dict[str, Any] = {
            **self.main.ending(),
            "stopped": self.stopped,
            "stopped_at": self.current,
            "wall_seconds": time.monotonic() - self.started,
            "cpu_seconds": self.reaper.cpu_seconds,
            "output_bytes": self.output.total,
            "output": self.output.text(),
            "leftover_processes": leftover,
            "garbled": self.garbled,
            "candidates": self.candidates,
        }
        if self.stopped and self.candidates:
            evidence["stack"] = evidence["stack"] or self.candidates[-1]["stack"]
        evidence.update(self.meter.evidence())
        return evidence


def merge(earlier: dict[str, Any] | None, later: dict[str, Any]) -> dict[str, Any]:
    """Evidence of two runs of one part: how the last ended, what both used."""
    if earlier is None:
        return later
    for key in ("wall_seconds", "cpu_seconds", "output_bytes", "leftover_processes"):
        later[key] += earlier[key]
    later["peak_memory_mb"] = max(earlier["peak_memory_mb"], later["peak_memory_mb"])
    later["oom_kills"] = max(earlier["oom_kills"], later["oom_kills"])
    later["output"] = (earlier["output"] + later["output"])[-output.KEPT :]
    for key in ("processes_denied", "disk_full"):
        later[key] = earlier[key] or later[key]
    later["garbled"] = earlier["garbled"] or later["garbled"]
    later["candidates"] = earlier["candidates"] + later["candidates"]
    return later
