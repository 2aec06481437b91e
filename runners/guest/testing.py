"""Runs pytest as its own command would, with two differences: the suite alone
configures it, and our plugin listens.
"""

from __future__ import annotations

import base64
import faulthandler
import fnmatch
import os
import pathlib
import shutil
import sys

import pytest
from _pytest.capture import CaptureManager
from _pytest.config import ConftestImportFailure, _prepareconfig
from _pytest.config.findpaths import load_config_dict_from_file
from _pytest.faulthandler import fault_handler_stderr_fd_key
from _pytest.main import _main

from . import assembly, child, failures, importer, plugin, pristine, served, watch
from .child import TestClock
from .guard import Guard
from .installed import has_other_plugins

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from .child import Channel
    from .judging import Watch

CONFIGURATION = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


def run(
    job: dict[str, Any],
    workspace: str,
    channel: Channel,
    ready: pytest.Session | None = None,
    describe: failures.Describer | None = None,
    watch: Watch | None = None,
) -> None:
    """Run the suite; `ready` is a session that has begun already, for suites that configure nothing themselves.

    `describe` and `watch` come from the judge of the seat `separate`.
    """
    suite = [path for path, _ in job["suite"]]
    describe = describe or failures.Describer(workspace, suite, failures.texts(job["suite"]))
    clock = TestClock(job["limits"]["test_seconds"])
    clock.arm()
    listener = plugin.Listener(channel, describe, clock, job)
    listener.watch = watch
    plugin.listener = listener
    guard = None
    if ready is None:
        needed = set(sys.modules)
        preload(_mentions_hypothesis(job))  # while the job's own modules are not on the path
        child.note_preloads(needed)
        child.forget_namesakes(job)
    for folder in (os.path.join(workspace, "src"), workspace):
        if os.path.isdir(folder):
            sys.path.insert(0, folder)
    os.environ["PYTEST_VERSION"] = pytest.__version__
    if "hypothesis.configuration" in sys.modules:  # it took the directory in which we were started
        sys.modules["hypothesis.configuration"].set_hypothesis_home_dir(os.path.join(workspace, ".hypothesis"))
    if job["workers"]:
        _publish(os.environ["TMPDIR"], job)
    elif job["hardened"] and watch is None:
        guard = listener.guard = Guard(job, workspace, channel, describe)
        guard.begin()
    try:
        if ready is not None and is_plain(job):
            served.ready = {os.path.join(workspace, path): code for path, code in job["code"].items()}
            status = _go_on(ready)
        else:
            status = _from_the_start(_arguments(job, workspace, suite), listener)
    finally:
        channel.flush()  # what was held is to be told, also if pytest itself falls over
    ended = guard.end() if guard is not None else {}
    channel.send({"e": "finish", "status": status, **ended})


def _from_the_start(arguments: list[str], listener: plugin.Listener) -> int:
    sys.argv = ["pytest", *arguments]
    try:
        config = _prepareconfig(arguments, [plugin])
        try:
            return int(config.hook.pytest_cmdline_main(config=config))
        finally:
            config._ensure_unconfigure()
    except ConftestImportFailure as exc:
        listener.collection_failed(listener.describe.relative(str(exc.path)) or "conftest.py", exc.cause)
    except pytest.UsageError as exc:
        if _came_from_the_submission(exc, listener):
            listener.collection_failed("", exc)
        else:
            listener.refused(" ".join(str(arg) for arg in exc.args))
    return int(pytest.ExitCode.USAGE_ERROR)


def _came_from_the_submission(exc: BaseException, listener: plugin.Listener) -> bool:
    """Whether candidate code may have raised it: one that could would make a zero of its own our failure."""
    if listener.guard is not None and listener.guard.watch.touched:
        return True
    traceback = exc.__traceback__
    while traceback is not None:
        if listener.describe.owner(traceback.tb_frame.f_code.co_filename) == "submission":
            return True
        traceback = traceback.tb_next
    return False


