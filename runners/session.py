"""The conversation with a guest: send it a job, hear events, get evidence.

The same for every runner. Whatever the guest sends is checked before it is
believed; a stream that is garbled, truncated or silent for too long is
`RunnerLost`, never a hang and never a verdict.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from . import guest
from .contract import Evidence, Job, Outcome, RunnerLost, RunnerUnavailable, Sandbox
from .guest import frames

__all__ = ["Event", "run"]

Event = dict[str, Any]

START_SECONDS = 60
"""How long a guest may take to import pytest and say hello."""
GRACE_SECONDS = 30
"""How long past `wall_seconds` a guest may be silent: it has to kill and count what is left."""
MOST_EVENT_BYTES = 512 * 1024 * 1024


async def run(sandbox: Sandbox, job: Job, on_event: Callable[[Event], None] | None = None) -> Outcome:
    """Run the job in this sandbox to its end.

    Raises:
        RunnerUnavailable: the sandbox has no usable Python or pytest; nothing was run.
        RunnerLost: the guest died or garbled its stream; what the job did is unknown.
    """
    wire = _Wire(sandbox)
    clock = time.perf_counter
    begun = clock()
    await sandbox.write(guest.bundle(asdict(sandbox.settings)))
    hello = await wire.receive(START_SECONDS, "to start")
    _check(hello, sandbox.isolation.runner)
    started = clock()
    await sandbox.write(frames.encode(_message(job)))
    sent = clock()
    events, parts, first_test = await _listen(wire, job, on_event)
    ended = clock()
    seconds = {
        "start": started - begun,
        "send": sent - started,
        "collect": (first_test or ended) - sent,
        "run": ended - (first_test or ended),
    }
    return Outcome(tuple(events), parts, sandbox.isolation, seconds, hello)


async def _listen(
    wire: _Wire, job: Job, on_event: Callable[[Event], None] | None
) -> tuple[list[Event], dict[str, Evidence], float | None]:
    events: list[Event] = []
    parts: dict[str, Evidence] = {}
    first_test = None
    deadline = time.monotonic() + job.limits.wall_seconds + GRACE_SECONDS
    while True:
        try:
            message = await wire.receive(deadline - time.monotonic(), "to finish the job")
        except _OutOfMemory as exc:
            # The kernel's own word: the job took all memory, and the guest went with it.
            parts["sandbox"] = Evidence(oom_kills=1, output=exc.detail)
            return events, parts, first_test
        kind = message.get("type")
        if kind == "event" and isinstance(message.get("event"), dict):
            event = {**message["event"], "part": message.get("part")}
            if first_test is None and event.get("e") == "start":
                first_test = time.perf_counter()
            events.append(event)
            if on_event is not None:
                on_event(event)
        elif kind == "end":
            parts[str(message.get("part"))] = wire.evidence(message.get("evidence"))
        elif kind == "done":
            return events, parts, first_test
        else:
            raise wire.lost(f"it sent a message of an unknown kind ({kind!r})")


def _message(job: Job) -> dict[str, Any]:
    return {
        "type": "job",
        "submission": _packed(job.submission),
        "suite": _packed(job.suite),
        "calls": list(job.calls),
        "pytest": bool(job.suite),
        "workers": job.workers,
        "options": list(job.options),
        "seed": job.seed,
        "variables": job.environment.variables,
        "limits": job.limits.model_dump(),
    }


def _packed(files: Mapping[str, bytes]) -> list[list[str]]:
    return [[path, base64.b64encode(data).decode("ascii")] for path, data in files.items()]


def _check(hello: dict[str, Any], runner: str) -> None:
    if hello.get("type") != "hello":
        raise RunnerLost(runner, f"the guest began with {hello.get('type')!r} instead of a greeting.")
    if not hello.get("pytest"):
        raise RunnerUnavailable(
            runner,
            f"the sandbox's Python {hello.get('python')} has no pytest. Nothing was run. "
            "Install pytest in that image, or use the one that `reproof image build` makes.",
        )


class _OutOfMemory(Exception):
    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class _Wire:
    """Frames from a sandbox, one at a time, with a deadline for each."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._decoder = frames.Decoder()
        self._waiting: list[dict[str, Any]] = []
        self._received = 0

    async def receive(self, seconds: float, purpose: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                while not self._waiting:
                    await self._read()
        except TimeoutError:
            raise self.lost(f"it said nothing in the {seconds:.0f} seconds it had {purpose}") from None
        return self._waiting.pop(0)

    async def _read(self) -> None:
        data = await self._sandbox.read()
        if not data:
            autopsy = await self._sandbox.autopsy()
            if autopsy.oom_killed:
                raise _OutOfMemory(autopsy.detail)
            raise self.lost(f"it ended before the job was done. {autopsy.detail}")
        self._received += len(data)
        if self._received > MOST_EVENT_BYTES:
            raise self.lost(f"it sent more than {MOST_EVENT_BYTES} bytes")
        try:
            self._waiting.extend(self._decoder.feed(data))
        except frames.FrameError as exc:
            raise self.lost(f"its stream is garbled: {exc}") from exc

    def evidence(self, data: Any) -> Evidence:
        if not isinstance(data, dict):
            raise self.lost("its evidence is not an object")
        try:
            return Evidence(**data)
        except (ValueError, TypeError) as exc:
            raise self.lost(f"its evidence is malformed: {exc}") from exc

    def lost(self, what: str) -> RunnerLost:
        return RunnerLost(
            self._sandbox.isolation.runner,
            f"the guest was lost: {what}. The sandbox and all in it is gone; what the job did is unknown.",
        )
