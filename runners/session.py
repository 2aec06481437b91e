"""The conversation with a guest: send it a job, hear events, get evidence.

The same for every runner. Whatever the guest sends is checked before it is
believed; a stream that is garbled, truncated or silent for too long is
`RunnerLost`, never a hang and never a verdict.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from . import guest, suites
from .contract import Environment, Evidence, Job, Limits, Outcome, Runner, RunnerLost, RunnerUnavailable, Sandbox
from .guest import frames

__all__ = ["Event", "Guest", "open_guest"]

Event = dict[str, Any]
OnEvent = Callable[[Event], None]

START_SECONDS = 60
"""How long a guest may take to import pytest and say hello."""
GRACE_SECONDS = 30
"""How long past `wall_seconds` a guest may be silent: it has to kill and count what is left."""
CLEAN_SECONDS = 30
PING_SECONDS = 5
HARDENED = True
"""False only to measure what it costs."""
DIRECT = True
"""False only to compare with what a session of pytest's says."""
MOST_EVENT_BYTES = 512 * 1024 * 1024


@asynccontextmanager
async def open_guest(
    runner: Runner, environment: Environment, limits: Limits, *, preload: bool = False
) -> AsyncIterator[Guest]:
    """A new sandbox whose guest has said hello; it is gone when this ends.

    `preload` makes it start later and run jobs sooner.

    Raises:
        RunnerUnavailable: nothing was started.
        RunnerLost: something was started and did not come up.
    """
    async with runner.open(environment, limits) as sandbox:
        opened = Guest(sandbox)
        await opened.start(environment, preload)
        yield opened


class Guest:
    """The supervisor in a live sandbox. Runs one job at a time."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.jobs = 0
        """How many it has been given."""
        self._wire = _Wire(sandbox)
        self._hello: dict[str, Any] = {}
        self._spent: dict[str, float] = {}

    async def start(self, environment: Environment, preload: bool = False) -> None:
        """Say hello; with `preload`, do beforehand what jobs in this environment need."""
        begun = time.perf_counter()
        settings = asdict(self.sandbox.settings)
        settings["variables"] = environment.variables
        settings["preloads"] = environment.preloads if preload else None
        await self.sandbox.write(guest.bundle(settings))
        self._hello = await self._wire.receive(START_SECONDS, "to start")
        if self._hello.get("type") != "hello":
            raise self._wire.lost(f"it began with {self._hello.get('type')!r} instead of a greeting")
        if self._hello.get("missing"):
            raise RunnerUnavailable(
                self.sandbox.isolation.runner,
                f"the sandbox has no module {self._hello['missing']} to preload. Nothing was run. "
                "Put its package into the environment's requirements.",
            )
        self._spent = {"start": time.perf_counter() - begun}

    async def run(self, job: Job, on_event: OnEvent | None = None, *, last: bool = True) -> Outcome:
        """Run the job to its end. Unless it is the `last`, call `settle` before the next one.

        Raises:
            RunnerUnavailable: the sandbox has no pytest; nothing was run.
            RunnerLost: the guest died or garbled its stream; what the job did is unknown.
        """
        self._check_pytest(job)
        self.jobs += 1
        self._wire.received = 0
        clock = time.perf_counter
        begun = clock()
        key = secrets.token_hex(16)
        await self.sandbox.write(self._message(job, key, last))
        sent = clock()
        events, parts, first_test = await self._listen(job, _Seals(key), on_event)
        ended = clock()
        seconds = {
            **self._spent,
            "send": sent - begun,
            "collect": (first_test or ended) - sent,
            "run": ended - (first_test or ended),
        }
        self._spent = {"start": 0.0}
        return Outcome(tuple(events), parts, self.sandbox.isolation, seconds, self._hello)

    async def ping(self) -> None:
        """Raises RunnerLost unless the guest is alive and idle."""
        await self.sandbox.write(b"P")
        try:
            message = await self._wire.receive(PING_SECONDS, "to answer")
        except _OutOfMemory as exc:
            raise self._wire.lost(f"it ran out of memory. {exc.detail}") from exc
        if message.get("type") != "pong":
            raise self._wire.lost(f"it answered a ping with {message.get('type')!r}")

    async def settle(self) -> bool:
        """Wait until the last job is cleared away; True if the guest vouches that nothing of it is left.

        Raises:
            RunnerLost: it died meanwhile.
        """
        try:
            message = await self._wire.receive(CLEAN_SECONDS, "to clean up")
        except _OutOfMemory as exc:
            raise self._wire.lost(f"it ran out of memory. {exc.detail}") from exc
        return message.get("type") == "done" and message.get("clean") is True

    def _message(self, job: Job, key: str, last: bool) -> bytes:
        """A job on the wire: how to run it, which the supervisor reads, and what is in it, which it passes on."""
        compiled = suites.compiled(job, self._hello) if job.suite and job.seat == "separate" else suites.Compiled()
        direct = compiled.direct and DIRECT
        about = {
            "parts": [part for part, wanted in (("cases", job.calls), ("pytest", job.suite)) if wanted],
            "seat": job.seat,
            "workers": job.workers,
            "limits": job.limits.model_dump(),
            "last": last,
            "direct": direct,
        }
        task = {
            "calls": list(job.calls),
            "workers": job.workers,
            "options": list(job.options),
            "seed": job.seed,
            "variables": job.environment.variables,
            "limits": about["limits"],
            "submitted": list(job.submission),
            "hardened": HARDENED,
            "direct": direct,
        }
        pieces = (about, task, key, _packed(job.submission), _packed(job.suite), compiled.codes)
        return b"J" + b"".join(frames.seal(frames.dump(piece)) for piece in pieces)

    def _check_pytest(self, job: Job) -> None:
        if job.suite and not self._hello.get("pytest"):
            raise RunnerUnavailable(
                self.sandbox.isolation.runner,
                f"the sandbox's Python {self._hello.get('python')} has no pytest. Nothing was run. "
                "Install pytest in that image, or use the one that `reproof image build` makes.",
            )

    async def _listen(
        self, job: Job, seals: _Seals, on_event: OnEvent | None
    ) -> tuple[list[Event], dict[str, Evidence], float | None]:
        events: list[Event] = []
        parts: dict[str, Evidence] = {}
        first_test = None
        expected = bool(job.calls) + bool(job.suite)
        deadline = time.monotonic() + job.limits.wall_seconds + GRACE_SECONDS
        while len(parts) < expected:
            try:
                message = await self._wire.receive(deadline - time.monotonic(), "to finish the job")
            except _OutOfMemory as exc:
                # The kernel's own word: the job took all memory, and the guest went with it.
                parts["sandbox"] = Evidence(oom_kills=1, output=exc.detail)
                break
            kind = message.get("type")
            if kind == "event" and isinstance(message.get("event"), dict):
                event = seals.checked(message["event"], message.get("part"))
                if first_test is None and event.get("e") == "start":
                    first_test = time.perf_counter()
                events.append(event)
                if on_event is not None:
                    on_event(event)
            elif kind == "end":
                parts[str(message.get("part"))] = self._wire.evidence(message.get("evidence"))
            else:
                raise self._wire.lost(f"it sent a message of an unknown kind ({kind!r})")
        return events, parts, first_test


class _Seals:
    """Whether events were sent by the guest's own code: only that has the key."""

    def __init__(self, key: str) -> None:
        self._seal = frames.Seal(key)
        self._number = 0

    def checked(self, event: Event, part: Any) -> Event:
        """The event, readable; `{"e": "forged"}` in its place if it is not sealed."""
        try:
            if not self._is_ours(event):
                return {"e": "forged", "part": part}
            return _readable(event, part)
        except RecursionError:
            return {"e": "forged", "part": part}

    def _is_ours(self, event: Event) -> bool:
        seal = event.pop("s", None)
        if event.get("e") == "stuck" and seal is None:
            return True  # the supervisor's own word
        if event.get("e") == "ready":
            self._number = 0  # another process
        number = event.pop("n", self._number)
        if not isinstance(number, int) or number < self._number:
            return False
        self._number = number + 1
        return bool(seal == self._seal.of(event, number))


