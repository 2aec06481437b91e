"""What happened, as values and as JSON lines.

A transcript is written as it happens, one line per event, and holds all that a
second run needs to go on where the first one stopped:

    {"event": "begin", ...}      task, suites and settings
    {"event": "attempt", ...}    a candidate with its reports, as soon as they are known
    {"event": "feedback", ...}   what the generator was told of an attempt
    {"event": "end", ...}        why the run stopped

It is for the user. The reports in it are whole, whatever the generator was shown.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TextIO

from pydantic import Field, ValidationError, field_serializer, field_validator

from harness import Report, Submission
from runners.contract import Value

from .conversation import Tokens

__all__ = ["Attempt", "Beginning", "Outcome", "Result", "Transcript", "read_transcript"]

Outcome = Literal["passed", "iterations", "seconds", "tokens", "stuck", "invalid"]
"""Why a run stopped. `invalid`: we could not find out what became of a candidate."""


class Attempt(Value):
    """One candidate and what came of it."""

    number: int
    """From 1, over all iterations and samples."""
    iteration: int
    """From 1; 0 is the submission that the run started from."""
    sample: int = 0
    """Which of an iteration's candidates, from 0."""
    reply: str = ""
    """What the generator said, code and all."""
    problem: str | None = None
    """Why no code could be taken from the reply; such an attempt has no submission and no report."""
    submission: Submission | None = None
    report: Report | None = None
    hidden: Report | None = None
    """The report of the hidden suite, if the run has one."""
    searching: bool = False
    """The generator tries many candidates on purpose."""
    feedback: str = ""
    """What the generator was told of it; empty if it was told nothing: the last attempt, or not the best sample."""
    reflection: str = ""
    """What the generator had to say of its failure, if it was asked."""
    tokens: Tokens = Field(default_factory=Tokens)
    """Of the generation and of the reflection."""
    generation_seconds: float = 0
    """Of both, too."""
    verification_seconds: float = 0
    verifications: int = 0
    """Sandboxed runs, those that had to be repeated included."""
    elapsed_seconds: float = 0
    """Since the run began, when this attempt was done."""

    @property
    def passed(self) -> bool:
        """Whether every test passed, the hidden ones included."""
        return bool(self.reports) and all(report.passed for report in self.reports)

    @property
    def known(self) -> bool:
        """Whether we found out what became of it."""
        return all(report.verdict != "invalid" for report in self.reports)

    @property
    def reports(self) -> tuple[Report, ...]:
        return tuple(report for report in (self.report, self.hidden) if report is not None)

    @property
    def tests_passed(self) -> int:
        return sum(report.score[0] for report in self.reports)

    @field_serializer("submission", when_used="json-unless-none")
    def _as_texts(self, submission: Submission) -> dict[str, Any]:
        return {path: _text(data) for path, data in submission.files.items()}

    @field_validator("submission", mode="before")
    @classmethod
    def _from_texts(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return Submission.from_files({path: _data(text) for path, text in given.items()})


def _text(data: bytes) -> Any:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"$bytes": base64.b64encode(data).decode("ascii")}


def _data(text: Any) -> bytes:
    if isinstance(text, Mapping):
        return base64.b64decode(text["$bytes"])
    return str(text).encode("utf-8")


class Beginning(Value):
    """What a run is of. Two runs with the same beginning are the same run, begun twice."""

    task: str
    suite: str
    """A digest of the suite, and not the suite: a transcript may be read by more people than may read the tests."""
    hidden: str | None = None
    start: str | None = None
    """A digest of the code that it began with."""
    generator: str = ""
    disclose: str = "full"
    strategy: str = "plain"


class Result(Value):
    """A run of the loop, to the end or as far as it came."""

    beginning: Beginning
    attempts: tuple[Attempt, ...] = ()
    outcome: Outcome | None = None
    """Why it stopped; None: it was interrupted, or is still going on."""
    reason: str = ""
    """The same in a sentence."""
    seconds: float = 0

    @property
    def task(self) -> str:
        return self.beginning.task

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"

    @property
    def best(self) -> Attempt | None:
        """The attempt that passes all, else the first of those that pass the most tests."""
        verified = [attempt for attempt in self.attempts if attempt.report is not None]
        return max(verified, key=lambda attempt: (attempt.known, attempt.passed, attempt.tests_passed), default=None)

    @property
    def submission(self) -> Submission | None:
        """The best attempt's code."""
        return self.best.submission if self.best is not None else None

    @property
    def report(self) -> Report | None:
        return self.best.report if self.best is not None else None

    @property
    def hidden(self) -> Report | None:
        return self.best.hidden if self.best is not None else None

    @property
    def gap(self) -> float | None:
        """How much larger a share of the public tests the best attempt passes than of the hidden ones.

        Near 1: it was written to the tests. None without a hidden suite.
        """
        if self.report is None or self.hidden is None:
            return None
        return _share(self.report) - _share(self.hidden)

    @property
    def iterations(self) -> int:
        """Those of which something is known; the others are not used up."""
        return max((attempt.iteration for attempt in self.attempts if attempt.known), default=0)

    @property
    def tokens(self) -> Tokens:
        return sum((attempt.tokens for attempt in self.attempts), Tokens())

    @property
    def verifications(self) -> int:
        return sum(attempt.verifications for attempt in self.attempts)


