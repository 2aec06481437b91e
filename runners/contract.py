"""The words that runners speak. Read this first.

A runner opens a **sandbox** and hands over its byte stream; everything else
about a verification is the same for all of them. What crosses the stream is in
`guest/frames.py`, the conversation over it in `session.py`.

Candidate failures are values (`Outcome`). An exception here means that we could
not find out:

    RunnerError
    ├── RunnerUnavailable   nothing was started; another runner is safe
    └── RunnerLost          it may have run; what it did is unknown
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .guest import values

__all__ = [
    "Autopsy",
    "Environment",
    "Evidence",
    "GuestSettings",
    "Isolation",
    "Job",
    "Limits",
    "Outcome",
    "Runner",
    "RunnerError",
    "RunnerLost",
    "RunnerUnavailable",
    "Sandbox",
    "Value",
]


class Value(BaseModel):
    """A frozen value whose constructor speaks plain Python.

    A wrong field is a `ValueError` that names it; no pydantic exception escapes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as exc:
            raise ValueError(_explain(type(self).__name__, exc)) from None


def _explain(owner: str, exc: ValidationError) -> str:
    """One line per wrong field: which, why, and what was given."""
    lines = []
    for error in exc.errors(include_url=False):
        field_path = ".".join(str(part) for part in error["loc"])
        reason = error["msg"].removeprefix("Value error, ")
        if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            reason = "no such field"
        given = values.show(error.get("input"))
        given = given if len(given) <= 80 else given[:77] + "..."
        where = f"{owner}.{field_path}" if field_path else owner
        lines.append(f"{where}: {reason}" + ("" if not field_path else f" (given: {given})"))
    return "\n".join(lines)


class Limits(Value):
    """What a verification may use. Past a limit the job is stopped, and the report says which."""

    wall_seconds: float = Field(60, gt=0, le=86_400)
    """The whole job, from the moment that the sandbox has it."""
    cpu_seconds: float = Field(60, gt=0, le=86_400)
    """CPU time of all of the job's processes together."""
    test_seconds: float = Field(10, gt=0, le=86_400)
    """One test. The others still run."""
    memory_mb: int = Field(512, ge=16, le=1_048_576)
    """Resident memory of all of the job's processes together."""
    processes: int = Field(256, ge=1, le=32_768)
    """Processes and threads alive at once."""
    disk_mb: int = Field(128, ge=1, le=1_048_576)
    """Everything that the job may write: workspace and temporary files."""
    output_kb: int = Field(8_192, ge=1, le=1_048_576)
    """Everything that the job may print."""


