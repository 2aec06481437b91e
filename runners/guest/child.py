"""What happens in a job's process before the first line of candidate code, and around it.

In order: its job, a session of its own, only the pipes that it needs, limits, no more
privileges, a private workspace with the job's files. Then what its role is:

    cases       calls what the cases name
    pytest      runs the suite, with the submission in the same interpreter
    judge       runs the suite, and reaches the submission through a candidate
    candidate   holds the submission, and answers a judge
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import select
import sys
import time

from . import frames, importer, privileges
from .light import from_base64, json_reader, signal

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import FrameType
    from typing import Any, NoReturn

    import pytest

ENDS = {
    "cases": ("job", "events", "stdout", "stderr", "stack"),
    "pytest": ("job", "events", "stdout", "stderr", "stack"),
    "judge": ("job", "requests", "answers", "control", "events", "stdout", "stderr", "stack"),
    "candidate": ("job", "requests", "answers", "stdout", "stderr", "stack"),
}
"""The descriptors that are handed to a process in each role."""
SIGNAL_TIME = signal.SIGRTMIN + 5  # "this test has had its time"; raised as an exception in the test
SIGNAL_STACK = signal.SIGRTMIN + 6  # "where are you?"; answered by faulthandler, in C


def folders(role: str, settings: dict[str, Any]) -> list[str]:
    """Where such a process works, keeps temporary files and is at home."""
    root = settings["workspace"]
    # Tests run in the same folder in either seat, which is the one that pytest's session is prepared for.
    work = os.path.join(root, "candidate" if role == "candidate" else "work")
    others = os.path.join(root, "judge") if role == "judge" else root
    return [work, os.path.join(others, "tmp"), os.path.join(others, "home")]


preloaded: set[str] = set()
"""Top-level modules that are here only because someone may need them."""


def note_preloads(needed: set[str]) -> None:
    """All that was imported since these were."""
    preloaded.update(name.partition(".")[0] for name in set(sys.modules) - needed)


def preload(name: str) -> None:
    """Import a module of ours, with all that it needs."""
    needed = set(sys.modules)
    importlib.import_module("." + name, __package__)
    note_preloads(needed)


judges_modules: list[str] = []
"""Modules inside of packages that only a judge needs: where there is none, their packages do not have them."""


def note_judges_modules(others: set[str]) -> None:
    inside = (name for name in set(sys.modules) - others if "." in name)
    judges_modules.extend(name for name in inside if name.partition(".")[0] != __name__.partition(".")[0])


def _without_judges_modules() -> None:
    """What a test has not imported is not there, as in an interpreter that has imported nothing beforehand."""
    for name in judges_modules:
        package, _, attribute = name.rpartition(".")
        del sys.modules[name]
        vars(sys.modules[package]).pop(attribute, None)


NOT_FOR_SUBMISSIONS = frozenset(getattr(sys, "stdlib_module_names", ())) | {
    *("_pytest", "pytest", "pluggy", "hypothesis", "_hypothesis_pytestplugin", "_hypothesis_globals"),
    *("pytest_asyncio", "xdist", "execnet", "reproof_guest"),
}
"""What tests are run with. A suite may have a module of such a name; a submission's does not take its place."""


def own(files: list[list[str]]) -> set[str]:
    """The names by which such files are imported."""
    return {path.removeprefix("src/").partition("/")[0].removesuffix(".py") for path, _ in files}


def claimed(job: dict[str, Any]) -> frozenset[str]:
    """Names of what tests are run with that the submission has files for, and the suite has not."""
    return frozenset((own(job["submission"]) & NOT_FOR_SUBMISSIONS) - own(job["suite"]))


def forget_namesakes(job: dict[str, Any]) -> None:
    """A module of the job that has the name of one that we imported beforehand is the one that is meant."""
    names = (own(job["submission"]) | own(job["suite"])) - claimed(job)
    for name in names & preloaded:
        for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
            del sys.modules[loaded]


class Channel:
    """The way out for events: numbered and sealed, so that nothing can be slipped in unseen.

    `hold` says an event with the next one: each write wakes two others, and costs as much as a small
    test. Only for what no candidate code can follow before that, or what would not be missed. `flush`
    says what is held, and `send` both.
    """

    def __init__(self, fd: int, key: str) -> None:
        self.hold, self.flush = _ways_out(fd, frames.Seal(key))

    def send(self, event: dict[str, Any]) -> None:
        self.hold(event)
        self.flush()


def _ways_out(fd: int, seal: frames.Seal) -> tuple[Callable[[dict[str, Any]], None], Callable[[], None]]:
    """They hold what they need themselves: no descriptor, counter or function is an attribute of anything."""
    getpid, write, encode, seal_of = os.getpid, os.write, frames.encode, seal.of
    owner = getpid()
    number = 0
    held = b""

    def hold(event: dict[str, Any]) -> None:
        nonlocal number, held
        event["s"] = seal_of(event, number)
        event["n"] = number
        number += 1
        held += encode(event)

    def flush() -> None:
        nonlocal held
        data, held = held, b""
        while data and getpid() == owner:  # a forked copy of the test process has nothing to report
            data = data[write(fd, data) :]

    return hold, flush


_SPEAKING = frozenset(part for part in _ways_out.__code__.co_consts if hasattr(part, "co_code"))
"""The code of both: who is in it must come to its end, or half an event is told."""


