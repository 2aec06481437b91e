"""Runs pytest as its own command would, with two differences: the suite alone
configures it, and our plugin listens.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import TYPE_CHECKING

import pytest
from _pytest.capture import CaptureManager
from _pytest.config import ConftestImportFailure, _prepareconfig
from _pytest.config.findpaths import load_config_dict_from_file

from . import failures, importer, plugin
from .child import TestClock

if TYPE_CHECKING:
    from typing import Any

    from .child import Channel

CONFIGURATION = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


def run(job: dict[str, Any], workspace: str, channel: Channel, ready: pytest.Config | None = None) -> None:
    """Run the suite; `ready` is a configuration that stands already, if this suite brings none of its own."""
    suite = [path for path, _ in job["suite"]]
    describe = failures.Describer(workspace, suite)
    clock = TestClock(job["limits"]["test_seconds"])
    clock.arm()
    listener = plugin.Listener(channel, describe, clock, job)
    plugin.listener = listener
    for folder in (os.path.join(workspace, "src"), workspace):
        if os.path.isdir(folder):
            sys.path.insert(0, folder)
    os.environ["PYTEST_VERSION"] = pytest.__version__
    if job["workers"]:
        _publish(os.environ["TMPDIR"], job)
    try:
        config = _wake(ready) if ready is not None and is_plain(job) else _configure(job, workspace, suite)
        sys.argv = ["pytest", *config.invocation_params.args]
        try:
            status = config.hook.pytest_cmdline_main(config=config)
        finally:
            config._ensure_unconfigure()
    except ConftestImportFailure as exc:
        listener.collection_failed(failures_path(exc, describe), exc.cause)
        status = 4
    except pytest.UsageError as exc:
        listener.refused(" ".join(str(arg) for arg in exc.args))
        status = 4
    channel.send({"e": "finish", "status": int(status)})


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
    names = {path.rpartition("/")[2] for path, _ in job["suite"]}
    return names.isdisjoint((*CONFIGURATION, "conftest.py"))


def prepare(workspace: str, temporary: str) -> pytest.Config:
    """The configuration of a suite that brings none of its own, made before there is a job."""
    os.environ["TMPDIR"] = temporary
    for folder in (workspace, temporary):
        os.makedirs(folder)
    os.chdir(workspace)
    config = _configure({"workers": 0, "options": [], "seed": 0}, workspace, [])
    _capture(config).stop_global_capturing()  # its files and streams would be shared by all jobs
    os.chdir("/")
    for folder in (workspace, temporary):
        os.rmdir(folder)
    return config


def _configure(job: dict[str, Any], workspace: str, suite: list[str]) -> pytest.Config:
    return _prepareconfig(_arguments(job, workspace, suite), [plugin])


def _wake(config: pytest.Config) -> pytest.Config:
    """What pytest did with this process's own streams while it was configured."""
    _capture(config).start_global_capturing()
    _capture(config).suspend_global_capture()
    return config


def _capture(config: pytest.Config) -> CaptureManager:
    found = config.pluginmanager.getplugin("capturemanager")
    assert isinstance(found, CaptureManager)
    return found


def failures_path(exc: ConftestImportFailure, describe: failures.Describer) -> str:
    return describe.relative(str(exc.path)) or "conftest.py"


def _arguments(job: dict[str, Any], workspace: str, suite: list[str]) -> list[str]:
    path, settings = _configuration(workspace, suite)
    arguments = ["--rootdir=" + workspace, "-c", path, "--color=no"]
    if "hypothesis" in sys.modules:
        arguments.append("--hypothesis-seed=%d" % job["seed"])
    if "pytest_asyncio" in sys.modules:
        # Async tests run without ceremony, unless the suite has decided about them.
        for name, value in (("asyncio_mode", "auto"), ("asyncio_default_fixture_loop_scope", "function")):
            if name not in settings:
                arguments += ["-o", f"{name}={value}"]
    if job["workers"]:
        arguments += ["-n", str(job["workers"]), "-p", importer.PACKAGE + ".plugin"]
    return arguments + list(job["options"])


def _configuration(workspace: str, suite: list[str]) -> tuple[str, dict[str, Any]]:
    """The file that stock pytest would take, if it is the suite's, with what it sets; else none at all."""
    for name in CONFIGURATION:
        path = pathlib.Path(workspace, name)
        if name in suite:
            settings = load_config_dict_from_file(path)
            if settings is not None or name.lstrip(".") == "pytest.ini":
                return str(path), settings or {}
    return os.devnull, {}


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


def preload() -> None:
    """Import what a run will need, before there is one.

    pytest would rewrite the assertions inside of these plugins, for which it keeps
    byte code beside them; a sandbox is read-only, so every start would compile them
    anew. Their own assertions are none of a suite's concern: they say so themselves.
    """
    for name in KNOWN_PLUGINS:
        try:
            __import__(name)
        except ImportError:
            continue
        module = sys.modules[name]
        module.__doc__ = (module.__doc__ or "") + "\n\nPYTEST_DONT_REWRITE"


def _publish(temporary: str, job: dict[str, Any]) -> None:
    """xdist's workers are interpreters of their own: they need the plugin as files."""
    folder = os.path.join(temporary, "reproof")
    package = os.path.join(folder, importer.PACKAGE)
    os.makedirs(package)
    for name, source in importer.sources.items():
        with open(os.path.join(package, name + ".py"), "w", encoding="utf-8") as file:
            file.write(source)
    open(os.path.join(package, "__init__.py"), "w").close()
    sys.path.append(folder)
    frozen = getattr(sys.modules.get("xdist.plugin"), "_sys_path", None)
    if frozen is not None:  # what it hands to its workers; it took it before there was a job
        frozen[:] = sys.path
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    os.environ[plugin.WORKER_VARIABLE] = plugin.for_workers(job)
