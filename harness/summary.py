"""What a million reports come to, in memory that does not grow with them.

Distributions are histograms with buckets of equal ratio, so a quantile is right to
within `RATIO`. Of failures the most common are kept: when there are too many, the
rarest are dropped, and a count may be short by what was dropped under its name.
"""

from __future__ import annotations

import heapq
import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .models import Failure, Report

__all__ = ["Common", "Distribution", "Slow", "Summary"]

RATIO = 1.1
SMALLEST = 1e-4
KEPT_CAUSES = 2_000
KEPT_SLOWEST = 15
LONGEST_CAUSE = 160
LONGEST_ID = 120
PHASES = ("queue", "start", "send", "collect", "run", "judge")


@dataclass
class Distribution:
    """How often which magnitude was measured."""

    buckets: Counter[int] = field(default_factory=Counter)
    count: int = 0
    largest: float = 0

    def add(self, value: float) -> None:
        self.buckets[_bucket(value)] += 1
        self.count += 1
        self.largest = max(self.largest, value)

    def quantile(self, share: float) -> float:
        """The value that this share of all is not above, to within `RATIO`; 0 if there is none."""
        wanted, seen = share * self.count, 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return min(_end(bucket), self.largest)
        return 0.0

    def bars(self, most: int) -> list[tuple[float, float, int]]:
        """At most so many ranges of equal ratio that hold all that was measured: from, to, how often."""
        if not self.count:
            return []
        first, last = min(self.buckets), max(self.buckets)
        step = -(-(last - first + 1) // most)
        counts = Counter[int]()
        for bucket, count in self.buckets.items():
            counts[(bucket - first) // step] += count
        starts = range(first, last + 1, step)
        return [(_end(start - 1), _end(start + step - 1), counts[index]) for index, start in enumerate(starts)]


def _bucket(value: float) -> int:
    return max(0, math.ceil(math.log(max(value, SMALLEST) / SMALLEST, RATIO) - 1e-9))


def _end(bucket: int) -> float:
    return float(SMALLEST * RATIO**bucket)


@dataclass
class Common:
    """One cause, how often it was seen, and a job to look at."""

    count: int
    example: str


@dataclass(frozen=True, order=True)
class Slow:
    seconds: float
    job: str
    verdict: str
    reason: str


class _Causes:
    """The most common of an unbounded number of causes."""

    def __init__(self) -> None:
        self._found: dict[str, Common] = {}
        self.dropped = 0

    def add(self, cause: str, job: str) -> None:
        known = self._found.get(cause)
        if known is not None:
            known.count += 1
            return
        self._found[cause] = Common(1, job)
        if len(self._found) > 2 * KEPT_CAUSES:
            kept = heapq.nlargest(KEPT_CAUSES, self._found.items(), key=lambda item: item[1].count)
            self.dropped += len(self._found) - len(kept)
            self._found = dict(kept)

    def most_common(self, number: int) -> list[tuple[str, Common]]:
        return heapq.nlargest(number, self._found.items(), key=lambda item: item[1].count)

    def __len__(self) -> int:
        return len(self._found)


class Summary:
    """Add reports; read what they have in common."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.runners: Counter[str] = Counter()
        self.seconds = Distribution()
        self.memory_mb = Distribution()
        self.phases: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.failures = _Causes()
        self.tests = _Causes()
        self.faults = _Causes()
        """Why jobs are invalid: our failures, not the candidates'."""
        self.version = ""
        self.cached = 0
        self._slowest: list[Slow] = []
        self._begun = time.monotonic()

    @property
    def count(self) -> int:
        return sum(self.verdicts.values())

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def slowest(self) -> list[Slow]:
        return sorted(self._slowest, reverse=True)

    def add(self, identity: Any, report: Report) -> None:
        """Take a report in; nothing of it is kept but numbers and a few short texts."""
        job = _shown_id(identity)
        self.verdicts[report.verdict] += 1
        self.version = report.version or self.version
        if report.verdict == "invalid":
            self.faults.add(_generalised(report.reason), job)
            return
        if report.cached:  # its measurements are those of another day
            self.cached += 1
        else:
            self._measure(job, report)
        causes = {_cause(failure) for failure in report.failures}
        if not causes and report.verdict != "passed":
            causes = {_generalised(f"{report.verdict.replace('_', ' ')}: {report.reason}")}
        for cause in causes:
            self.failures.add(cause, job)
        for nodeid in {failure.nodeid for failure in report.failures if failure.nodeid}:
            self.tests.add(nodeid[:LONGEST_CAUSE], job)

    def _measure(self, job: str, report: Report) -> None:
        measured = report.measurements
        self.runners[report.runner] += 1
        self.seconds.add(measured.total_seconds)
        self.memory_mb.add(measured.peak_memory_mb)
        for phase in PHASES:
            self.phases[phase] += getattr(measured, f"{phase}_seconds")
        slow = Slow(measured.total_seconds, job, report.verdict, report.reason[:LONGEST_CAUSE])
        if len(self._slowest) < KEPT_SLOWEST:
            heapq.heappush(self._slowest, slow)
        else:
            heapq.heappushpop(self._slowest, slow)

    def add_results(self, path: Path) -> None:
        """Take in what an earlier run has written, line by line."""
        for result in _results(path):
            self.add(*result)


def _results(path: Path) -> Iterator[tuple[Any, Report]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                data = json.loads(line)
                yield data["id"], Report.model_validate(data["report"])
            except (ValueError, LookupError, TypeError, RecursionError):
                continue  # damaged; `finished_ids` has its job run again


def _shown_id(identity: Any) -> str:
    shown = identity if isinstance(identity, str) else json.dumps(identity)
    return shown if len(shown) <= LONGEST_ID else shown[: LONGEST_ID - 1] + "…"


def _cause(failure: Failure) -> str:
    """Kind and message, without what differs from job to job."""
    error = failure.exception
    if failure.kind == "assertion" and failure.assertion is not None:
        return f"assertion: … {failure.assertion.operator[:20]} …"
    if error is not None and not error.is_ours and failure.kind != "assertion":
        return _generalised(f"{error.type}: {error.message.strip().partition(chr(10))[0]}".rstrip(": "))
    return _generalised(f"{failure.kind}: {failure.message}")


_PARTICULARS = (
    (re.compile(r"'[^'\n]{0,500}'|\"[^\"\n]{0,500}\""), "'…'"),
    (re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?"), "N"),
)


def _generalised(message: str) -> str:
    """The message of a class of failures: values in quotes and numbers are left out."""
    message = message[: 4 * LONGEST_CAUSE].partition("\n")[0]
    for pattern, instead in _PARTICULARS:
        message = pattern.sub(instead, message)
    return message[:LONGEST_CAUSE]
