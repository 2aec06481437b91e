"""Fixtures for your own tests: `verify` runs code in a sandbox, `sandbox` is a pool of warm ones.

def test_the_model_can_add(verify):
    report = verify("def add(a, b): return a + b", "from solution import add\\n...")
    assert report.passed, report
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from runners.pool import Pool

    from .models import Report, Submission, Suite


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reproof", "verification of generated code")
    group.addoption("--reproof-runner", default=None, help="auto, bubblewrap, docker or process")


@pytest.fixture(scope="session")
def sandbox(pytestconfig: pytest.Config) -> Iterator[Pool]:
    """A pool of warm sandboxes, for `harness.verify(..., runner=sandbox)`; each is used once.

    A machine without a sandbox fails the test, and says what to install.
    """
    from .warm import warm  # a test run that uses no fixture pays for no import

    with warm(pytestconfig.getoption("--reproof-runner"), size=1) as pool:
        yield pool


@pytest.fixture
def verify(sandbox: Pool, request: pytest.FixtureRequest) -> Callable[..., Report]:
    """`verify(submission, suite, **options)`; text stands for solution.py and test_solution.py.

    Should the test fail, it shows the reports of what did not pass.
    """
    from .models import Submission, Suite
    from .verify import verify as run

    def verify_here(submission: Submission | str, suite: Suite | str, **options: Any) -> Report:
        if isinstance(submission, str):
            submission = Submission.from_code(submission)
        if isinstance(suite, str):
            suite = Suite.from_code(suite)
        report = run(submission, suite, **{"runner": sandbox, **options})
        if not report.passed:
            request.node.add_report_section("call", "verification", str(report))
        return report

    return verify_here
