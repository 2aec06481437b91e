"""The README stays true: its Python runs, its output is real, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^( *)```(\w*)\n(.*?)^ *```", README, re.MULTILINE | re.DOTALL)
PYTHON = [text for indent, language, text in BLOCKS if language == "python" and not indent]
SHELL = [line for _, language, text in BLOCKS if language == "sh" for line in text.splitlines()]


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def figures_out(text: str) -> str:
    """What does not depend on the machine: the report without its measurements and its sandbox."""
    return re.sub(r"\d+\.\d\d s|\d+ MB|0\.0$", "#", text.partition("\nsandbox:")[0])


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_the_python_runs_as_it_stands(code, tmp_path):
    """Every example can be pasted."""
    (tmp_path / "pyproject.toml").write_text('[tool.reproof]\nrunner = "bubblewrap"\n')

    done = run(sys.executable, "-c", code, folder=tmp_path)

    assert done.returncode == 0, done.stderr


def test_the_output_is_real(tmp_path):
    """What the first example prints is what the README shows under it."""
    (tmp_path / "pyproject.toml").write_text('[tool.reproof]\nrunner = "bubblewrap"\n')
    shown = next(text for _, language, text in BLOCKS if language == "")

    done = run(sys.executable, "-c", PYTHON[0], folder=tmp_path)

    assert figures_out(done.stdout) == figures_out(shown)


def test_the_first_line_to_try_finds_the_failure():
    """The one line verifies a real candidate that is wrong (the install before it is CI's)."""
    line = next(line for line in SHELL if "fixtures/samples" in line)
    command = line.partition("&& python3 ")[2].split()

    done = run(sys.executable, *command, "--runner", "bubblewrap", folder=ROOT)

    assert done.returncode == 1
    assert "FAILED: 2 of 4 tests did not pass" in done.stdout


def test_the_line_that_mends_a_sample_does():
    """The loop can be tried without a model and without a network."""
    line = next(line for line in SHELL if line.startswith("reproof reflect fixtures/"))

    done = run(sys.executable, "-m", "harness", *line.split()[1:], "--runner", "bubblewrap", folder=ROOT)

    assert done.returncode == 0, done.stderr
    assert "+    for start in range(0, len(items), size):" in done.stdout


def test_the_test_line_is_what_ci_calls():
    """`.ci/run` runs the README's own line."""
    line = next(line for line in SHELL if line.endswith("-m nox"))

    assert line.removeprefix("PIP_BREAK_SYSTEM_PACKAGES=1 ") in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("line", [line for line in SHELL if line.startswith("reproof ")])
def test_the_commands_exist(line):
    """Every command that is listed answers to its name and options."""
    words = line.partition("#")[0].split()[1:]
    options = [word for word in words if word.startswith("--")]

    command = words[:2] if words[0] == "image" else words[:1]

    done = run(sys.executable, "-m", "harness", *command, "--help", folder=ROOT)

    assert done.returncode == 0
    assert all(option in done.stdout for option in options)
