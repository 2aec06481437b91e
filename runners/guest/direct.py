"""Runs a suite of one simple module by calling its tests, with no session of pytest's around them.

The host has read the suite: its tests are functions without parameters, marks or fixtures, and
do nothing by which they could tell what is around them (`runners/simple.py`). What pytest would
do with such a suite comes down to importing the module and calling each test, which is done
here. A passed test costs what it calls, and three events.

Whatever is more than that is pytest's own business:

- A module that cannot be imported, or that holds more than the host has read in it (with
  `from solution import *` a candidate may bring tests, hooks and fixtures), is run by a session.
  It finds the module as it is, or fails to import it as it failed here: nothing is executed twice.
- An assert that has failed is explained by pytest's own functions and hooks.
- A test that was skipped, or that ends the run, is reported by an item of a session.

Where there is no session that has begun before the job, one is begun when it is needed. Until
then pytest need not even be imported.
"""

from __future__ import annotations

import faulthandler
import importlib.machinery
import io
import marshal
import os
import sys
import time
import types
import warnings

from . import child, explaining, failures, importer
from .light import from_base64
from .standins import OF_EVERY_MODULE

TYPE_CHECKING = False

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Sequence
    from typing import Any

    import pytest

    from . import plugin
    from .child import Channel
    from .judging import Watch

    Test = Callable[[], object]

SPECIAL = ("Test", "collect_ignore", "pytest", "setUp", "setup", "tearDown", "teardown", "__")
"""Names by which a module tells pytest something."""
OF_OUR_MODULE = OF_EVERY_MODULE | {"__annotations__"}
DATA = frozenset((type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset))
INTERRUPTED, FAILED, PASSED, NONE = 2, 1, 0, 5  # as `pytest.ExitCode` has it


