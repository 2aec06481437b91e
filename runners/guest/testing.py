"""Runs pytest as its own command would, with two differences: the suite alone
configures it, and our plugin listens.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import TYPE_CHECKING

from . import failures, importer, plugin
from .child import TestClock

if TYPE_CHECKING:
    from typing import Any

    from _pytest.config import ConftestImportFailure

    from .child import Channel

CONFIGURATION = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


def run(job: dict[str, Any], workspace: str, channel: Channel) -> None:
    import pytest
    from _pytest.config import ConftestImportFailure, _prepareconfig

    suite = [path for path, _ in job["suite"]]
    describe = failures.Describer(workspace, suite)
    clock = TestClock(job["limits"]["test_seconds"])
    clock.arm()
    listener = plugin.Listener(channel, describe, clock, job)
    plugin.listener = listener
    for folder in (os.path.join(workspace, "src"), workspace):
        if os.path.isdir(folder):
            sys.path.insert(0, folder)
    arguments = _arguments(job, workspace, suite)
    sys.argv = ["pytest", *arguments]
    os.environ["PYTEST_VERSION"] = pytest.__version__
    if job["workers"]:
        _publish(os.environ["TMPDIR"], job)
    try:
        config = _prepareconfig(arguments, [plugin])
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
    from _pytest.config.findpaths import load_config_dict_from_file

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
    """Import what a run will need, by setting one up and throwing it away.

    pytest would rewrite the assertions inside of these plugins, for which it keeps
    byte code beside them; a sandbox is read-only, so every start would compile them
    anew. Their own assertions are none of a suite's concern: they say so themselves.
    """
    from _pytest.config import _prepareconfig

    for name in KNOWN_PLUGINS:
        try:
            __import__(name)
        except ImportError:
            continue
        module = sys.modules[name]
        module.__doc__ = (module.__doc__ or "") + "\n\nPYTEST_DONT_REWRITE"
    config = _prepareconfig(["-c", os.devnull, "--rootdir=/", "--color=no", "-s"])
    config._ensure_unconfigure()


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