def _is_speaking(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _SPEAKING:
            return True
        frame = frame.f_back
    return False


def run(
    role: str,
    uid: int | None,
    fds: Sequence[int],
    inherited: Iterable[int],
    settings: dict[str, Any],
    ready: pytest.Session | None,
) -> NoReturn:
    """Never returns. `inherited` are the descriptors of the zygote's."""
    status = 70
    try:
        os.setsid()
        ends = dict(zip(ENDS[role], fds))  # noqa: B905  # 3.9
        job = _read_job(ends["job"])
        _arrange_pipes(ends, inherited)
        _reset_signals(ends["stack"])
        workspace = _prepare(role, uid, job, settings)
        _ROLES[role](job, workspace, ends, ready)
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


def _cases(job: dict[str, Any], workspace: str, ends: Mapping[str, int], ready: pytest.Session | None) -> None:
    from . import calls

    calls.run(job, workspace, _with_files(job, workspace, ends))


def _pytest(job: dict[str, Any], workspace: str, ends: Mapping[str, int], ready: pytest.Session | None) -> None:
    from . import testing

    _without_judges_modules()
    testing.run(job, workspace, _with_files(job, workspace, ends), ready)


def _judge(job: dict[str, Any], workspace: str, ends: Mapping[str, int], ready: pytest.Session | None) -> None:
    from . import judging

    channel = Channel(ends["events"], job.pop("key"))
    if not job["direct"]:  # whose module comes compiled, and is looked for on disk by nobody
        write_files(job["suite"], workspace)
    channel.send({"e": "ready"})
    judging.run(job, workspace, channel, ready, ends["requests"], ends["answers"], ends["control"])


def _candidate(job: dict[str, Any], workspace: str, ends: Mapping[str, int], ready: pytest.Session | None) -> None:
    from . import candidate

    # The disk is one for both: the suite's files, without which there is no judge, have their place first.
    select.select([ends["requests"]], [], [])
    write_files(job["submission"], workspace)
    candidate.serve(job, workspace, ends["requests"], ends["answers"])


_ROLES = {"cases": _cases, "pytest": _pytest, "judge": _judge, "candidate": _candidate}


def _with_files(job: dict[str, Any], workspace: str, ends: Mapping[str, int]) -> Channel:
    """The channel for events, when the job's files are in place."""
    channel = Channel(ends["events"], job.pop("key"))
    write_files(job["suite"], workspace)
    channel.send({"e": "ready"})  # from here on it is the candidate's doing
    try:
        write_files(job["submission"], workspace)
    except OSError as exc:
        channel.send({"e": "misfit", "errno": exc.errno, "message": str(exc)})
        raise
    return channel


def _read_job(fd: int) -> dict[str, Any]:
    with open(fd, "rb") as file:
        read = json_reader()
        file.seek(0)
        task, key, submission, suite, code, finished = (read(line.rstrip(b"\n")) for line in file)
    return dict(task, key=key, submission=submission, suite=suite, code=code, finished=finished)


def _arrange_pipes(ends: Mapping[str, int], inherited: Iterable[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(ends["stdout"], 1)
    os.dup2(ends["stderr"], 2)
    for fd in inherited:  # shared with other jobs, flags and offsets included
        if fd > 2:
            os.dup2(null, fd, inheritable=False)
    for fd in (null, ends["stdout"], ends["stderr"]):
        os.close(fd)
    sys.stdin = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = open(  # type: ignore[misc]
        1, "w", buffering=1, closefd=False, errors="backslashreplace"
    )
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc]
        2, "w", buffering=1, closefd=False, errors="backslashreplace"
    )


def _reset_signals(stack_fd: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.register(SIGNAL_STACK, file=stack_fd, all_threads=True)


def _prepare(role: str, uid: int | None, job: dict[str, Any], settings: dict[str, Any]) -> str:
    privileges.give_up(job["limits"], settings, uid, trusted=role == "judge")
    workspace, temporary, home = folders(role, settings)
    if role == "judge":
        for folder in (workspace, os.path.dirname(home), temporary, home):
            os.mkdir(folder, 0o700)
    else:
        for folder in (workspace, temporary, home):
            os.makedirs(folder, exist_ok=True)
    _set_variables(_variables(job, temporary, home))
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None
    os.chdir(workspace)
    forget_namesakes(job)
    importer.keep_meaning(claimed(job), list(sys.path))
    if "random" not in own(job["suite"]):
        importer.when_imported("random", lambda: sys.modules["random"].seed(job["seed"]))
    return workspace


def _set_variables(variables: dict[str, str]) -> None:
    """These, and no others; most are what they were in the zygote already."""
    environ, zone = os.environ, os.environ.get("TZ")
    for name in [name for name in environ if name not in variables]:
        del environ[name]
    for name, value in variables.items():
        if environ.get(name) != value:
            environ[name] = value
    if variables["TZ"] != zone:
        time.tzset()


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


def write_files(files: list[list[str]], workspace: str) -> None:
    for path, data in files:
        target = os.path.join(workspace, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "xb") as file:  # what is there stays: the suite's files come first
            file.write(from_base64(data))


_now = time.monotonic  # whatever a test makes of it


class OutOfTime(BaseException):
    """This test has had its time. Not an Exception: a candidate's own `except Exception` must not eat it."""


class TestClock:
    """Raises OutOfTime inside a test when the supervisor says that its time is up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running = False
        self._began = 0.0

    def arm(self) -> None:
        signal.signal(SIGNAL_TIME, self._ring)

    def begin(self) -> None:
        """A test of its own, with all of its time."""
        self._began = _now()
        self.running = True

    def stop(self) -> None:
        self.running = False

    def _ring(self, number: int, frame: FrameType | None) -> None:
        # It may come a moment late, when the test is over or another one has begun. It is rung again.
        if self.running and _now() - self._began >= self.seconds and not _is_speaking(frame):
            raise OutOfTime(f"the test ran longer than its {self.seconds:g} seconds")