class DirectRun:
    def __init__(
        self,
        job: dict[str, Any],
        workspace: str,
        channel: Channel,
        ready: pytest.Session | None,
        describe: failures.Describer,
        watch: Watch,
    ) -> None:
        self._job, self._workspace, self._channel = job, workspace, channel
        self._session, self._describe, self._watch = ready, describe, watch
        self._has_pytest = ready is not None
        ((self._path, self._code),) = job["code"].items()
        self._filename = os.path.join(workspace, self._path)
        self._clock = child.TestClock(job["limits"]["test_seconds"])
        self._printed = Printed()
        self._current = ""
        self._listener: plugin.Listener | None = None
        self._module: pytest.Module | None = None
        self._explaining: Any = None

    def to_the_end(self) -> None:
        faulthandler.enable(file=2)
        importer.when_imported("logging", self._printed.hear_logs)
        self._clock.arm()
        sys.path.insert(0, self._workspace)
        explaining.prepare = self._import_pytest
        with self._printed, Warned() as warned:
            failure = self._import()
        self._tell("collect", "", warned)
        tests = None if failure else tests_of(sys.modules[self._path[:-3]])
        if tests is None:
            self._leave_to_pytest(failure)
        else:
            self._run(tests)

    # --- the module -------------------------------------------------------------

    def _import(self) -> BaseException | None:
        """What went wrong, if anything did."""
        name = self._path[:-3]
        self._watch.begin(f"the collection of {self._path}")
        module = sys.modules[name] = types.ModuleType(name)
        module.__file__ = self._filename
        try:
            exec(marshal.loads(from_base64(self._code)), vars(module))  # noqa: S102, S302  # from our own host
        except BaseException as exc:
            return exc
        return None

    def _leave_to_pytest(self, failure: BaseException | None) -> None:
        from . import testing

        child.write_files(self._job["suite"], self._workspace)
        session = self._begun()
        sys.path.remove(self._workspace)
        sys.meta_path.insert(0, Imported(sys.modules.pop(self._path[:-3]), failure))
        testing.run(self._job, self._workspace, self._channel, session, self._describe, self._watch)

    # --- the tests ----------------------------------------------------------------

    def _run(self, tests: dict[str, Test]) -> None:
        explaining.compared = self._compared
        finished = self._job["finished"]
        todo = {f"{self._path}::{name}": test for name, test in tests.items()}
        todo = {nodeid: test for nodeid, test in todo.items() if nodeid not in finished}
        if todo:
            self._channel.hold({"e": "collected", "ids": list(todo)})
        status = PASSED if todo else NONE
        for nodeid, test in todo.items():
            ended = self._test(nodeid, test)
            status = ended or status
            if ended == INTERRUPTED:
                break
        self._watch.end()
        hidden = self._listener.warnings_cut if self._listener is not None else 0
        session = {"status": status, "collected": len(todo), "warnings_cut": hidden, "at": time.time()}
        self._channel.hold({"e": "session", **session})
        self._channel.send({"e": "finish", "status": status})

    def _test(self, nodeid: str, test: Test) -> int:
        self._channel.send({"e": "start", "id": nodeid})
        self._watch.begin(nodeid)
        self._current = nodeid
        if self._listener is not None:
            self._listener.comparison = None
        with self._printed, Warned() as warned:
            exc, seconds = self._call(nodeid, test)
            if exc is None:
                status = PASSED
                event = {"e": "phase", "id": nodeid, "when": "call", "outcome": "passed", "seconds": seconds}
                self._channel.hold({**event, "out": self._printed.count(self._log_formatter)})
            else:
                status = self._not_passed(nodeid, exc, seconds)
        if status != INTERRUPTED:
            self._channel.hold({"e": "stop", "id": nodeid})
        self._tell("runtest", nodeid, warned)
        return status

    def _call(self, nodeid: str, test: Test) -> tuple[BaseException | None, float]:
        clock, now = self._clock, time.perf_counter
        raised: BaseException | None = None
        begun = now()
        try:
            try:
                clock.begin()
                test()
                self._watch.check(nodeid)
            finally:
                clock.stop()
        except BaseException as exc:
            raised = exc
        return raised, round(now() - begun, 6)

    def _not_passed(self, nodeid: str, exc: BaseException, seconds: float) -> int:
        if _is_failure(exc):
            event = {"e": "phase", "id": nodeid, "when": "call", "outcome": "failed", "seconds": seconds}
            event.update(self._printed.told(self._log_formatter))
            event["failure"] = self._plugin.listener.failure(exc)
            self._channel.send(event)
            self._forget_comparison()
            return FAILED
        import pytest

        if isinstance(exc, (KeyboardInterrupt, pytest.exit.Exception)):
            self._plugin.pytest_keyboard_interrupt(pytest.ExceptionInfo.from_exception(exc))
            return INTERRUPTED
        return self._by_an_item(nodeid, exc, seconds)

    # --- with pytest's help -----------------------------------------------------

    def _import_pytest(self) -> None:
        """Where it was not needed until now, the time that it takes is not the test's."""
        if not self._has_pytest:
            self._has_pytest = True
            self._channel.send({"e": "preparing"})
            with warnings.catch_warnings(record=True):  # what is said of it is nothing that the suite has done
                from . import testing

                testing.preload(hypothesis=False)
            self._channel.send({"e": "prepared"})

    def _tell(self, when: str, nodeid: str, warned: list[warnings.WarningMessage]) -> None:
        for message in warned:
            self._plugin.pytest_warning_recorded(message, when, nodeid, None)

    def _by_an_item(self, nodeid: str, raised: BaseException, seconds: float) -> int:
        """What pytest makes of it: a skip, mostly."""
        import pytest

        def again() -> None:
            raise raised

        item = self._item(nodeid)
        for name, text in self._printed.texts(self._log_formatter).items():
            item.add_report_section("call", name, text)
        call = pytest.CallInfo.from_call(again, "call")
        call.duration = seconds
        report = item.ihook.pytest_runtest_makereport(item=item, call=call)
        self._plugin.pytest_runtest_logreport(report)
        return FAILED if report.outcome == "failed" else PASSED

    @property
    def _plugin(self) -> Any:
        """Our plugin, with a listener that speaks for this run."""
        self._import_pytest()
        from . import plugin

        if self._listener is None:
            self._listener = plugin.Listener(self._channel, self._describe, self._clock, self._job)
            self._listener.watch = self._watch
        plugin.listener = self._listener
        return plugin

    def _begun(self) -> pytest.Session:
        self._plugin  # noqa: B018  # it listens to what the session says
        if self._session is None:
            from . import testing

            with warnings.catch_warnings(record=True):
                self._session = testing.begin(self._workspace)
            assert self._session is not None  # with other plugins we would not be here
        return self._session

    def _item(self, nodeid: str) -> pytest.Item:
        import pytest

        session, name = self._begun(), nodeid.rpartition("::")[2]
        if self._module is None:
            made = pytest.Module.from_parent(session, path=session.config.rootpath / self._path)
            made.obj = sys.modules[self._path[:-3]]
            self._module = made
        return pytest.Function.from_parent(self._module, name=name)

    def _compared(self, operator: str, left: Any, right: Any) -> str | None:
        """What pytest has to say of a comparison in the test that is running."""
        from _pytest import assertion

        self._forget_comparison()
        self._explaining = assertion.pytest_runtest_protocol(self._item(self._current))
        next(self._explaining)
        explain = assertion.util._reprcompare
        assert explain is not None
        return explain(operator, left, right)

    def _forget_comparison(self) -> None:
        if self._explaining is not None:
            self._explaining.close()
            self._explaining = None

    def _log_formatter(self) -> logging.Formatter:
        found: Any = self._begun().config.pluginmanager.getplugin("logging-plugin")
        formatter: logging.Formatter = found.formatter
        return formatter