def _go_on(session: pytest.Session) -> int:
    """From where `prepare` stopped to the end, as pytest's own main does."""
    config = session.config
    sys.argv = ["pytest", *config.invocation_params.args]
    capture = _capture(config)
    capture.start_global_capturing()
    capture.suspend_global_capture()
    stderr = config.stash.get(fault_handler_stderr_fd_key, None)
    if stderr is not None:
        os.dup2(2, stderr, inheritable=False)  # a crash is to be told to this job's stderr
        faulthandler.enable(file=stderr)
    try:
        session.exitstatus = _main(config, session) or pytest.ExitCode.OK
    except session.Failed:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    except (KeyboardInterrupt, pytest.exit.Exception):
        config.hook.pytest_keyboard_interrupt(excinfo=pytest.ExceptionInfo.from_current())
        session.exitstatus = pytest.ExitCode.INTERRUPTED
    except BaseException:
        config.notify_exception(pytest.ExceptionInfo.from_current(), config.option)
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
    finally:
        os.chdir(session.startpath)
        for name in ("lfplugin", "nfplugin"):
            # They would write a folder of files for the next run in this workspace, and there is none.
            config.pluginmanager.unregister(name=name)
        config.hook.pytest_sessionfinish(session=session, exitstatus=session.exitstatus)
        config._ensure_unconfigure()
    return int(session.exitstatus)


def is_plain(job: dict[str, Any]) -> bool:
    """Whether this job's configuration is the one that `prepare` has made.

    pytest reads options, configuration files and the first conftest.py before it looks at
    any test. A suite that has none of these, with the seed that `prepare` assumed, would
    get exactly the same arguments, and so exactly the same configuration.
    """
    if job["workers"] or job["options"] or job["seed"]:
        return False
    if any(name.startswith("PYTEST") for name in job["variables"]):
        return False
    paths = [path for path, _ in job["suite"]]
    names = {path.rpartition("/")[2] for path in paths}
    return names.isdisjoint((*CONFIGURATION, "conftest.py")) and not _unnamed(paths)


def prepare(workspace: str, temporary: str) -> pytest.Session | None:
    """A session of a suite that configures nothing itself, begun before there is a job.

    None if it cannot be, or if it would not be the same: what is said meanwhile would be
    said once and not to each job. Then each run begins its own.
    """
    os.environ["TMPDIR"] = temporary
    for folder in (workspace, temporary):
        os.makedirs(folder)
    os.chdir(workspace)
    silent = plugin.Silent()
    plugin.listener = plugin.Listener(silent, failures.Describer(workspace, ()), TestClock(0), PLAIN)
    try:
        session = begin(workspace)
        if session is not None:
            pristine.kept = pristine.Pristine()
            assembly.kept = assembly.Assembly(session)
    except Exception:
        return None
    finally:
        os.chdir("/")
        for folder in (workspace, temporary):
            shutil.rmtree(folder, ignore_errors=True)
    return None if silent.heard else session


PLAIN: dict[str, Any] = {"workers": 0, "options": [], "seed": 0}
"""What is known of a suite that configures nothing itself."""


def begin(workspace: str) -> pytest.Session | None:
    """Such a suite's session, at the point where it would collect; nothing is captured.

    None if there is a plugin that we do not know: it may do anything when it is configured.
    """
    config = _prepareconfig(_arguments(PLAIN, workspace, []), [plugin])
    if has_other_plugins(config):
        config._ensure_unconfigure()
        return None
    session = pytest.Session.from_config(config)
    config._do_configure()
    config.hook.pytest_sessionstart(session=session)
    _capture(config).stop_global_capturing()  # its files and streams would be shared by all jobs
    return session


def _capture(config: pytest.Config) -> CaptureManager:
    found = config.pluginmanager.getplugin("capturemanager")
    assert isinstance(found, CaptureManager)
    return found


