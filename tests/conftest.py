"""`runner`: every backend, entered once per session.

A backend that this machine lacks is a skip that says why. One that
`REPROOF_REQUIRE_RUNNERS=bubblewrap,docker` promises and that is not there is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from harness.verify import entered, run_blocking
from runners.contract import Runner, RunnerUnavailable
from runners.docker import DockerRunner
from tests.browser import browser
from tests.engine import docker_host

__all__ = ["browser", "docker_host", "runner"]

BACKENDS = ("bubblewrap", "docker", "process")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs_isolation: hostile to its machine; never run on a runner that does not isolate"
    )


@pytest.fixture(params=BACKENDS)
def runner(request: pytest.FixtureRequest) -> Runner:
    """A runner that is ready to open sandboxes: `verify(..., runner=runner)`."""
    if request.param == "process" and request.node.get_closest_marker("needs_isolation"):
        pytest.skip("process does not isolate")
    ready: Runner = request.getfixturevalue(f"{request.param}_runner")
    return ready


@pytest.fixture(scope="session")
def bubblewrap_runner() -> Iterator[Runner]:
    yield from _entered("bubblewrap")


@pytest.fixture(scope="session")
def docker_runner(docker_host: str) -> Iterator[Runner]:
    yield from _entered(DockerRunner(docker_host))


@pytest.fixture(scope="session")
def process_runner() -> Iterator[Runner]:
    yield from _entered("process")


def _entered(chosen: str | DockerRunner) -> Iterator[Runner]:
    stack = AsyncExitStack()
    name = chosen if isinstance(chosen, str) else chosen.name
    try:
        context = entered(chosen, None) if isinstance(chosen, str) else chosen
        yield run_blocking(stack.enter_async_context(context))
    except RunnerUnavailable as exc:
        promised = name in os.environ.get("REPROOF_REQUIRE_RUNNERS", "").split(",")
        (pytest.fail if promised else pytest.skip)(str(exc))
    finally:
        run_blocking(stack.aclose())
