"""The fixtures that a user's own tests get, in a pytest run of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

USERS_TESTS = """
from harness import Limits, Submission, Suite, Case, verify as verify_directly

SUITE = "from solution import add\\ndef test_add(): assert add(1, 2) == 3"

def test_text_is_enough(verify):
    report = verify("def add(a, b): return a + b", SUITE)
    assert report.passed, report

def test_values_too(verify):
    submission = Submission.from_code("def add(a, b): return a - b")
    report = verify(submission, Suite.from_cases([Case(call="solution.add", args=[1, 2], expected=3)]))
    assert report.verdict == "failed"

def test_options_are_passed_on(verify):
    report = verify("def add(a, b):\\n    while True: pass", SUITE, limits=Limits(wall_seconds=1))
    assert report.verdict == "timeout"

def test_the_runner_itself(sandbox):
    report = verify_directly(Submission.from_code("def add(a, b): return 3"), Suite.from_code(SUITE), runner=sandbox)
    assert report.runner == sandbox.name == "bubblewrap"

async def test_inside_a_running_loop(verify):
    assert verify("def add(a, b): return a + b", SUITE).passed
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_the_fixtures_are_there_without_any_set_up(tmp_path):
    """
    With Reproof installed a user's tests have `verify` and `sandbox`, and nothing must be configured.
    """
    (tmp_path / "test_user.py").write_text(USERS_TESTS)

    done = run(tmp_path, "--reproof-runner", "bubblewrap")

    assert "5 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_a_failing_report_is_readable_where_it_is_asserted(tmp_path):
    """
    `assert report.passed, report` shows the whole report of the candidate.
    """
    (tmp_path / "test_user.py").write_text(
        "SUITE = 'from solution import f\\ndef test(): assert f() == 2'\n"
        "def test(verify):\n    report = verify('def f(): return 1', SUITE)\n"
        "    assert report.passed, report\n"
    )

    done = run(tmp_path, "--reproof-runner", "bubblewrap")

    assert done.returncode == 1
    assert "FAILED: 1 of 1 tests did not pass" in done.stdout
    assert "assert 1 == 2" in done.stdout


def test_the_projects_setting_is_the_default(tmp_path):
    """
    Without an option the runner is that of [tool.reproof].
    """
    (tmp_path / "pyproject.toml").write_text("[tool.reproof]\nrunner = 'bubblewrap'\n")
    (tmp_path / "test_user.py").write_text("def test(sandbox): assert sandbox.name == 'bubblewrap'\n")

    assert run(tmp_path).returncode == 0


@pytest.mark.parametrize("workers", ["0", "2"])
def test_it_works_with_and_without_xdist(tmp_path, workers):
    """
    A user's run may be distributed: each worker has a runner of its own.
    """
    (tmp_path / "test_user.py").write_text(USERS_TESTS)

    done = run(tmp_path, "--reproof-runner", "bubblewrap", "-n", workers)

    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_a_runner_that_does_not_exist_is_an_error_that_says_so(tmp_path):
    """
    A wrong name of a runner is an error of the test that uses it, with the names that there are.
    """
    (tmp_path / "test_user.py").write_text("def test(sandbox): pass\n")

    done = run(tmp_path, "--reproof-runner", "vm")

    assert done.returncode != 0
    assert "no such runner 'vm'; there are auto, bubblewrap, docker, process" in done.stdout + done.stderr


def test_a_run_that_uses_no_fixture_pays_nothing(tmp_path):
    """
    A test run that does not verify anything does not import the docker libraries.
    """
    (tmp_path / "test_user.py").write_text(
        "import sys\ndef test(): assert not {'runners.docker', 'docker', 'testcontainers'} & set(sys.modules)\n"
    )

    assert run(tmp_path).returncode == 0
