"""What you hand in and what you get back: frozen values.

Submission and suite go in, a `Report` comes out. A wrong field is a `ValueError`
that names it, before anything is started.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, computed_field, field_validator, model_validator

from runners.contract import Environment, Isolation, Limits, Value
from runners.guest import values

from . import files
from .formats import text

__all__ = [
    "Assertion",
    "Case",
    "Environment",
    "ErrorInfo",
    "Failure",
    "Frame",
    "HypothesisInfo",
    "Integrity",
    "Isolation",
    "Limits",
    "Measurements",
    "Report",
    "Seat",
    "Submission",
    "Suite",
    "TestResult",
    "Verdict",
    "WarningInfo",
]

Verdict = Literal[
    "passed",
    "failed",
    "broken",
    "timeout",
    "out_of_memory",
    "crashed",
    "limit",
    "tampered",
    "no_tests",
    "invalid",
]

Phase = Literal["collect", "setup", "call", "teardown"]

Kind = Literal[
    "assertion",
    "exception",
    "syntax",
    "import",
    "timeout",
    "exit",
    "skip",
    "memory",
    "limit",
    "recursion",
    "lost",
]

Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed", "timeout", "not_run"]

Seat = Literal["cases", "separate", "in_process"]

_Files = Mapping[str, str | bytes]


def _as_bytes(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    checked = {}
    for path, data in given.items():
        files.check_path(path)
        checked[path] = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    files.check_together(checked)
    if sum(len(data) for data in checked.values() if isinstance(data, bytes)) > files.MOST_BYTES:
        raise ValueError(files.TOO_MUCH)
    return checked


class Submission(Value):
    """The candidate's files, by relative path. Hostile until proven otherwise."""

    files: dict[str, bytes]

    _check_files = field_validator("files", mode="before")(_as_bytes)

    @classmethod
    def from_code(cls, code: str, path: str = "solution.py") -> Self:
        return cls(files={path: code})

    @classmethod
    def from_files(cls, given: _Files) -> Self:
        return cls(files=dict(given))

    @classmethod
    def from_path(cls, path: str | Path) -> Self:
        """A file, or a directory without what its `.gitignore` names."""
        return cls(files=files.read(Path(path)))


class Case(Value):
    """One call and what must come of it. The expectation never enters the sandbox.

    - `call="solution.add", args=[1, 2], expected=3`
    - `call="solution.Stack.pop", init=[[1, 2]], expected=2`: a method of a constructed object
    - `call="solution.parse", args=["x"], raises="ValueError", match="bad"`
    - `stdin="1 2\\n", stdout="3\\n"`: a whole program, `program` (solution.py) run as a script

    Types matter: `3` is not `3.0` and not `True`, a list is not a tuple. `approx` takes
    numbers within that relative or absolute tolerance instead. nan equals nan.
    """

    call: str | None = None
    args: list[Any] = Field(default_factory=list)
    kwargs: dict[str, Any] = Field(default_factory=dict)
    init: list[Any] | None = None
    init_kwargs: dict[str, Any] = Field(default_factory=dict)
    expected: Any = None
    raises: str | None = None
    match: str | None = None
    approx: float | None = Field(None, gt=0)
    program: str = "solution.py"
    stdin: str | None = None
    stdout: str | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.call is None and self.stdin is None and self.stdout is None:
            raise ValueError("needs `call`, or `stdin` and `stdout` for a whole program")
        if self.call is not None and not all(part.isidentifier() for part in self.call.split(".")):
            raise ValueError(f"call: {self.call!r} is not a dotted name such as solution.add")
        if self.call is not None and "." not in self.call:
            raise ValueError(f"call: {self.call!r} names no module; write e.g. solution.{self.call}")
        if self.call is None:
            files.check_path(self.program)
        if self.call is None and (self.expects_value or self.raises is not None):
            raise ValueError("a whole program returns and raises nothing: `expected` and `raises` go with `call`")
        if self.init_kwargs and self.init is None:
            raise ValueError("`init_kwargs` goes with `init`; write init=[] for no other arguments")
        if self.expects_value and self.raises is not None:
            raise ValueError("has both `expected` and `raises`; one of them")
        if not self.expects_value and self.raises is None and self.stdout is None:
            raise ValueError("expects nothing: give `expected`, `raises` or `stdout`")
        if self.match is not None and self.raises is None:
            raise ValueError("`match` goes with `raises`")
        if self.match is not None:
            _check_pattern(self.match)
        for name in ("args", "kwargs", "init", "init_kwargs", "expected"):
            _encodable(name, getattr(self, name))
        return self

    @property
    def expects_value(self) -> bool:
        return "expected" in self.model_fields_set

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """From a job line, where values that JSON lacks are written as `{"$tuple": [1, 2]}` and the like."""
        if not isinstance(data, Mapping):
            raise ValueError(f"a case is an object, not {type(data).__name__}")
        decoded = dict(data)
        for name in ("args", "kwargs", "init", "init_kwargs", "expected"):
            if name in decoded:
                decoded[name] = values.decode(decoded[name])
        return cls(**decoded)


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as exc:
        raise ValueError(f"match: {pattern!r} is not a regular expression: {exc}") from None