def _arguments(job: dict[str, Any], workspace: str, suite: list[str]) -> list[str]:
    path, settings = _configuration(workspace, suite)
    arguments = ["--rootdir=" + workspace, "--confcutdir=" + workspace, "-c", path, "--color=no"]
    if "hypothesis" in sys.modules:
        arguments.append("--hypothesis-seed=%d" % job["seed"])
    else:  # nothing here uses it, and its plugin would import it at the end just to see that
        arguments += ["-p", "no:hypothesispytest"]
    if "pytest_asyncio" in sys.modules:
        # Async tests run without ceremony, unless the suite has decided about them.
        for name, value in (("asyncio_mode", "auto"), ("asyncio_default_fixture_loop_scope", "function")):
            if name not in settings:
                arguments += ["-o", f"{name}={value}"]
    if job["workers"]:
        arguments += ["-n", str(job["workers"]), "-p", importer.PACKAGE + ".plugin"]
    if "python_files" not in settings:
        arguments += [os.path.join(workspace, path) for path in _unnamed(suite)]
    return arguments + list(job["options"])


def _unnamed(suite: list[str]) -> list[str]:
    """The files of a suite in which none has a test file's name: they are meant all the same."""
    files = [path for path in suite if path.endswith(".py")]
    names = [path.rpartition("/")[2] for path in files]
    if any(fnmatch.fnmatch(name, pattern) for name in names for pattern in ("test_*.py", "*_test.py")):
        return []
    return [path for path, name in zip(files, names) if name not in ("conftest.py", "__init__.py")]  # noqa: B905  # 3.9


def _configuration(workspace: str, suite: list[str]) -> tuple[str, dict[str, Any]]:
    """The file that stock pytest would take, if it is the suite's, with what it sets; else none at all."""
    for name in CONFIGURATION:
        path = pathlib.Path(workspace, name)
        if name in suite:
            settings = load_config_dict_from_file(path)
            if settings is not None or name.lstrip(".") == "pytest.ini":
                return str(path), settings or {}
    return os.devnull, {}


MARK = "PYTEST_DONT_REWRITE"
KNOWN_PLUGINS = (
    "hypothesis",
    "_hypothesis_globals",
    "_hypothesis_pytestplugin",
    "pytest_asyncio",
    "pytest_asyncio.plugin",
    "xdist",
    "xdist.plugin",
    "xdist.looponfail",
)


def _mentions_hypothesis(job: dict[str, Any]) -> bool:
    return any(b"hypothesis" in base64.b64decode(data) for _, data in (*job["suite"], *job["submission"]))


def preload(hypothesis: bool = True) -> None:
    """Import what a run will need, before it looks for it. Hypothesis is large, and not every run needs it.

    pytest would rewrite the assertions inside of these plugins, for which it keeps
    byte code beside them; a sandbox is read-only, so every start would compile them
    anew. Their own assertions are none of a suite's concern: they say so themselves.
    """
    for name in KNOWN_PLUGINS:
        if name == "hypothesis" and not hypothesis:
            continue
        try:
            __import__(name)
        except ImportError:
            continue
        if name == "hypothesis":
            watch.listen_to_rejections()
        module = sys.modules[name]
        if MARK not in (module.__doc__ or ""):
            module.__doc__ = f"{module.__doc__ or ''}\n\n{MARK}"


def _publish(temporary: str, job: dict[str, Any]) -> None:
    """xdist's workers are interpreters of their own: they need the plugin as files."""
    folder = os.path.join(temporary, "reproof")
    package = os.path.join(folder, importer.PACKAGE)
    os.makedirs(package)
    for name, source in importer.sources().items():
        with open(os.path.join(package, name + ".py"), "w", encoding="utf-8") as file:
            file.write(source)
    open(os.path.join(package, "__init__.py"), "w").close()
    sys.path.append(folder)
    frozen = getattr(sys.modules.get("xdist.plugin"), "_sys_path", None)
    if frozen is not None:  # what it hands to its workers; it took it before there was a job
        frozen[:] = sys.path
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    plugin.for_workers(job, os.path.join(folder, "job.json"))
