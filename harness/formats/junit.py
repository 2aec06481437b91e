"""A report as JUnit XML, as CI servers read it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from . import text

if TYPE_CHECKING:
    from ..models import Failure, Report

__all__ = ["render"]

# What XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


# JUnit knows no test without a result: it would be taken for a pass.
_SKIPPED = {"skipped": "skipped", "xfailed": "expected to fail", "not_run": "not run, or not to its end"}


def render(report: Report) -> str:
    failed = [failure for failure in report.failures if failure.phase == "call"]
    errors = [failure for failure in report.failures if failure.phase != "call"]
    known = {test.nodeid for test in report.tests}
    skipped = [test for test in report.tests if test.outcome in _SKIPPED]
    lonely = [failure for failure in report.failures if failure.nodeid not in known]
    undecided = not report.failures and report.verdict != "passed"
    root = ET.Element("testsuites")
    suite = ET.SubElement(
        root,
        "testsuite",
        name="reproof",
        tests=str(len(report.tests) + len(lonely) + undecided),
        failures=str(len({failure.nodeid for failure in failed})),
        errors=str(len({failure.nodeid for failure in errors}) + undecided),
        skipped=str(len(skipped)),
        time=f"{report.measurements.total_seconds:.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    told = [("verdict", report.verdict), ("reason", report.reason), ("runner", report.runner)]
    if report.integrity is not None:
        told.append(("seat", report.integrity.seat))
        told += [("tampering", finding) for finding in report.integrity.findings]
    for name, value in told:
        ET.SubElement(properties, "property", name=name, value=_clean(value))
    by_test: dict[str, list[Failure]] = {}
    for failure in report.failures:
        by_test.setdefault(failure.nodeid, []).append(failure)
    for test in report.tests:
        case = _case(suite, test.nodeid, test.seconds)
        _add_failures(case, by_test.get(test.nodeid, []))
        if test.outcome in _SKIPPED:
            ET.SubElement(case, "skipped", message=_clean(test.reason or _SKIPPED[test.outcome]))
    for failure in lonely:
        _add_failures(_case(suite, failure.nodeid or "the run", 0), [failure])
    if undecided:
        case = _case(suite, f"verdict {report.verdict}", 0)
        ET.SubElement(case, "error", message=_clean(report.reason), type=report.verdict)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, nodeid: str, seconds: float) -> ET.Element:
    path, _, name = nodeid.partition("::")
    classname = _clean(path.removesuffix(".py").replace("/", "."))
    return ET.SubElement(suite, "testcase", classname=classname, name=_clean(name or path), time=f"{seconds:.3f}")


def _add_failures(case: ET.Element, failures: list[Failure]) -> None:
    for failure in failures:
        tag = "failure" if failure.phase == "call" else "error"
        element = ET.SubElement(case, tag, message=_clean(failure.message), type=failure.kind)
        element.text = _clean("\n".join(text.describe(failure)))
        for name in ("stdout", "stderr"):
            if getattr(failure, name):
                ET.SubElement(case, f"system-{name[3:]}").text = _clean(getattr(failure, name))


def _clean(value: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", value)
