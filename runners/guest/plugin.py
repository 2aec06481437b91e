"""The pytest plugin that tells what happens, as it happens. Nothing is parsed from text.

Data is taken from pytest's own objects in the process that runs the test and
travels with the report (`report.reproof`), so that xdist's workers, whose
reports are serialised, tell as much as a single process does.
"""

from __future__ import annotations

import fnmatch
import json
import os
import signal
import time

import pytest

from . import failures
from .child import OutOfTime, TestClock

TEXT = 32_000
WARNINGS = 100
IDS_PER_EVENT = 1_000
WORKER_VARIABLE = "REPROOF_WORKER"

listener = None  # set by whoever runs pytest; in an xdist worker, by pytest_configure


def for_workers(job):
    return json.dumps({"suite": [path for path, _ in job["suite"]], "limits": job["limits"], "seed": job["seed"]})


class Silent:
    """An xdist worker's channel: its reports go to the controller, which has the real one."""

    def send(self, event):
        pass


class AlarmClock(TestClock):
    """In an xdist worker no supervisor sees a test start; the alarm clock does."""

    def arm(self):
        signal.signal(signal.SIGALRM, self._ring)

    def start(self):
        signal.setitimer(signal.ITIMER_REAL, self.seconds, 0.25)

    def stop(self):
        signal.setitimer(signal.ITIMER_REAL, 0)


class Listener:
    def __init__(self, channel, describe, clock, job):
        self.channel = channel
        self.describe = describe
        self.clock = clock
        self.seed = job["seed"]
        self.finished = frozenset(job.get("finished", ()))
        self.comparison = None
        self.warnings = 0
        self.counted = {}
        self.distributed = False

    def collection_failed(self, nodeid, exc):
        failure = self.describe(exc, exc.__traceback__)
        self.channel.send({"e": "collect_error", "id": nodeid, "failure": failure})

    def refused(self, message):
        self.channel.send({"e": "refused", "message": failures.cut(message, failures.MESSAGE)})

    # --- failures -----------------------------------------------------------

    def failure(self, excinfo):
        exc = _unwrap(excinfo.value)
        failure = self.describe(exc, exc.__traceback__)
        assertion = self._assertion(exc)
        if assertion:
            failure["assertion"] = assertion
        example = _falsifying_example(exc)
        if example:
            failure["hypothesis"] = {"example": example, "seed": self.seed}
        return failure

    def _assertion(self, exc):
        if not isinstance(exc, AssertionError):
            return None
        message = failures.safe_str(exc)
        compared = self.comparison
        if compared and (not compared["explanation"] or compared["explanation"][0] in message):
            explanation = compared["explanation"]
            return {
                "operator": compared["operator"],
                "left": failures.safe_repr(compared["left"], failures.OPERAND),
                "right": failures.safe_repr(compared["right"], failures.OPERAND),
                "diff": failures.cut("\n".join(explanation[1:]), TEXT).strip("\n"),
            }
        return _unittest_assertion(exc)

    def skip(self, excinfo):
        """Who skipped: the file of the innermost frame outside pytest, or none for a mark."""
        owner, place, traceback = "suite", None, excinfo.tb
        while traceback is not None:
            filename = traceback.tb_frame.f_code.co_filename
            found = self.describe.owner(filename)
            if found != "library":
                owner, place = found, "%s:%d" % (self.describe.relative(filename), traceback.tb_lineno)
            traceback = traceback.tb_next
        return {"by": owner, "place": place, "reason": failures.cut(failures.safe_str(excinfo.value), 500)}


def _unwrap(exc):
    """pytest wraps errors of collection; the candidate's own is inside."""
    inner = getattr(exc, "cause", None)
    if isinstance(inner, BaseException) and type(exc).__name__ == "ConftestImportFailure":
        return inner
    if isinstance(exc, pytest.Collector.CollectError) and exc.__cause__ is not None:
        return exc.__cause__
    return exc


def _falsifying_example(exc):
    for note in getattr(exc, "__notes__", None) or ():
        if isinstance(note, str) and note.startswith(("Falsifying example", "Falsifying explicit example")):
            return failures.cut(note.partition(": ")[2], failures.MESSAGE)
    return None


_UNITTEST = {
    "assertEqual": ("==", "first", "second"),
    "assertNotEqual": ("!=", "first", "second"),
    "assertAlmostEqual": ("≈", "first", "second"),
    "assertIs": ("is", "expr1", "expr2"),
    "assertIsNot": ("is not", "expr1", "expr2"),
    "assertIn": ("in", "member", "container"),
    "assertNotIn": ("not in", "member", "container"),
    "assertLess": ("<", "a", "b"),
    "assertLessEqual": ("<=", "a", "b"),
    "assertGreater": (">", "a", "b"),
    "assertGreaterEqual": (">=", "a", "b"),
    "assertIsInstance": ("isinstance", "obj", "cls"),
}


def _unittest_assertion(exc):
    """unittest's assert methods have their operands as arguments, in a frame of the traceback."""
    traceback = exc.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_name in _UNITTEST and frame.f_code.co_filename.endswith(os.path.join("unittest", "case.py")):
            operator, left, right = _UNITTEST[frame.f_code.co_name]
            return {
                "operator": operator,
                "left": failures.safe_repr(frame.f_locals.get(left), failures.OPERAND),
                "right": failures.safe_repr(frame.f_locals.get(right), failures.OPERAND),
                "diff": "",
            }
        traceback = traceback.tb_next
    return None


# --- hooks ------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    global listener
    if hasattr(config, "workerinput"):
        handed = json.loads(os.environ[WORKER_VARIABLE])
        clock = AlarmClock(handed["limits"]["test_seconds"])
        clock.arm()
        listener = Listener(Silent(), failures.Describer(str(config.rootpath), handed["suite"]), clock, handed)
    listener.distributed = bool(getattr(config.option, "numprocesses", None)) or hasattr(config, "workerinput")