class Environment(Value):
    """What the sandbox holds. There is never a network at run time."""

    requirements: tuple[str, ...] = ()
    """Packages, in pip's own notation; installed once, before any job, and cached."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the job."""
    preloads: tuple[str, ...] = ()
    """Modules that a warm guest imports before any job, so that no job pays for it. They are trusted."""
    image: str | None = None
    """docker: the image to use instead of the one we build. Needs Python 3.9 and pytest."""
    runtime: str | None = None
    """docker: the OCI runtime, e.g. `runsc` for gVisor."""

    @field_validator("requirements")
    @classmethod
    def _names_packages(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for text in given:
            try:
                requirement = Requirement(text)
            except InvalidRequirement as exc:
                raise ValueError(f"{text!r} is not a requirement: {exc}") from None
            if requirement.url:
                raise ValueError(f"{text!r} names an address; only packages of an index are installed")
        return given

    @field_validator("variables")
    @classmethod
    def _can_be_started_with(cls, given: dict[str, str]) -> dict[str, str]:
        seed = given.get("PYTHONHASHSEED", "0")
        if not (seed.isascii() and seed.isdigit() and int(seed) <= 4_294_967_295):
            raise ValueError(f"PYTHONHASHSEED: {seed!r} is no number from 0 to 4294967295, the same for each run")
        return given

    @field_validator("preloads")
    @classmethod
    def _names_modules(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for name in given:
            if not all(part.isidentifier() for part in name.split(".")):
                raise ValueError(f"{name!r} is not the name of a module")
        return given


class Isolation(Value):
    """What was really obtained, in a few words each. Stands in every report."""

    runner: str
    network: str
    filesystem: str
    processes: str
    memory: str
    user: str


@dataclass(frozen=True)
class Job:
    """One verification, ready to be run. Knows nothing of what is expected of it."""

    submission: Mapping[str, bytes]
    suite: Mapping[str, bytes]
    calls: tuple[dict[str, Any], ...] = ()
    """Declarative cases without their expectations, in `guest/values.py` notation."""
    seat: str = "in_process"
    """Where the tests' candidate runs: `in_process`, with pytest, or `separate`, in a process of its own."""
    workers: int = 0
    options: tuple[str, ...] = ()
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    environment: Environment = field(default_factory=Environment)


class Evidence(Value):
    """How one part of a job (its cases, or its pytest run) ended. Written by the supervisor."""

    exit_code: int | None = None
    signal: int | None = None
    stopped: str | None = None
    """The limit for which we stopped it: wall, cpu, test, memory, processes, disk, output."""
    stopped_at: str | None = None
    """The test that was running when it ended without saying so."""
    stack: str | None = None
    """Where it was stuck when we stopped it."""
    wall_seconds: float = 0
    cpu_seconds: float = 0
    peak_memory_mb: float = 0
    oom_kills: int = 0
    """Kills that the kernel counted for this sandbox's memory limit."""
    processes_denied: bool = False
    disk_full: bool = False
    output_bytes: int = 0
    output: str = ""
    """What was written past pytest's own capture, bounded."""
    leftover_processes: int = 0
    garbled: str | None = None
    """What was wrong with the event stream, if it was not our plugin that wrote to it."""
    restarts: int = 0
    """Times that the run went on in a new process after a test that would not stop."""
    candidates: tuple[dict[str, Any], ...] = ()
    """In the separate seat, how each candidate process ended: `exit_code`, `signal`, for what it was
    `stopped` (None: it ended by itself), `during` which test, and its `stack` if it was asked for it."""


class Autopsy(Value):
    """What can be told of a sandbox that died before it could report."""

    oom_killed: bool = False
    detail: str = ""


@dataclass(frozen=True)
class Outcome:
    """All that is known of a job that ran."""

    events: tuple[dict[str, Any], ...]
    parts: Mapping[str, Evidence]
    isolation: Isolation
    seconds: Mapping[str, float]
    """Phases as the host saw them: start, send, collect, run."""
    guest: Mapping[str, Any]
    """What the guest said of itself: Python and pytest versions."""


@dataclass(frozen=True)
class GuestSettings:
    """What the guest must know of the sandbox that it wakes up in."""

    workspace: str
    """A private directory that the job may write to."""
    uid: int | None = None
    """The user id to drop to before candidate code runs; None: we already are that user."""
    cgroup: Mapping[str, str] = field(default_factory=dict)
    """Controller → directory, as seen from inside; empty: measure through /proc."""
    uids: int = 1
    """How many user ids from `uid` on are ours to give; each job gets the next two."""
    scratch: tuple[str, ...] = ("/dev/shm",)
    """Other places that a job may write to, and that are emptied after it."""
    private: bool = True
    """Whether processes and IPC objects that can be seen are the sandbox's own."""
    disk: str = "tmpfs"
    """How `disk_mb` holds: `tmpfs` (the mount is that large) or `measured`."""


class Sandbox(Protocol):
    """A live sandbox: a byte stream to the Python that runs inside it."""

    isolation: Isolation
    settings: GuestSettings

    async def read(self) -> bytes:
        """Whatever has arrived; empty once the other side is gone."""

    async def write(self, data: bytes) -> None: ...

    async def autopsy(self) -> Autopsy:
        """Why it died. Only asked once `read` has returned nothing."""


class Runner(Protocol):
    """A way to get sandboxes."""

    name: str

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def open(self, environment: Environment, limits: Limits) -> AbstractAsyncContextManager[Sandbox]:
        """Start `guest.COMMAND` in a new sandbox; leave nothing behind on exit.

        Cancelling, or an exception inside the block, kills every process of the
        sandbox before this returns.

        Raises:
            RunnerUnavailable: nothing was started; another runner is safe.
            RunnerLost: something was started and did not come up.
        """


class RunnerError(Exception):
    """We could not find out. Never the candidate's fault."""

    def __init__(self, runner: str, message: str) -> None:
        super().__init__(f"{runner}: {message}")
        self.runner = runner


class RunnerUnavailable(RunnerError):
    """Nothing was run; another runner is safe."""


class RunnerLost(RunnerError):
    """It may have run; its effects are unknown, and gone with the sandbox."""