def _readable(event: Event, part: Any) -> Event:
    """An event whose texts can be printed; the value of a case is data, and stays as it is."""
    readable = {name: data if name == "value" else _printable(data) for name, data in event.items()}
    return {**readable, "part": part}


def _printable(data: Any) -> Any:
    """The same without lone surrogates, which JSON can carry and no file can hold."""
    if isinstance(data, str):
        return data if data.isascii() else data.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(data, list):
        return [_printable(item) for item in data]
    if isinstance(data, dict):
        return {_printable(key): _printable(item) for key, item in data.items()}
    return data


def _packed(files: Mapping[str, bytes]) -> list[list[str]]:
    return [[path, base64.b64encode(data).decode("ascii")] for path, data in files.items()]


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
        self.received = 0

    async def receive(self, seconds: float, purpose: str) -> dict[str, Any]:
        if not self._waiting:
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
        self.received += len(data)
        if self.received > MOST_EVENT_BYTES:
            raise self.lost(f"it sent more than {MOST_EVENT_BYTES} bytes")
        try:
            self._waiting.extend(self._decoder.feed(data))
        except frames.FrameError as exc:
            raise self.lost(f"its stream is garbled: {exc}") from exc

    def evidence(self, data: Any) -> Evidence:
        if not isinstance(data, dict):
            raise self.lost("its evidence is not an object")
        try:
            return Evidence(**_printable(data))
        except (ValueError, TypeError) as exc:
            raise self.lost(f"its evidence is malformed: {exc}") from exc

    def lost(self, what: str) -> RunnerLost:
        return RunnerLost(
            self._sandbox.isolation.runner,
            f"the guest was lost: {what}. The sandbox and all in it is gone; what the job did is unknown.",
        )
