"""`reproof reflect`, as a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from reflection import read_transcript
from tests.harness.test_cli import Command, write
from tests.reflection.chat_server import Answer, Status, chat_server

WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
TESTS = "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
HIDDEN = "from solution import add\n\ndef test_more():\n    assert add(20, 2) == 22\n"


@pytest.fixture
def reproof(tmp_path: Path) -> Command:
    write(
        tmp_path,
        {
            "TASK.md": "Write add(a, b).",
            "solution.py": WRONG,
            "tests/test_add.py": TESTS,
            "hidden/test_more.py": HIDDEN,
            "reaching_in/test_it.py": "import solution\n\nclass Mine(solution.Base): pass\n\ndef test_it(): pass\n",
            "agent.py": "s = open('solution.py').read(); open('solution.py', 'w').write(s.replace('-', '+'))",
        },
    )
    return Command(tmp_path)


def reflect(reproof: Command, *more: object, env: dict[str, str] | None = None):
    return reproof("reflect", "TASK.md", "tests", "--runner", "bubblewrap", *more, env=env)


def test_repair_is_the_default_and_mends_the_start(reproof):
    """
    The summary tells what came of it and ends with a diff; progress goes to stderr.
    """
    done = reflect(reproof, "--start", "solution.py")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASSED: attempt ")
    assert "-    return a - b\n+    return a + b\n" in done.stdout
    assert "reproof: start: failed, 0 of 1 tests pass" in done.stderr


def test_no_candidate_that_passes_is_status_1(reproof):
    """
    The summary says why it stopped.
    """
    done = reflect(reproof, "--start", "solution.py", "--iterations", "1", "--disclose", "count")

    assert done.returncode == 1
    assert "NOT PASSED: no candidate passed in 1 iteration\n" in done.stdout
    assert "attempts  2 in 1 iteration, 2 verifications\n" in done.stdout


def test_a_terminal_that_is_not_utf_8_gets_the_summary_all_the_same(reproof):
    """
    What it cannot show is written out, and the verdict stands.
    """
    done = reflect(reproof, "--start", "solution.py", "--hidden", "hidden", env={"PYTHONIOENCODING": "ascii"})

    assert done.returncode == 0, done.stderr
    assert "passed, 1 of 1 tests pass \\xb7 hidden passed" in done.stdout


def test_a_transcript_of_another_run_says_what_differs(reproof):
    """
    Nothing is run, and the file stays as it is.
    """
    options = ("--start", "solution.py", "--transcript", "run.jsonl")
    reflect(reproof, *options)

    done = reflect(reproof, *options, "--hidden", "hidden")

    assert done.returncode == 2
    assert "run.jsonl: is the transcript of a run with another hidden suite" in done.stderr


def test_a_command_writes_the_code(reproof):
    """
    Hidden tests are judged apart, and the gap is told.
    """
    command = f"{sys.executable} {reproof.folder / 'agent.py'}"

    done = reflect(
        reproof, "--start", "solution.py", "--generator", "command", "--command", command, "--hidden", "hidden"
    )

    assert done.returncode == 0, done.stderr
    assert "hidden passed, 1 of 1 tests pass" in done.stdout
    assert "gap       +0%" in done.stdout


@pytest.mark.parametrize("generator", ["openai", "anthropic"])
def test_a_model_writes_the_code(reproof, generator):
    """
    Over real HTTP; transcript, page and metrics are written, and tokens are told.
    """
    with chat_server(Answer(f"```python\n{WRONG}```"), Answer(f"```python\n{RIGHT}```")) as server:
        url = server.openai if generator == "openai" else server.root
        done = reflect(
            reproof,
            *("--generator", generator, "--model", "m", "--base-url", url),
            *("--transcript", "run.jsonl", "--html", "run.html", "--metrics-file", "metrics.txt"),
        )

    assert done.returncode == 0, done.stderr
    assert "22 read, 14 written" in done.stdout
    assert read_transcript(reproof.folder / "run.jsonl").passed
    assert (reproof.folder / "run.html").read_text().lower().startswith("<!doctype html>")
    assert 'reflection_runs_total{outcome="passed"} 1.0' in (reproof.folder / "metrics.txt").read_text()


def test_an_endpoint_that_refuses_is_status_3(reproof):
    """
    We could not find out; the transcript can be gone on with.
    """
    with chat_server(Status(401)) as server:
        done = reflect(
            reproof, "--generator", "openai", "--model", "m", "--base-url", server.openai, "--transcript", "run.jsonl"
        )

    assert done.returncode == 3
    assert "answered 401" in done.stderr and "go on from run.jsonl" in done.stderr
    assert json.loads((reproof.folder / "run.jsonl").read_text().splitlines()[0])["event"] == "begin"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "give it with --start"),
        (("--generator", "openai"), "needs --model"),
        (("--generator", "command"), "needs --command"),
        (("--start", "solution.py", "--command", "x"), "goes with --generator command"),
        (("--start", "missing.py"), "no such file"),
        (("--start", "solution.py", "--samples", "65"), "not from 1 to 64"),
        (("--start", "solution.py", "--transcript", "no/where.jsonl"), "no such directory"),
        (("--start", "solution.py", "--seconds", "-1"), "max_seconds"),
        (("--start", "solution.py", "--hidden", "reaching_in", "--require-seat", "separate"), "separate is required"),
        (("--start", "solution.py", "--model", "m"), "goes with --generator openai or anthropic"),
    ],
)
def test_wrong_usage_is_status_2(reproof, options, told):
    """
    It is said before anything is started.
    """
    done = reflect(reproof, *options)

    assert done.returncode == 2
    assert told in done.stderr
