"""A report as GitHub workflow commands: annotations at the lines that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import text

if TYPE_CHECKING:
    from ..models import Failure, Report

__all__ = ["render"]


def render(report: Report) -> str:
    if report.verdict == "passed":
        return f"::notice title=Reproof::{_escaped(f'passed: {report.reason}')}\n"
    lines = [_annotation(failure) for failure in report.failures]
    findings = report.integrity.findings if report.integrity is not None else ()
    lines += [f"::error title=Tampering::{_escaped(finding)}" for finding in findings]
    level = "warning" if report.verdict == "invalid" else "error"
    lines.append(f"::{level} title=Reproof::{_escaped(f'{report.verdict}: {report.reason}')}")
    return "\n".join(lines) + "\n"


def _annotation(failure: Failure) -> str:
    where = failure.place or failure.test_place
    path, _, line = where.rpartition(":") if where else ("", "", "")
    properties = [f"file={_property(path)}", f"line={line}"] if path else []
    properties.append(f"title={_property(failure.nodeid or 'the run')}")
    return f"::error {','.join(properties)}::{_escaped(chr(10).join(text.describe(failure)))}"


def _escaped(value: str) -> str:
    return text.plain(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")