def pytest_sessionstart(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:  # its dots and summaries are for a terminal, and there is none
        reporter._tw._file = open(os.devnull, "w")


def pytest_ignore_collect(collection_path, config):
    """Only the suite's files are tests; a submission's own do not count.

    Doctests of the submission's modules are collected if the suite asks for them.
    """
    if collection_path.is_dir():
        return None
    path = listener.describe.relative(str(collection_path))
    if path is None or path in listener.describe.suite:
        return None
    if config.getoption("doctestmodules", False) and collection_path.suffix == ".py":
        patterns = [*config.getini("python_files"), "conftest.py"]
        return any(fnmatch.fnmatch(collection_path.name, pattern) for pattern in patterns) or None
    return None if collection_path.name == "__init__.py" else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    if listener.finished:  # a process before this one has already reported them
        items[:] = [item for item in items if item.nodeid not in listener.finished]


def pytest_collection_finish(session):
    if not listener.distributed:
        _send_ids([item.nodeid for item in session.items])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node, ids):
    if "collected" not in listener.counted:
        listener.counted["collected"] = True
        _send_ids(list(ids))


def _send_ids(ids):
    for start in range(0, len(ids), IDS_PER_EVENT):
        listener.channel.send({"e": "collected", "ids": ids[start : start + IDS_PER_EVENT]})


def pytest_deselected(items):
    if items:
        ids = [item.nodeid for item in items]
        listener.channel.send({"e": "deselected", "count": len(ids), "ids": ids[:100]})


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    call = getattr(report, "call", None)
    if call is not None and call.excinfo is not None:
        if report.outcome == "skipped":
            report.reproof = {"skip": listener.skip(call.excinfo)}
        else:
            report.reproof = {"failure": listener.failure(call.excinfo)}
    return report


def pytest_collectreport(report):
    if report.outcome == "passed":
        return
    event = {"e": "collect_error" if report.outcome == "failed" else "collect_skip", "id": report.nodeid}
    event.update(getattr(report, "reproof", {}))
    listener.channel.send(event)


def pytest_runtest_logstart(nodeid, location):
    listener.comparison = None
    listener.channel.send({"e": "start", "id": nodeid})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    clock = listener.clock
    clock.running = True
    if hasattr(clock, "start"):
        clock.start()
    try:
        return (yield)
    except OutOfTime:
        raise  # between two phases: the supervisor ends the process
    finally:
        clock.running = False
        if hasattr(clock, "stop"):
            clock.stop()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    listener.clock.running = False  # describing a failure is not the test's time
    report = yield
    described = {}
    if call.excinfo is not None:
        if report.outcome == "skipped":
            described["skip"] = listener.skip(call.excinfo)
        elif report.outcome == "failed":
            described["failure"] = listener.failure(call.excinfo)
    report.reproof = described
    listener.clock.running = call.when != "teardown"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_assertrepr_compare(config, op, left, right):
    explanations = yield
    listener.comparison = {
        "operator": op,
        "left": left,
        "right": right,
        "explanation": next((lines for lines in explanations if lines), []),
    }
    return explanations


def pytest_runtest_logreport(report):
    event = {
        "e": "phase",
        "id": report.nodeid,
        "when": report.when,
        "outcome": report.outcome,
        "seconds": round(report.duration, 6),
    }
    event.update(getattr(report, "reproof", {}))
    if hasattr(report, "wasxfail"):
        event["xfail"] = failures.cut(str(report.wasxfail), 500)
    if hasattr(report, "_sub_test_description"):
        event["subtest"] = failures.cut(report._sub_test_description(), 500)
    if report.outcome == "failed":
        event["stdout"] = failures.cut(report.capstdout, TEXT)
        event["stderr"] = failures.cut(report.capstderr, TEXT)
        event["log"] = failures.cut(report.caplog, TEXT)
        if "failure" not in event:  # xdist's own word for a worker that died
            event["lost"] = failures.cut(str(report.longrepr), failures.MESSAGE)
    if report.when == "teardown" or report.outcome == "failed":
        event["out"] = _newly_printed(report)
    listener.channel.send(event)


def _newly_printed(report):
    printed = sum(len(text) for name, text in report.sections)
    before = listener.counted.pop(report.nodeid, 0)
    if report.when != "teardown":
        listener.counted[report.nodeid] = printed
    return max(0, printed - before)


def pytest_runtest_logfinish(nodeid, location):
    listener.channel.send({"e": "stop", "id": nodeid})


def pytest_warning_recorded(warning_message, when, nodeid, location):
    listener.warnings += 1
    if listener.warnings <= WARNINGS:
        listener.channel.send({
            "e": "warning",
            "id": nodeid,
            "when": when,
            "category": warning_message.category.__name__,
            "message": failures.cut(failures.safe_str(warning_message.message), 1000),
            "path": listener.describe.relative(warning_message.filename) or "",
            "line": warning_message.lineno,
        })


def pytest_internalerror(excinfo):
    listener.channel.send({"e": "internal_error", "failure": listener.failure(excinfo)})


def pytest_keyboard_interrupt(excinfo):
    if isinstance(excinfo.value, pytest.Session.Interrupted):
        return  # pytest's own: it stops after errors in collection, or when the suite's options say so
    listener.channel.send({"e": "interrupted", "failure": listener.failure(excinfo)})


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    listener.channel.send({
        "e": "session",
        "status": int(exitstatus),
        "collected": session.testscollected,
        "warnings_cut": max(0, listener.warnings - WARNINGS),
        "at": time.time(),
    })
