"""A child process with limits. **Not a sandbox**: for code that you would run anyway.

The candidate runs as the user who calls, sees that user's files and network,
and could kill or deceive what watches it. Useful where the whole machine is
already disposable. Nothing chooses this runner by itself; it is asked for by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

from . import cgroup as cgroups
from . import environments, guest, pipes
from .contract import Environment, GuestSettings, Isolation, Limits, Sandbox

__all__ = ["ProcessRunner"]


class ProcessRunner:
    name = "process"

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        self._progress = progress

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    @contextlib.asynccontextmanager
    async def open(self, environment: Environment, limits: Limits) -> AsyncIterator[Sandbox]:
        folder = await asyncio.to_thread(environments.ensure, self.name, environment.requirements, self._progress)
        cgroup = cgroups.create(limits)
        workspace = tempfile.mkdtemp(prefix="reproof-")
        try:
            settings = GuestSettings(
                workspace=workspace,
                cgroup={name: str(path) for name, path in cgroup.folders.items()} if cgroup else {},
                scratch=(),
                private=False,
                disk="measured",
            )
            command = [str(folder / "bin" / "python"), *guest.COMMAND]
            variables = guest.variables(environment.variables)
            async with pipes.spawn(command, variables, self._isolation(limits, cgroup), settings, cgroup) as sandbox:
                yield sandbox
        finally:
            if cgroup is not None:
                await asyncio.to_thread(cgroup.remove)
            await asyncio.to_thread(shutil.rmtree, workspace, ignore_errors=True)

    def _isolation(self, limits: Limits, cgroup: cgroups.Cgroup | None) -> Isolation:
        means = f"cgroup v{cgroup.version}" if cgroup else "measured"
        return Isolation(
            runner=self.name,
            network="the host's: not isolated",
            filesystem="the host's: not isolated",
            processes=f"the host's: not isolated, at most {limits.processes} ({means})",
            memory=f"{limits.memory_mb} MB ({means})",
            user="the caller's: not isolated",
        )
