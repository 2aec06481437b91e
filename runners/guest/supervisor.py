"""The guest's first process, the only one that is trusted with everything: takes jobs, watches, gives evidence.

It runs no candidate code, and nothing that does is forked from it: it has seen every job.
That is done by its staff, two zygotes. What it says to the host:

    hello   → versions; sent once, when it is ready
    event   → what a job's process reported, as it happens
    end     → how one part of the job ended, with evidence
    done    → nothing of the job is left, or (`clean` is false) we are not sure of that

Where it is pid 1 of a pid namespace, nothing inside can signal it. It is a subreaper,
so that a process that was daemonised comes back to it.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time
from _frozen_importlib_external import MAGIC_NUMBER

from . import child, cleaning, frames, installed, privileges, reaping
from .light import signal
from .watching import Run, merge
from .zygote import Zygote, ZygoteLost

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

MOST_RESTARTS = 20


def main(settings: dict[str, Any]) -> None:
    wire_in, wire_out = _take_the_wire()
    privileges.watch_over()
    # As pid 1 it is deaf to all that it has no handler for; Python comes with one for SIGINT.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    host = Host(wire_in, wire_out)
    status = 0
    try:
        staff = Staff(settings, (wire_in, wire_out))
        gc.enable()  # which waited until all is imported
        host.send(staff.hello(host))
        _serve(staff, host)
    except HostGone:
        pass
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    finally:
        reaping.kill_everything(settings["private"])
        os._exit(status)  # nothing here is worth the time that an interpreter takes to leave


def _serve(staff: Staff, host: Host) -> None:
    """One job after the other, until the host is gone."""
    number = 0
    while True:
        command = host.command()
        if command == b"P":
            host.send({"type": "pong"})
        else:
            job = Job(host, staff.users(number))
            staff.get_ready(job, host)
            Work(job, staff, host).to_the_end()
            number += 1


def _take_the_wire() -> tuple[int, int]:
    """Move stdin and stdout out of reach of anything that prints or reads."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return wire_in, wire_out


class HostGone(Exception):
    """The stream to the host has ended; so does everything here."""


class Host:
    def __init__(self, wire_in: int, wire_out: int) -> None:
        self.fd = wire_in
        self._out = wire_out
        self._decoder = frames.Decoder()
        self._waiting: list[bytes] = []
        self._said = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        self._said += frames.encode(message)
        self.flush()

    def pass_on(self, part: str, event: bytes) -> None:
        """Say, with the next flush, what one of a job's processes said; its JSON has been checked."""
        self._said += frames.seal(b'{"type":"event","part":"%s","event":%s}' % (part.encode(), event))

    def flush(self) -> None:
        data, self._said = memoryview(self._said), bytearray()
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

    def receive(self) -> bytes:
        while not self._waiting:
            data = os.read(self.fd, 1 << 20)
            if not data:
                raise HostGone
            self._waiting.extend(self._decoder.payloads(data))
        return self._waiting.pop(0)

    def wait_for(self, fd: int) -> None:
        """Wait until something can be read from there, as long as the host does."""
        while fd not in (found := select.select([fd, self.fd], [], [])[0]):
            if found:
                self.check()

    def check(self) -> None:
        """The host says nothing while a job runs; what can be read is its end."""
        if not os.read(self.fd, 1):
            raise HostGone


class Job:
    """What the supervisor knows of a job: how to run it. What is in it goes unread to its processes."""

    def __init__(self, host: Host, users: tuple[int, ...]) -> None:
        about = frames.parse(host.receive())
        self._task, self._key, self._submission, self._suite, self._code = [host.receive() for _ in range(5)]
        self.users = users
        self.parts: list[str] = about["parts"]
        self.seat: str = about["seat"]
        self.direct: bool = about["direct"]
        self.last: bool = about["last"]
        self.workers: int = about["workers"]
        self.limits: dict[str, Any] = about["limits"]
        self.deadline = 0.0

    def user(self, role: str) -> int | None:
        """Who such a process becomes; None where there is one user id for all."""
        return self.users[role == "judge"] if self.users else None

    def copy_for(self, role: str, finished: set[Any]) -> int:
        """A descriptor from which a process reads as much of the job as it may know."""
        submission = b"[]" if role == "judge" else self._submission
        suite, key = (b"[]", b"null") if role == "candidate" else (self._suite, self._key)
        code = self._code if role == "judge" else b"{}"
        fd = os.memfd_create("job")
        with open(fd, "wb", closefd=False) as file:
            file.write(b"\n".join((self._task, key, submission, suite, code, frames.dump(sorted(finished)))))
        return fd