def tests_of(module: types.ModuleType) -> dict[str, Test] | None:
    """The tests of a module by name, in pytest's order; None if it holds anything else that pytest would look at."""
    tests: dict[str, Test] = {}
    for name, value in vars(module).items():
        if name.startswith("test"):
            if type(value) is types.FunctionType:
                if value.__globals__ is not vars(module) or value.__name__ != name or vars(value):
                    return None
                tests[name] = value
            elif type(value) not in DATA:
                return None
        elif name.startswith(SPECIAL) and name not in OF_OUR_MODULE and value is not sys.modules.get("pytest"):
            return None
    return tests


def _is_failure(exc: BaseException) -> bool:
    """Whether a test that raises this has failed, and nothing else is meant by it."""
    if isinstance(exc, KeyboardInterrupt):
        return False
    outcomes, unittest = sys.modules.get("_pytest.outcomes"), sys.modules.get("unittest.case")
    if outcomes is not None and isinstance(exc, (outcomes.OutcomeException, outcomes.Exit)):
        return type(exc) is outcomes.Failed
    return unittest is None or not isinstance(exc, unittest.SkipTest)


class Imported:
    """Gives pytest a module that has been imported already, or what has kept it from being imported."""

    def __init__(self, module: types.ModuleType, failure: BaseException | None) -> None:
        self._module, self._failure = module, failure

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name == self._module.__name__ else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        if self._failure is not None:
            raise self._failure


class Warned(warnings.catch_warnings):
    """Collects warnings, with pytest's filters for those who have none of their own."""

    def __init__(self) -> None:
        super().__init__(record=True)

    def __enter__(self) -> list[warnings.WarningMessage]:
        found = super().__enter__()
        if not sys.warnoptions:
            for kind in (DeprecationWarning, PendingDeprecationWarning):
                warnings.filterwarnings("always", category=kind)
        assert found is not None
        return found


class Printed:
    """What is printed and logged while it is entered."""

    def __init__(self) -> None:
        self._streams = {name: _stream() for name in ("stdout", "stderr")}
        self._records: list[logging.LogRecord] = []
        self._before: tuple[Any, Any] = (None, None)

    def __enter__(self) -> None:
        self._before = sys.stdout, sys.stderr
        for stream in self._streams.values():
            if stream.tell():
                stream.seek(0)
                stream.truncate()
        self._records.clear()
        sys.stdout, sys.stderr = self._streams.values()

    def __exit__(self, *_: object) -> None:
        sys.stdout, sys.stderr = self._before

    def hear_logs(self) -> None:
        import logging

        records = self._records

        class Heard(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                records.append(record)

        logging.root.addHandler(Heard())

    def texts(self, formatter: Callable[[], logging.Formatter]) -> dict[str, str]:
        found = {name: stream.buffer.getvalue().decode("utf-8") for name, stream in self._streams.items()}  # type: ignore[attr-defined]
        log = "\n".join(map(formatter().format, self._records)).strip() if self._records else ""
        return {**found, "log": log}

    def count(self, formatter: Callable[[], logging.Formatter]) -> int:
        if not self._records and not any(stream.tell() for stream in self._streams.values()):
            return 0
        return sum(map(len, self.texts(formatter).values()))

    def told(self, formatter: Callable[[], logging.Formatter]) -> dict[str, Any]:
        texts = self.texts(formatter)
        return {
            **{name: failures.cut(text, TEXT) for name, text in texts.items()},
            "out": sum(map(len, texts.values())),
        }


TEXT = 32_000


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", "replace", newline="", write_through=True)
