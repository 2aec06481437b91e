"""A sandbox that is a child process of ours: its stdin and stdout are the stream."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence

from . import cgroup as cgroups
from .contract import Autopsy, GuestSettings, Isolation, RunnerLost, RunnerUnavailable

__all__ = ["PipeSandbox", "spawn"]

KEPT_ERRORS = 16_384
LEAVING_SECONDS = 2
NOTICING_SECONDS = 0.2

# Joins the cgroups named before `--` and becomes the program after it. A process that is moved
# only after it has started may have forked already, and its children would stay outside.
_JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 97; shift; done; shift; exec "$@"'


class PipeSandbox:
    """A live sandbox behind two pipes."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        isolation: Isolation,
        settings: GuestSettings,
        cgroup: cgroups.Cgroup | None,
    ) -> None:
        self.isolation = isolation
        self.settings = settings
        self._process = process
        self._cgroup = cgroup
        self._errors = bytearray()
        self._heard = False
        self._listening = asyncio.create_task(self._keep_errors())

    async def read(self) -> bytes:
        assert self._process.stdout is not None
        data = await self._process.stdout.read(1 << 18)
        self._heard = self._heard or bool(data)
        return data

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        # A guest that is gone is noticed by `read`, which also knows why.
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(data)
            await self._process.stdin.drain()

    async def autopsy(self) -> Autopsy:
        status = await self._process.wait()
        await self._listening
        said = self._errors.decode("utf-8", "replace").strip()
        ending = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return Autopsy(
            oom_killed=self._cgroup is not None and self._cgroup.oom_kills() > 0,
            detail=f"It left {ending}" + (f" and said: {said[-2000:]}" if said else "."),
        )

    async def close(self) -> None:
        """Let it end, or else kill it, and wait until it is gone.

        A supervisor whose stream ends kills all that it started before it leaves itself. What
        is killed instead leaves that to the kernel, which may take a moment longer than we do.
        One that has never said anything may not be there yet to notice.
        """
        self._listening.cancel()
        assert self._process.stdin is not None
        self._process.stdin.close()
        ended = await self._ends(LEAVING_SECONDS if self._heard else NOTICING_SECONDS)
        # The whole group: bwrap's child does not die with its parent before it is set up.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if not ended:
            await self._ends(LEAVING_SECONDS)
        # asyncio reports an exit only when the pipes have ended, too, and one that is full never does.
        self._process._transport.close()  # type: ignore[attr-defined]  # there is no other way to close them
        await self._process.wait()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening

    async def _ends(self, seconds: float) -> bool:
        """Whether it does within that time: whoever is left holds its stdout."""
        try:
            async with asyncio.timeout(seconds):
                while await self.read():
                    pass
                await self._process.wait()
        except TimeoutError:
            return False
        return True

    async def _keep_errors(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(4096):
            self._errors = (self._errors + data)[-KEPT_ERRORS:]


@contextlib.asynccontextmanager
async def spawn(
    command: Sequence[str],
    environment: dict[str, str],
    isolation: Isolation,
    settings: GuestSettings,
    cgroup: cgroups.Cgroup | None,
    pass_fds: Sequence[int] = (),
) -> AsyncIterator[PipeSandbox]:
    """Start a program inside a cgroup, as a sandbox; it is gone when this ends."""
    if cgroup is not None:
        joined = [str(folder) for folder in cgroup.folders.values()]
        command = ["/bin/sh", "-c", _JOIN, "sh", *joined, "--", *command]
    starting = asyncio.create_task(_start(command, environment, pass_fds))
    try:
        # Cancelled half way, asyncio would wait for pipes that a child may hold for ever.
        process = await asyncio.shield(starting)
    except OSError as exc:
        raise RunnerUnavailable(
            isolation.runner, f"{os.path.basename(command[0])} could not be started: {exc}. Nothing was run."
        ) from exc
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await PipeSandbox(await starting, isolation, settings, cgroup).close()
        raise
    sandbox = PipeSandbox(process, isolation, settings, cgroup)
    try:
        yield sandbox
    except ConnectionError as exc:
        raise RunnerLost(isolation.runner, f"the stream to the guest broke: {exc}") from exc
    finally:
        await asyncio.shield(sandbox.close())


async def _start(
    command: Sequence[str], environment: dict[str, str], pass_fds: Sequence[int]
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd="/",
        start_new_session=True,  # Ctrl-C at the terminal is for us to handle, not for it
        pass_fds=tuple(pass_fds),
        limit=1 << 20,
    )
