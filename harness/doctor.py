"""What this machine can do, what is missing, and the exact step that fixes it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from runners import bubblewrap, cgroup
from runners.contract import RunnerUnavailable

__all__ = ["Finding", "examine"]


@dataclass(frozen=True)
class Finding:
    subject: str
    good: bool
    seen: str
    step: str = ""
    """What to do about it; empty if nothing is to be done."""
    sandbox: bool = False
    """Whether this gives a sandbox by itself."""


async def examine() -> list[Finding]:
    return [_python(), await asyncio.to_thread(_bubblewrap), _cgroup(), *await _docker()]


def _python() -> Finding:
    return Finding("python", True, f"{sys.version.split()[0]} at {sys.executable}")


def _bubblewrap() -> Finding:
    reason = bubblewrap.why_not()
    if not reason:
        return Finding("bubblewrap", True, f"makes sandboxes with {bubblewrap.find_bwrap()}", sandbox=True)
    seen, _, step = reason.partition(". ")
    return Finding("bubblewrap", False, seen, step)


def _cgroup() -> Finding:
    found = cgroup.supported()
    if found is not None:
        kind = "version 2" if "unified" in found else "version 1"
        return Finding("cgroup", True, f"{kind}: bubblewrap's memory and process limits are the kernel's")
    return Finding(
        "cgroup",
        False,
        "none that we may use: bubblewrap's limits are measured instead, which also works",
        "For limits by the kernel, run as root or in a delegated cgroup: "
        "`systemd-run --user --scope -p Delegate=yes reproof ...`",
    )


async def _docker() -> list[Finding]:
    from runners.docker import find_engine  # half a second of imports that only this needs

    try:
        engine = await find_engine()
    except RunnerUnavailable as exc:
        seen, _, step = str(exc).removeprefix("docker: ").partition(" Nothing was run. ")
        step = step.partition(", or pass runner=")[0].rstrip(".")  # that advice is for who wanted to run something
        return [Finding("docker", False, seen.rstrip("."), f"{step or 'Start Docker'}.")]
    limits = f"cgroup version {engine.cgroup}" if engine.cgroup else "no cgroup"
    return [Finding("docker", True, f"engine {engine.version} answers, {limits}", sandbox=True)]
