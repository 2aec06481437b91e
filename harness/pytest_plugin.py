"""Fixtures for your own tests: `verify` runs code in a sandbox, `sandbox` is the sandbox's runner.

    def test_the_model_can_add(verify):
        report = verify("def add(a, b): return a + b", "from solution import add\\n...")
        assert report.passed, report
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from runners.contract import Runner
    from runners.pool import Pool

    from .models import Report, Submission, Suite


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reproof", "verification of generated code")
    group.addoption("--reproof-runner", default=None, help="auto, bubblewrap, docker or process")


@pytest.fixture(scope="session")
def sandbox(pytestconfig: pytest.Config) -> Iterator[Runner | Pool]:
    """A runner that is ready to open sandboxes, for `harness.verify(..., runner=sandbox)`.

    A machine without a sandbox fails the test, and says what to install.
    """
    from .verify import entered, run_blocking  # a test run that uses no fixture pays for no import

    runner = entered(pytestconfig.getoption("--reproof-runner"), None)
    ready = run_blocking(runner.__aenter__())
    try:
        yield ready
    finally:
        with contextlib.suppress(StopAsyncIteration):
            run_blocking(runner.__aexit__(None, None, None))


@pytest.fixture
def verify(sandbox: Runner | Pool) -> Callable[..., Report]:
    """`verify(submission, suite, **options)`; text stands for solution.py and test_solution.py."""
    from .models import Submission, Suite
    from .verify import verify as run

    def verify_here(submission: Submission | str, suite: Suite | str, **options: Any) -> Report:
        if isinstance(submission, str):
            submission = Submission.from_code(submission)
        if isinstance(suite, str):
            suite = Suite.from_code(suite)
        return run(submission, suite, **{"runner": sandbox, **options})

    return verify_here