def _share(report: Report) -> float:
    passed, counted = report.score
    return passed / counted if counted else float(report.passed)


class Transcript:
    """The file of a run. Each event is on disk before the run goes on.

    A transcript that is there already, of the same run, is gone on with; `result` tells how far it came.
    Without a path, the same in memory.

    Raises:
        ValueError: the file is of another run, or no transcript; it was not touched.
    """

    def __init__(self, path: Path | None, beginning: Beginning) -> None:
        self._file: TextIO | None = None
        found = _resumable(path, beginning) if path is not None and path.exists() else None
        self._result = found or Result(beginning=beginning)
        if path is None:
            return
        self._file = path.open("a", encoding="utf-8")
        if found is None:
            self._write("begin", beginning)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def result(self) -> Result:
        return self._result

    def add(self, attempt: Attempt) -> None:
        self._result = _with_attempts(self._result, [*self._result.attempts, attempt])
        self._write("attempt", attempt)

    def tell(
        self, number: int, feedback: str, reflection: str = "", tokens: Tokens | None = None, seconds: float = 0
    ) -> None:
        """What the generator was told of an attempt, what it said to it, and what that cost."""
        told = _Told(
            number=number, feedback=feedback, reflection=reflection, tokens=tokens or Tokens(), seconds=seconds
        )
        self._result = _told(self._result, told)
        self._write("feedback", told)

    def end(self, outcome: Outcome, reason: str, seconds: float) -> Result:
        ending = _Ending(outcome=outcome, reason=reason, seconds=seconds)
        self._result = self._result.model_copy(update=ending.model_dump())
        self._write("end", ending)
        return self._result

    def _write(self, event: str, value: Value) -> None:
        if self._file is not None:
            line = {"event": event, **value.model_dump(mode="json")}
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()


class _Told(Value):
    number: int
    feedback: str
    reflection: str = ""
    tokens: Tokens = Field(default_factory=Tokens)
    seconds: float = 0


class _Ending(Value):
    outcome: Outcome
    reason: str
    seconds: float


def _with_attempts(result: Result, attempts: Iterable[Attempt]) -> Result:
    """What was the end of an earlier run is none any more."""
    return result.model_copy(update={"attempts": tuple(attempts), "outcome": None, "reason": "", "seconds": 0})


def _told(result: Result, told: _Told) -> Result:
    return _with_attempts(
        result,
        [
            attempt
            if attempt.number != told.number
            else attempt.model_copy(
                update={
                    "feedback": told.feedback,
                    "reflection": told.reflection,
                    "tokens": attempt.tokens + told.tokens,
                    "generation_seconds": attempt.generation_seconds + told.seconds,
                }
            )
            for attempt in result.attempts
        ],
    )


def read_transcript(path: str | Path) -> Result:
    """What a transcript tells, finished or not. A last line that was cut off is passed over.

    Raises:
        ValueError: it is no transcript; the message names the line.
    """
    path = Path(path)
    lines = path.read_text("utf-8").split("\n")
    complete, torn = lines[:-1], lines[-1]
    result: Result | None = None
    for number, line in enumerate(complete, 1):
        result = _follow(result, line, f"{path}: line {number}")
    if torn:
        with contextlib.suppress(ValueError):
            result = _follow(result, torn, f"{path}: line {len(lines)}")
    if result is None:
        raise ValueError(f"{path}: is not a transcript of a reflection run")
    return result


def _follow(result: Result | None, line: str, where: str) -> Result:
    try:
        data = json.loads(line)
        event = data.pop("event")
        if event == "begin" and result is None:
            return Result(beginning=Beginning(**data))
        if result is None:
            raise ValueError("a transcript starts with its `begin` line")
        if event == "attempt":
            return _with_attempts(result, [*result.attempts, Attempt(**data)])
        if event == "feedback":
            return _told(result, _Told(**data))
        if event == "end":
            return result.model_copy(update=_Ending(**data).model_dump())
        raise ValueError(f"there is no event {event!r}")
    except (ValueError, LookupError, TypeError, AttributeError, ValidationError) as exc:
        raise ValueError(f"{where} is not of a transcript: {exc}") from None


def _resumable(path: Path, beginning: Beginning) -> Result | None:
    """How far an earlier run came, without a line that was cut off; None for an empty file."""
    data = path.read_bytes()
    if not data.strip():
        return None
    found = read_transcript(path)
    if differing := _differing(found.beginning, beginning):
        raise ValueError(f"{path}: is the transcript of a run with another {differing}; nothing was written to it")
    if not data.endswith(b"\n"):
        with path.open("rb+") as file:
            file.truncate(data.rfind(b"\n") + 1)
        found = read_transcript(path)
    return found


_NAMES = {"hidden": "hidden suite", "disclose": "level of disclosure"}


def _differing(found: Beginning, asked: Beginning) -> str:
    names = [name for name in Beginning.model_fields if getattr(found, name) != getattr(asked, name)]
    return _NAMES.get(names[0], names[0]) if names else ""
