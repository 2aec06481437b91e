"""Interpreters that have imported what jobs need, and are forked for each of them.

There are two, started before any job: `pytest` has begun a pytest session, for tests;
`lean` has no pytest in its memory, for candidates alone. Neither sees anything of a job:
an order says which user to become, and hands over descriptors. The child reads its job
from one of them itself, so what it is forked from holds nothing of any other job.

A zygote has one child at a time. It says when it is ready, then for each order the
child's pid, and how it ended.

Each page that a child or its zygote writes to after a fork is copied, be it only to count a
reference. So what is said between orders is a few numbers, and whatever is the same for all
children is done before the first of them.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import struct
import sys
import time

from . import child, frames, light, privileges
from .light import signal

TYPE_CHECKING = False

if TYPE_CHECKING:
    import _socket
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    import pytest

ORDER = struct.Struct("<Bq")
"""A role, by its place in `ROLES`, and a user; no user is less than 0."""
STARTED = struct.Struct("<q")
ENDED = struct.Struct("<qdq")
ROLES = tuple(child.ENDS)
WAKE = b"wake"
LARGEST_MESSAGE = 64 * 1024
MOST_DESCRIPTORS = 16
START_SECONDS = 50.0
TEST_PRELOADS = ("asyncio", "decimal", "difflib", "doctest", "fractions", "hypothesis", "pprint")
LEAN_PRELOADS = (
    *("abc", "array", "asyncio", "base64", "bisect", "cmath", "collections", "contextlib", "copy", "csv"),
    *("dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "io", "itertools"),
    *("json", "math", "numbers", "operator", "pprint", "queue", "random", "re", "statistics", "string", "struct"),
    *("textwrap", "threading", "time", "types", "typing", "unicodedata", "uuid"),
)


class ZygoteLost(Exception):
    """It is not there any more. It does nothing by which it could end, so it was killed."""


class Zygote:
    """As the supervisor sees it."""

    def __init__(self, kind: str, settings: dict[str, Any], shut: Iterable[int]) -> None:
        self._link, theirs = light.pair()
        self.fd = self._link.fileno()
        self.pid = os.fork()
        if self.pid == 0:
            self._link.close()
            _become(kind, theirs, settings, shut)
        theirs.close()
        self.lost = False
        self._asleep = _sleeps(kind, settings)
        self._greeting: dict[str, Any] | None = None

    @property
    def ready(self) -> bool:
        return self._greeting is not None

    def wake(self) -> None:
        """Have it import what it is for, if it has waited with that until it is known to be needed."""
        if self._asleep:
            self._asleep = False
            self._link.send(WAKE)

    def greeting(self) -> dict[str, Any]:
        """What it found when it started: waits until it has."""
        if self._greeting is None:
            self._greeting = frames.parse(self._hear(START_SECONDS))
        return self._greeting

    def order(self, role: str, uid: int | None, ends: Mapping[str, int]) -> None:
        """Fork a child, and give it these descriptors."""
        if not self._asleep:
            self.greeting()
        message = ORDER.pack(ROLES.index(role), -1 if uid is None else uid)
        try:
            light.send(self._link, message, [ends[name] for name in child.ENDS[role]])
        except OSError as exc:
            raise self._gone() from exc

    def started(self, seconds: float) -> int:
        """The pid of the child that was ordered."""
        pid: int = STARTED.unpack(self._hear(seconds))[0]
        return pid

    def ended(self, seconds: float) -> tuple[int, float, int]:
        """How the child has ended: its status, the CPU time and the memory that it has used."""
        status, cpu_seconds, peak_kb = ENDED.unpack(self._hear(seconds))
        return status, cpu_seconds, peak_kb

    def _hear(self, seconds: float) -> bytes:
        self._link.settimeout(seconds)
        try:
            data = b"" if self.lost else self._link.recv(LARGEST_MESSAGE)
        except OSError as exc:
            raise self._gone() from exc
        if not data:
            raise self._gone()
        return data

    def _gone(self) -> ZygoteLost:
        self.lost = True
        return ZygoteLost()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _sleeps(kind: str, settings: dict[str, Any]) -> bool:
    """Where one job is all that there will be, pytest is not imported until that is known to need it."""
    return kind == "pytest" and settings["preloads"] is None


def _become(kind: str, link: _socket.socket, settings: dict[str, Any], shut: Iterable[int]) -> NoReturn:
    try:
        for fd in shut:
            os.close(fd)
        _live(kind, link, settings)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(1)


def _live(kind: str, link: _socket.socket, settings: dict[str, Any]) -> None:
    if _sleeps(kind, settings):
        gc.freeze()
        gc.enable()
        privileges.refuse_calls(settings)
        if not _serve(link, settings, None):
            return
        gc.disable()
    greeting, ready = _warm_up(kind, settings)
    faulthandler.disable()  # pytest has enabled it: a handler for signals that would otherwise be ignored
    # What is here now stays: no collection in a job has to look at it, or copies it by looking.
    if settings["preloads"] is not None:
        gc.collect()
    gc.freeze()
    gc.enable()
    if not _sleeps(kind, settings):
        privileges.refuse_calls(settings)
    link.send(frames.dump(greeting))
    _serve(link, settings, ready)


def _serve(link: _socket.socket, settings: dict[str, Any], ready: pytest.Session | None) -> bool:
    """Fork for each order, until the supervisor is gone or, which is told, calls for something else."""
    inherited = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd != link.fileno() and _is_open(fd)]
    while True:
        message, fds = light.receive(link, LARGEST_MESSAGE, MOST_DESCRIPTORS)
        if not message or message == WAKE:
            return bool(message)
        role, uid = ORDER.unpack(message)
        pid = os.fork()
        if pid == 0:
            link.close()
            child.run(ROLES[role], None if uid < 0 else uid, fds, inherited, settings, ready)
        for fd in fds:
            os.close(fd)
        link.send(STARTED.pack(pid))
        _, status, usage = os.wait4(pid, 0)
        link.send(ENDED.pack(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss))


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


# --- before any job -----------------------------------------------------------


def _warm_up(kind: str, settings: dict[str, Any]) -> tuple[dict[str, Any], pytest.Session | None]:
    """Do what most jobs would otherwise do each for itself."""
    greeting: dict[str, Any] = {"pytest": None, "missing": None, "direct": False}
    if settings["preloads"] is not None:
        os.environ.update(settings["variables"])  # some modules look at them when they are imported
        time.tzset()
    if kind == "lean":
        if settings["preloads"] is not None:
            from . import calls  # noqa: F401

            needed = set(sys.modules)
            greeting["missing"] = _preload(LEAN_PRELOADS, settings)
            from . import candidate  # noqa: F401

            child.note_preloads(needed)
        return greeting, None
    try:
        import pytest
    except ImportError:
        return greeting, None
    from . import testing

    greeting["pytest"] = pytest.__version__
    if settings["preloads"] is None:
        return greeting, None
    needed = set(sys.modules)
    greeting["missing"] = _preload(TEST_PRELOADS, settings)
    testing.preload()
    workspace, temporary, _ = child.folders("pytest", settings)
    ready = testing.prepare(workspace, temporary)
    others = set(sys.modules)
    from . import judging  # noqa: F401

    __import__("unittest.mock")
    child.note_judges_modules(others)
    child.note_preloads(needed)
    greeting["direct"] = ready is not None
    return greeting, ready


def _preload(usual: Sequence[str], settings: dict[str, Any]) -> str | None:
    """Import these and what the environment lists; the name of one of the latter that is not there."""
    missing = None
    if settings["preloads"] is not None:
        for name in (*usual, *settings["preloads"]):
            try:
                __import__(name)
            except ImportError:
                missing = name if name in settings["preloads"] else missing
    return missing
