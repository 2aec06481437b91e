"""Which runner: the one that was asked for, or the strongest that this machine has.

Never a silent downgrade: `process` is not a sandbox and is only taken by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from . import bubblewrap
from .bubblewrap import BubblewrapRunner
from .contract import Runner, RunnerUnavailable
from .process import ProcessRunner

__all__ = ["NAMES", "choose"]

NAMES = ("auto", "bubblewrap", "docker", "process")

Progress = Callable[[str], None]


async def choose(name: str, progress: Progress | None = None) -> Runner:
    """A runner by name, not yet entered.

    Raises:
        ValueError: there is no runner of that name.
        RunnerUnavailable: `auto`, and this machine has no sandbox.
    """
    if name == "bubblewrap":
        return BubblewrapRunner(progress)
    if name == "docker":
        return _docker(progress)
    if name == "process":
        return ProcessRunner(progress)
    if name == "auto":
        return await _strongest(progress)
    raise ValueError(f"runner: no such runner {name!r}; there are {', '.join(NAMES)}")


async def _strongest(progress: Progress | None) -> Runner:
    from .docker import find_engine  # half a second of imports that not everyone needs

    try:
        await find_engine()
    except RunnerUnavailable as exc:
        no_engine = str(exc)
    else:
        return _docker(progress)
    reason = await asyncio.to_thread(bubblewrap.why_not)
    if not reason:
        return BubblewrapRunner(progress)
    raise RunnerUnavailable("auto", f"this machine has no sandbox.\n  {no_engine}\n  bubblewrap: {reason}")


def _docker(progress: Progress | None) -> Runner:
    from .docker import DockerRunner

    return DockerRunner(progress=progress)