class Staff:
    """Our own processes in the sandbox, and what they have to know of it."""

    def __init__(self, settings: dict[str, Any], wire: tuple[int, int]) -> None:
        # The last of the ids is nobody's: see `privileges.acting_as`.
        self.settings = dict(settings, bystander=(settings["uid"] or 0) + settings["uids"] - 1)
        if settings["preloads"] is None:  # what judge and candidate both need is imported once for both
            child.preload("candidate")
        self._zygotes = {kind: Zygote(kind, self.settings, wire) for kind in ("pytest", "lean")}
        self.pids = frozenset(zygote.pid for zygote in self._zygotes.values())
        self.wake, self._alarm = os.pipe()
        for fd in (self.wake, self._alarm):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def hello(self, host: Host) -> dict[str, Any]:
        """What is here; said when everything is ready, or, with nothing to prepare, as soon as that is known."""
        hello = {"type": "hello", "python": "%d.%d.%d" % sys.version_info[:3], "pytest": None, "missing": None}
        hello["magic"] = MAGIC_NUMBER.hex()
        hello["folder"] = child.folders("judge", self.settings)[0]
        if self.settings["preloads"] is None:
            hello.update(installed.pytest())
        for zygote in self._zygotes.values() if not hello["pytest"] else ():
            host.wait_for(zygote.fd)
            hello.update((name, found) for name, found in zygote.greeting().items() if found)
        return hello

    def zygote(self, role: str) -> Zygote:
        return self._zygotes["pytest" if role in ("pytest", "judge") else "lean"]

    def get_ready(self, job: Job, host: Host) -> None:
        """See that what this job needs is imported, so that its own time begins when it does."""
        zygote = self._zygotes["pytest"]
        if "pytest" in job.parts and not (zygote.ready or job.direct):
            zygote.wake()
            host.wait_for(zygote.fd)
            zygote.greeting()

    def users(self, number: int) -> tuple[int, ...]:
        """A candidate's and a judge's user id, the same for no two jobs; none where there is one id for all."""
        if self.settings["uid"] is None:
            return ()
        first = self.settings["uid"] + number * 2 % (self.settings["uids"] - 2)
        return (first, first + 1)

    def woken(self) -> None:
        """A child of ours has ended: an orphan that came to us, or one of the zygotes."""
        try:
            os.read(self.wake, 4096)
        except BlockingIOError:
            pass

    @property
    def complete(self) -> bool:
        return not any(zygote.lost for zygote in self._zygotes.values())


class Work:
    """One job: its parts one after the other, each in a sandbox that holds nothing of the one before."""

    def __init__(self, job: Job, staff: Staff, host: Host) -> None:
        self.job, self.staff, self.host = job, staff, host
        job.deadline = time.monotonic() + job.limits["wall_seconds"]
        # Nobody can vouch for a sandbox in which jobs have our own user id.
        self.clean = bool(job.users)

    def to_the_end(self) -> None:
        for index, part in enumerate(self.job.parts):
            if index:
                self._clean_up()
            self.host.send({"type": "end", "part": part, "evidence": self._run(part)})
        if not self.job.last and self.clean:
            self._clean_up()
        self.host.send({"type": "done", "clean": self.clean})

    def _clean_up(self) -> None:
        """Else a file that one process wrote could configure the next: a conftest.py, for instance."""
        self.clean = cleaning.clean(self.staff.settings, self.job.users, self.staff.pids) and self.clean

    def _run(self, part: str) -> dict[str, Any]:
        """Run one part to its end, in as many runs as tests that would not stop ask for."""
        finished: set[Any] = set()
        evidence: dict[str, Any] | None = None
        restarts = 0
        while True:
            run = Run(part, self.job, self.staff, self.host, finished)
            evidence = merge(evidence, run.to_the_end())
            evidence["restarts"] = restarts
            self._check(run)
            if evidence["stopped"] != "test" or restarts >= MOST_RESTARTS or not run.current:
                return evidence
            if time.monotonic() > self.job.deadline or not self.staff.complete:
                return evidence
            finished |= run.finished | {run.current}
            self._report_stuck(part, run, evidence)
            self._clean_up()
            restarts += 1

    def _check(self, run: Run) -> None:
        self.clean = self.clean and not run.reaper.gave_up
        if self.job.users and not self.staff.complete:
            raise ZygoteLost  # no job can do that: the kernel did, for want of memory

    def _report_stuck(self, part: str, run: Run, evidence: dict[str, Any]) -> None:
        seconds = round(time.monotonic() - run.current_since, 3)
        event = {"e": "stuck", "id": run.current, "stack": evidence["stack"], "seconds": seconds}
        self.host.send({"type": "event", "part": part, "event": event})
