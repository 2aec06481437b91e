"""Verdicts on disk, by the content of the job: the same job twice is run once.

Only what the same job would get again is kept: no `invalid`, no `timeout`, nothing
that a busier or smaller machine could have caused, nothing that called itself flaky.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

from runners import interpreter
from runners.contract import Job
from runners.guest import values

from .models import Case, Report, Submission, Suite

__all__ = ["VerdictCache", "key_of"]

KEPT = ("passed", "failed", "broken", "crashed", "no_tests", "tampered")
FLAKY = ("Flaky", "FlakyFailure", "FlakyReplay", "FlakyStrategyDefinition", "DeadlineExceeded")


class VerdictCache:
    """A directory of reports, named by the hash of what they are reports of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Report | None:
        path = self._path(key)
        try:
            report = Report.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):  # torn or from another time: as good as none
            return None
        return report.model_copy(update={"cached": True})

    def put(self, key: str, report: Report) -> None:
        if not _lasting(report):
            return
        path = self._path(key)
        path.parent.mkdir(exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(report.model_dump_json())
            os.replace(name, path)  # a reader sees all of it or nothing
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def key_of(submission: Submission, suite: Suite, job: Job, runner: str, version: str) -> str:
    """Submission, suite with what it expects, environment, limits, seed, runner and all versions.

    Of an image only the name counts: who gives one name to another image gets the verdicts of the first.
    """
    digest = hashlib.sha256()
    for part in (
        {path: hashlib.sha256(data).hexdigest() for path, data in submission.files.items()},
        {path: hashlib.sha256(data).hexdigest() for path, data in suite.files.items()},
        [_stable(case) for case in suite.cases],
        [job.workers, job.options, job.seed, job.seat, runner, version],
        [platform.python_version(), interpreter.packages()],
        job.environment.model_dump(),
        job.limits.model_dump(),
    ):
        digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()


def _stable(case: Case) -> dict[str, Any]:
    """What a case says, the same in every process: sets have an order of their own in each."""
    given = {name: getattr(case, name) for name in sorted(case.model_fields_set)}
    return {name: _sorted(values.encode(value)) for name, value in given.items()}


def _sorted(encoded: Any) -> Any:
    if isinstance(encoded, list):
        return [_sorted(item) for item in encoded]
    if not isinstance(encoded, dict):
        return encoded
    inner = {key: _sorted(item) for key, item in encoded.items()}
    for key in ("$set", "$frozenset"):
        if key in inner:
            inner[key] = sorted(inner[key], key=json.dumps)
    return inner


def _lasting(report: Report) -> bool:
    if report.verdict not in KEPT:
        return False
    for failure in report.failures:
        if failure.kind in ("timeout", "memory", "lost"):
            return False
        if failure.exception is not None and failure.exception.type in FLAKY:
            return False
    return True
