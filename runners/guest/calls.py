"""Declarative cases: call what a case names and send back what came of it.

No expectation ever comes here; the host compares. So this needs no pytest, and
nothing that a candidate could read here would help it.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import time

from . import failures, values
from .child import OutOfTime, TestClock

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import IO, Any, NoReturn

    from .child import Channel

LARGEST_RESULT = 8 * 1024 * 1024
KEPT_TEXT = 1024 * 1024


def run(job: dict[str, Any], workspace: str, channel: Channel) -> None:
    for folder in (os.path.join(workspace, "src"), workspace):
        if os.path.isdir(folder):
            sys.path.insert(0, folder)
    clock = TestClock(job["limits"]["test_seconds"])
    clock.arm()
    describe = failures.Describer(workspace, suite=())
    finished = set(job["finished"])
    for call in job["calls"]:
        if call["id"] in finished:
            continue
        channel.send({"e": "start", "id": call["id"]})
        channel.hold(_one(call, workspace, clock, describe))
        channel.hold({"e": "stop", "id": call["id"]})
    channel.send({"e": "finish", "status": 0})


def _one(call: dict[str, Any], workspace: str, clock: TestClock, describe: failures.Describer) -> dict[str, Any]:
    event: dict[str, Any] = {"e": "case", "id": call["id"]}
    started = time.perf_counter()
    try:
        clock.begin()
        if call.get("program"):
            _program(call, workspace, event)
        else:
            _call(call, event)
    except OutOfTime as exc:
        event["timeout"] = str(exc)
    except BaseException as exc:
        event["failure"] = describe(exc, exc.__traceback__)
    finally:
        clock.stop()
        event["seconds"] = time.perf_counter() - started
    return event


def _call(call: dict[str, Any], event: dict[str, Any]) -> None:
    stream, real = io.StringIO(), (sys.stdout, sys.stdin)
    sys.stdout = stream
    if call.get("stdin") is not None:
        sys.stdin = io.StringIO(call["stdin"])
    try:
        target = _resolve(call)
        result = target(
            *[values.decode(item) for item in call["args"]],
            **{name: values.decode(item) for name, item in call["kwargs"].items()},
        )
        event["value"] = _bounded(values.encode(result))
    finally:
        sys.stdout, sys.stdin = real
        printed = stream.getvalue()
        event["out"] = len(printed)
        event["stdout"] = failures.cut(printed, KEPT_TEXT)


def _resolve(call: dict[str, Any]) -> Any:
    """`package.module.Class.method`: the longest prefix that is a module, then attributes."""
    parts = call["call"].split(".")
    module: Any = None
    rest: list[str] = []
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as exc:
            if exc.name is not None and (name == exc.name or name.startswith(exc.name + ".")) and count > 1:
                continue
            raise
        rest = parts[count:]
        break
    target = module
    if call.get("init") is None:
        for part in rest:
            target = getattr(target, part)
        return target
    for part in rest[:-1]:
        target = getattr(target, part)
    made = target(
        *[values.decode(item) for item in call["init"]],
        **{name: values.decode(item) for name, item in call["init_kwargs"].items()},
    )
    return getattr(made, rest[-1])


def _bounded(encoded: Any) -> Any:
    import json

    size = len(json.dumps(encoded))
    if size > LARGEST_RESULT:
        return {"$object": {"type": "too large", "repr": f"<a value of {size} encoded bytes>"}}
    return encoded


def _program(call: dict[str, Any], workspace: str, event: dict[str, Any]) -> None:
    """Run a file as a program of its own, so that its exit is not ours."""
    import tempfile

    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        source.write((call.get("stdin") or "").encode("utf-8", "surrogateescape"))
        source.seek(0)
        pid = os.fork()
        if pid == 0:
            _become_program(call, workspace, source, printed, errors)
        try:
            _, status = os.waitpid(pid, 0)
        except BaseException:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            raise
        event["exit_code"] = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        event["stdout"], event["stderr"] = _text(printed), _text(errors)
        event["out"] = os.fstat(printed.fileno()).st_size + os.fstat(errors.fileno()).st_size


def _become_program(
    call: dict[str, Any], workspace: str, source: IO[bytes], printed: IO[bytes], errors: IO[bytes]
) -> NoReturn:
    import atexit
    import runpy
    import threading

    status = 1
    try:
        for fd, file in enumerate((source, printed, errors)):
            os.dup2(file.fileno(), fd)
        sys.stdin = open(0, closefd=False)
        sys.stdout = open(1, "w", closefd=False)
        sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")
        sys.argv = [call["program"], *[str(values.decode(item)) for item in call["args"]]]
        atexit._clear()  # what was registered before it is not the program's
        try:
            runpy.run_path(os.path.join(workspace, call["program"]), run_name="__main__")
            status = 0
        except SystemExit as exc:
            status = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
            if isinstance(exc.code, str):
                sys.stderr.write(exc.code + "\n")
        threading._shutdown()  # type: ignore[attr-defined]  # a program ends when its threads have
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            status = status or 1
        os._exit(status & 0xFF)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    data = file.read(LARGEST_RESULT + 1)
    text = data[:LARGEST_RESULT].decode("utf-8", "backslashreplace")
    return failures.cut(text, KEPT_TEXT)
