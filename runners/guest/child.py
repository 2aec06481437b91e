"""What happens in a job's process before the first line of candidate code, and around it.

In order: a session of its own, only the pipes that it needs, limits, no more
privileges, a private workspace with the job's files. Then pytest, or the cases.
"""

from __future__ import annotations

import base64
import faulthandler
import os
import random
import signal
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from . import frames, privileges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import FrameType
    from typing import Any, NoReturn

    import pytest

SIGNAL_TIME = signal.SIGRTMIN + 5  # "this test has had its time"; raised as an exception in the test
SIGNAL_STACK = signal.SIGRTMIN + 6  # "where are you?"; answered by faulthandler, in C


def folders(settings: dict[str, Any]) -> list[str]:
    """Where a job works, keeps temporary files and is at home."""
    return [os.path.join(settings["workspace"], name) for name in ("work", "tmp", "home")]


preloaded: set[str] = set()
"""Top-level modules that are here only because someone may need them."""


def forget_namesakes(job: dict[str, Any]) -> None:
    """A module of the job that has the name of one that we imported beforehand is the one that is meant."""
    own = {
        path.removeprefix("src/").partition("/")[0].removesuffix(".py") for path, _ in job["submission"] + job["suite"]
    }
    for name in own & preloaded:
        for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
            del sys.modules[loaded]


class Channel:
    """The way out for events: numbered, so that nothing can be slipped in unseen."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._sent = 0
        self._owner = os.getpid()

    def send(self, event: dict[str, Any]) -> None:
        if os.getpid() != self._owner:
            return  # a forked copy of the test process has nothing to report
        event["n"] = self._sent
        self._sent += 1
        data = memoryview(frames.encode(event))
        while data:
            data = data[os.write(self._fd, data) :]


def run(
    part: str,
    job: dict[str, Any],
    settings: dict[str, Any],
    ends: Mapping[str, int],
    shut: Iterable[int],
    ready: pytest.Session | None,
) -> NoReturn:
    """Never returns."""
    status = 70
    try:
        os.setsid()
        _arrange_pipes(ends, shut)
        _reset_signals(ends["stack"])
        workspace = _prepare(job, settings)
        channel = Channel(ends["events"])
        _write_files(job["suite"], workspace)
        channel.send({"e": "ready"})  # from here on it is the candidate's doing
        try:
            _write_files(job["submission"], workspace)
        except OSError as exc:
            channel.send({"e": "misfit", "errno": exc.errno, "message": str(exc)})
            raise
        if part == "cases":
            from . import calls

            calls.run(job, workspace, channel)
        else:
            from . import testing

            testing.run(job, workspace, channel, ready)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        # Not sys.exit: neither atexit handlers nor threads of the candidate get another word.
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            pass
        os._exit(status)


def _arrange_pipes(ends: Mapping[str, int], shut: Iterable[int]) -> None:
    for fd in shut:
        os.close(fd)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(ends["stdout"], 1)
    os.dup2(ends["stderr"], 2)
    for fd in (null, ends["stdout"], ends["stderr"]):
        os.close(fd)
    _own_descriptors({ends["events"], ends["stack"]})
    sys.stdin = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = open(  # type: ignore[misc]
        1, "w", buffering=1, closefd=False, errors="backslashreplace"
    )
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc]
        2, "w", buffering=1, closefd=False, errors="backslashreplace"
    )


def _own_descriptors(keep: set[int]) -> None:
    """What was open before this job is shared with other jobs, flags and offsets included: replace it."""
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd != null and fd not in keep:
            try:
                os.fstat(fd)
            except OSError:
                continue  # the listing's own
            os.dup2(null, fd, inheritable=False)
    os.close(null)


def _reset_signals(stack_fd: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.register(SIGNAL_STACK, file=stack_fd, all_threads=True)


def _prepare(job: dict[str, Any], settings: dict[str, Any]) -> str:
    privileges.give_up(job["limits"], settings)
    workspace, temporary, home = folders(settings)
    for folder in (workspace, temporary, home):
        os.makedirs(folder, exist_ok=True)
    os.environ.clear()
    os.environ.update(_variables(job, temporary, home))
    time.tzset()
    tempfile.tempdir = None
    os.chdir(workspace)
    forget_namesakes(job)
    random.seed(job["seed"])
    return workspace


def _variables(job: dict[str, Any], temporary: str, home: str) -> dict[str, str]:
    variables = {
        "HOME": home,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TMPDIR": temporary,
        "TZ": "UTC",
    }
    variables.update(job["variables"])
    return variables


def _write_files(files: list[list[str]], workspace: str) -> None:
    for path, data in files:
        target = os.path.join(workspace, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "xb") as file:  # what is there stays: the suite's files come first
            file.write(base64.b64decode(data))


class OutOfTime(BaseException):
    """This test has had its time. Not an Exception: a candidate's own `except Exception` must not eat it."""


class TestClock:
    """Raises OutOfTime inside a test when the supervisor says that its time is up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running = False

    def arm(self) -> None:
        signal.signal(SIGNAL_TIME, self._ring)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self.running:  # it may come a moment late, when the test is already over
            raise OutOfTime(f"the test ran longer than its {self.seconds:g} seconds")