def _encodable(name: str, value: Any) -> None:
    if values.has_opaque(values.encode(value)):
        raise ValueError(
            f"{name}: {values.show(value)} cannot cross into a sandbox; use JSON values, tuple, set, frozenset, bytes, "
            "complex, Decimal, Fraction, range, datetime and its kin, nan or inf"
        )


class Suite(Value):
    """What decides: pytest files, declarative cases, or both."""

    files: dict[str, bytes] = Field(default_factory=dict)
    cases: tuple[Case, ...] = ()
    workers: int = Field(0, ge=0, le=64)
    """pytest-xdist workers; 0 runs in one process."""
    options: tuple[str, ...] = ()
    """More options for pytest, e.g. `-k`, `-m`, `--doctest-modules`."""

    _check_files = field_validator("files", mode="before")(_as_bytes)

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if not self.files and not self.cases:
            raise ValueError("has neither files nor cases: there is nothing to verify against")
        return self

    @classmethod
    def from_code(cls, code: str, path: str = "test_solution.py", **more: Any) -> Self:
        return cls(files={path: code}, **more)

    @classmethod
    def from_files(cls, given: _Files, **more: Any) -> Self:
        return cls(files=dict(given), **more)

    @classmethod
    def from_cases(cls, cases: Iterable[Case], **more: Any) -> Self:
        return cls(cases=tuple(cases), **more)

    @classmethod
    def from_path(cls, path: str | Path, **more: Any) -> Self:
        """A test file, or a directory of them without what its `.gitignore` names."""
        return cls(files=files.read(Path(path)), **more)


class Told(Value):
    """A part of a report. Its texts can be written as UTF-8, whatever the candidate said."""

    @field_validator("*")
    @classmethod
    def _can_be_written(cls, told: Any) -> Any:
        return _writable(told)


def _writable(told: Any) -> Any:
    """The same without lone surrogates."""
    if isinstance(told, str):
        return told if told.isascii() else told.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(told, tuple):
        return tuple(map(_writable, told))
    if isinstance(told, dict):
        return {_writable(name): _writable(value) for name, value in told.items()}
    return told


class Frame(Told):
    path: str
    line: int
    function: str
    source: str
    owner: Literal["suite", "submission", "library"]
    locals: dict[str, str] = Field(default_factory=dict)
    locals_cut: int = 0


class ErrorInfo(Told):
    """An exception and what led to it."""

    type: str
    module: str = ""
    message: str = ""
    notes: tuple[str, ...] = ()
    missing: str | None = None
    """The module that an import did not find."""
    cause: ErrorInfo | None = None
    explicit_cause: bool = False
    """True for `raise ... from cause`."""
    group: tuple[ErrorInfo, ...] = ()
    frames: tuple[Frame, ...] = ()
    frames_cut: int = 0

    @property
    def is_ours(self) -> bool:
        """Raised by the guest, to end a test: nobody's words but ours."""
        return self.module.startswith("reproof_guest")


class Assertion(Told):
    operator: str
    left: str
    right: str
    diff: str = ""
    explanation: str = ""
    """pytest's own words."""


class HypothesisInfo(Told):
    example: str
    seed: int


class Failure(Told):
    """One thing that went wrong, with what an engineer would want to know."""

    nodeid: str
    phase: Phase
    kind: Kind
    message: str
    """One line."""
    exception: ErrorInfo | None = None
    assertion: Assertion | None = None
    frames: tuple[Frame, ...] = ()
    frames_cut: int = 0
    place: str | None = None
    """`path:line` in the candidate's own code."""
    test_place: str | None = None
    """`path:line` in the suite."""
    hypothesis: HypothesisInfo | None = None
    subtest: str | None = None
    stack: str | None = None
    """Where a test was stuck when it was stopped."""
    stdout: str = ""
    stderr: str = ""
    log: str = ""
    warnings: tuple[WarningInfo, ...] = ()
    seconds: float = 0


class WarningInfo(Told):
    category: str
    message: str
    path: str = ""
    line: int = 0
    nodeid: str = ""


class TestResult(Told):
    __test__ = False  # not a test class, whatever pytest thinks of the name

    nodeid: str
    outcome: Outcome
    seconds: float = 0
    reason: str = ""
    """Why it was skipped or is expected to fail."""


class Measurements(Value):
    """Where the time went, by the host's clock, and what the kernel accounted for."""

    total_seconds: float = 0
    queue_seconds: float = 0
    start_seconds: float = 0
    send_seconds: float = 0
    collect_seconds: float = 0
    run_seconds: float = 0
    judge_seconds: float = 0
    cpu_seconds: float = 0
    peak_memory_mb: float = 0
    output_bytes: int = 0
    leftover_processes: int = 0
    restarts: int = 0


class Integrity(Told):
    """How far the candidate could have had a hand in the verdict, and whether it tried."""

    seat: Seat
    """Where the candidate ran: `cases` (alone; the host compares), `separate` (in a process of its
    own, beside a trusted pytest), `in_process` (in pytest's own interpreter)."""
    reason: str = ""
    """Why this seat."""
    checks: tuple[str, ...] = ()
    """What was looked at."""
    findings: tuple[str, ...] = ()
    """Proof of tampering, each with what was done and where. With any of these the verdict is `tampered`."""
    suspicions: tuple[str, ...] = ()
    """What cheats do and honest code may do, too. They decide nothing."""
    asked: int = 0
    """Comparisons between two objects of the candidate's, which its own code decided (`separate`)."""


class Report(Told):
    """The answer. `print(report)` is for a person, `report.model_dump_json()` for a program."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    verdict: Verdict
    reason: str
    """One line: why this verdict."""
    counts: dict[str, int] = Field(default_factory=dict)
    tests: tuple[TestResult, ...] = ()
    failures: tuple[Failure, ...] = ()
    warnings: tuple[WarningInfo, ...] = ()
    notes: tuple[str, ...] = ()
    """What is worth knowing and did not decide."""
    output: str = ""
    """What the candidate wrote outside of any test."""
    runner: str = ""
    isolation: Isolation | None = None
    freshness: Literal["sandbox", "fork"] = "sandbox"
    """`sandbox`: it was this job's alone. `fork`: cleaned, and shared with jobs before and after."""
    cached: bool = False
    """Whether this is the report of an earlier run of the same job."""
    integrity: Integrity | None = None
    limits: Limits = Field(default_factory=Limits)
    measurements: Measurements = Field(default_factory=Measurements)
    seed: int = 0
    python: str = ""
    pytest: str = ""
    version: str = ""

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know this decorator's order
    @property
    def reward(self) -> float | None:
        """1 for passed, 0 for every other verdict of the candidate, None where we could not find out."""
        if self.verdict == "invalid":
            return None
        return 1.0 if self.verdict == "passed" else 0.0

    @property
    def passed(self) -> bool:
        return self.verdict == "passed"

    @property
    def score(self) -> tuple[int, int]:
        """How many tests pass, of how many that count: not of those that the suite skips or expects to fail."""
        counted = [test.outcome for test in self.tests if test.outcome not in ("skipped", "xfailed")]
        return sum(outcome in ("passed", "xpassed") for outcome in counted), len(counted)

    def __str__(self) -> str:
        return text.render(self)

    def __repr_args__(self) -> Iterable[tuple[str, Any]]:
        """Short enough for the one line that a failed assertion gives it."""
        return [("verdict", self.verdict), ("reason", self.reason)]
