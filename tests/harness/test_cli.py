"""The command, as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

RIGHT = "def add(a, b): return a + b\n"
WRONG = "def add(a, b): return a - b\n"
TESTS = "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
HANGING = "import signal\ndef add(a, b):\n    while True: signal.pause()\n"


def write(root: Path, tree: dict[str, str]) -> None:
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


class Command:
    """`reproof` in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "harness", *map(str, arguments)],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def verify(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return self("verify", *arguments, "--runner", "bubblewrap")

    def report(self, *arguments: object) -> dict[str, Any]:
        done = self.verify(*arguments, "--format", "json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def batch(self, jobs: list[dict[str, Any] | str], *arguments: object) -> subprocess.CompletedProcess[str]:
        lines = [job if isinstance(job, str) else json.dumps(job) for job in jobs]
        (self.folder / "jobs.jsonl").write_text("\n".join(lines) + "\n")
        return self("batch", "jobs.jsonl", "--runner", "bubblewrap", *arguments)


@pytest.fixture
def reproof(tmp_path: Path) -> Command:
    write(tmp_path, {"right/solution.py": RIGHT, "wrong/solution.py": WRONG, "test_solution.py": TESTS})
    return Command(tmp_path)


def job(identity: object, code: str = RIGHT, **more: Any) -> dict[str, Any]:
    return {"id": identity, "files": {"solution.py": code}, "tests": {"test_solution.py": TESTS}, **more}


def results(text: str) -> dict[str, dict[str, Any]]:
    return {result["id"]: result for result in map(json.loads, text.splitlines())}


# --- exit codes ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("submission", "options", "status", "verdict"),
    [
        ("right/solution.py", [], 0, "PASSED"),
        ("wrong/solution.py", [], 1, "FAILED"),
        ("right/solution.py", ["--requirements", "requirements.txt"], 3, "INVALID"),
    ],
    ids=["passed", "not-passed", "invalid"],
)
def test_the_exit_code_is_the_answer(reproof, submission, options, status, verdict):
    """
    0 is a pass, 1 is the candidate's failure, and 3 is ours.
    """
    write(reproof.folder, {"requirements.txt": "# packages\nthis-is-no-package-of-any-index==0  # none\n"})

    done = reproof.verify(submission, "test_solution.py", *options)

    assert (done.returncode, done.stdout.partition(":")[0]) == (status, verdict)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "COMMAND"),
        (["verify"], "SUBMISSION"),
        (["verify", "right"], "SUITE"),
        (["verify", "nowhere.py", "test_solution.py"], "'nowhere.py': no such file or directory"),
        (["verify", "right", "nowhere.py"], "'nowhere.py': no such file or directory"),
        (["verify", "right", "test_solution.py", "--memory", "3"], "memory"),
        (["verify", "right", "test_solution.py", "--memory", "lots"], "--memory"),
        (["verify", "right", "test_solution.py", "--timeout", "0"], "wall_seconds"),
        (["verify", "right", "test_solution.py", "--runner", "vm"], "vm"),
        (["verify", "right", "test_solution.py", "--format", "pdf"], "pdf"),
        (["verify", "right", "test_solution.py", "--workers", "-1"], "workers"),
        (["verify", "right", "test_solution.py", "--requirements", "none.txt"], "none.txt"),
        (["verify", "right", "test_solution.py", "--output", "none/report.txt"], "none/report.txt"),
        (["verify", "right", "test_solution.py", "--metrics-file", "none/x.prom"], "none/x.prom"),
        (["verify", "right", "test_solution.py", "--metrics-port", "70000"], "70000"),
        (["verify", "right", "test_solution.py", "--suite-from", "main:tests"], "not both"),
        (["verify", "right", "--suite-from", "main"], "REF:PATH"),
        (["verify", "right", "--suite-from", "main:tests"], "not a git repository"),
        (["verify", "empty", "empty"], "nothing to verify against"),
        (["batch", "none.jsonl"], "none.jsonl"),
        (["batch", "jobs.jsonl", "--workers", "0"], "workers"),
        (["batch", "jobs.jsonl", "--workers", "-2"], "workers"),
        (["batch", "jobs.jsonl", "--output", "none/results.jsonl"], "none/results.jsonl"),
        (["batch", "jobs.jsonl", "--html", "none/page.html"], "none/page.html"),
        (["frobnicate"], "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_usage_error_is_one_clear_line_and_status_2(reproof, arguments, told):
    """
    What was asked wrongly is told in one line that names it, before anything is run; no traceback.
    """
    (reproof.folder / "empty").mkdir()
    write(reproof.folder, {"jobs.jsonl": json.dumps(job("a")) + "\n"})
    runner = (
        ["--runner", "bubblewrap"] if arguments[:1] in (["verify"], ["batch"]) and "--runner" not in arguments else []
    )

    done = reproof(*arguments, *runner)

    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert lines[0].startswith("reproof: ")
    assert told in lines[0]
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("Try: "))


def test_our_own_failure_is_not_a_usage_error(reproof):
    """
    A cache that cannot be written is nobody's wrong argument: the verdict is invalid, and the status 3.
    """
    done = reproof(
        "verify", "right", "test_solution.py", "--runner", "bubblewrap", env={"XDG_CACHE_HOME": "/proc/no-such-place"}
    )

    assert done.returncode == 3, done.stderr
    assert "INVALID" in done.stdout
    assert "/proc/no-such-place" in done.stdout


def test_a_reader_that_went_away_is_no_answer(reproof):
    """
    A pipe that nobody reads any more is no usage error, and the exit code says nothing of the candidate.
    """
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "harness", "verify", "wrong", "test_solution.py", "--runner", "bubblewrap"]

    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(command, cwd=reproof.folder, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=60)

    assert done.returncode not in (0, 2)
    assert "Traceback" not in done.stderr


# --- what is verified ---------------------------------------------------------


@pytest.mark.parametrize("submission", ["right", "right/", "right/solution.py", "./right"])
@pytest.mark.parametrize("suite", ["test_solution.py", "suite"])
def test_submission_and_suite_are_files_or_directories(reproof, submission, suite):
    """
    Both are a file or a directory, in any combination.
    """
    write(reproof.folder, {"suite/test_one.py": TESTS, "suite/sub/test_two.py": TESTS})

    assert reproof.verify(submission, suite).returncode == 0


def test_ignored_files_are_not_verified(reproof):
    """
    What a submission's .gitignore names never enters the sandbox.
    """
    write(reproof.folder, {"right/.gitignore": "secret.txt\n", "right/secret.txt": "s", "right/open.txt": "o"})
    looks = "import os\ndef test(): assert not os.path.exists('secret.txt') and os.path.exists('open.txt')\n"
    write(reproof.folder, {"test_solution.py": looks})

    assert reproof.verify("right", "test_solution.py").returncode == 0


def test_a_suite_inside_the_submission_keeps_its_place(reproof):
    """
    A suite that is a folder of the project stays that folder, with its helpers and its conftest.py.
    """
    project = {
        "project/solution.py": RIGHT,
        "project/tests/__init__.py": "",
        "project/tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef three():\n    return 3\n",
        "project/tests/helper.py": "ONE = 1\n",
        "project/tests/test_a.py": "from solution import add\nfrom .helper import ONE\n\n"
        "def test_a(three):\n    assert add(ONE, 2) == three\n    assert __file__.endswith('/tests/test_a.py')\n",
    }
    write(reproof.folder, project)

    report = reproof.report("project", "project/tests")

    assert report["verdict"] == "passed", report["reason"]
    assert report["tests"][0]["nodeid"] == "tests/test_a.py::test_a"


def test_the_suites_files_win(reproof):
    """
    A submission's file of the same path as one of the suite's is not used.
    """
    write(reproof.folder, {"wrong/test_solution.py": "def test_add(): pass\n"})

    assert reproof.verify("wrong", "test_solution.py").returncode == 1


@pytest.mark.parametrize(
    "obstacle", [{"wrong/tests": "a file"}, {"wrong/tests/test_solution.py/file": ""}], ids=["file", "directory"]
)
def test_a_submission_cannot_take_the_place_of_the_suite(reproof, obstacle):
    """
    A submission that puts something else where the suite's files belong fails its tests like any other.
    """
    write(reproof.folder, {"suite/tests/test_solution.py": TESTS, **obstacle})

    report = reproof.report("wrong", "suite")

    assert report["verdict"] == "failed", report["reason"]


def test_a_suite_from_a_ref_ignores_what_an_agent_did_to_the_tests(reproof):
    """
    With --suite-from the tests are those of the ref: edited, deleted or added ones do not count.
    """
    repository = reproof.folder / "repository"
    write(repository, {"solution.py": RIGHT, "tests/test_a.py": TESTS, "tests/test_b.py": TESTS})
    for step in (["init"], ["add", "--all"], ["commit", "--message", "first"]):
        git(repository, *step)
    write(
        repository,
        {"solution.py": WRONG, "tests/test_a.py": "def test_add(): pass\n", "conftest.py": "import os\nos._exit(0)\n"},
    )
    (repository / "tests/test_b.py").unlink()

    report = reproof.report("repository", "--suite-from", "main:tests")

    assert report["verdict"] == "failed"
    assert report["counts"] == {"failed": 2}


def test_a_suite_from_a_ref_for_a_part_of_a_repository(reproof):
    """
    A submission that is a folder of its repository sees the suite where it belongs beside it.
    """
    repository = reproof.folder / "repository"
    write(repository, {"app/solution.py": RIGHT, "app/tests/test_a.py": TESTS})
    for step in (["init"], ["add", "--all"], ["commit", "--message", "first"]):
        git(repository, *step)

    report = reproof.report("repository/app", "--suite-from", "HEAD:app/tests")

    assert [test["nodeid"] for test in report["tests"]] == ["tests/test_a.py::test_add"]
    assert report["verdict"] == "passed"


# --- how it is told -----------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "check"),
    [
        ("text", lambda text: text.startswith("FAILED: 1 of 1 tests did not pass")),
        ("json", lambda text: json.loads(text)["verdict"] == "failed"),
        ("junit", lambda text: ET.fromstring(text).find("testsuite").get("failures") == "1"),
        ("github", lambda text: text.startswith("::error file=test_solution.py,line=4,")),
        ("html", lambda text: "<title>Failed: 0 of 1 tests pass</title>" in text),
    ],
)
def test_a_report_goes_to_a_file_in_every_format(reproof, form, check):
    """
    --format decides how the report is written and --output where; stdout is then empty.
    """
    done = reproof.verify("wrong", "test_solution.py", "--format", form, "--output", "report")

    assert (done.returncode, done.stdout) == (1, "")
    assert check((reproof.folder / "report").read_text("utf-8"))


@pytest.mark.parametrize("form", ["text", "json", "junit", "github", "html"])
def test_a_candidates_odd_characters_do_not_spoil_the_report(reproof, form):
    """
    A lone surrogate in an exception is told in every format, and the status is the candidate's.
    """
    write(reproof.folder, {"wrong/solution.py": "def add(a, b): raise ValueError('\\ud800\\x00\\x1b[2J')\n"})

    done = reproof.verify("wrong", "test_solution.py", "--format", form, "--output", "report")

    assert (done.returncode, done.stderr) == (1, "")
    assert "ValueError" in (reproof.folder / "report").read_text("utf-8")


@pytest.mark.parametrize(
    ("option", "number", "code", "verdict"),
    [
        ("--timeout", 1, HANGING, "timeout"),
        ("--wall-seconds", 1, HANGING, "timeout"),
        ("--test-seconds", 0.5, HANGING, "timeout"),
        ("--cpu-seconds", 1, "def add(a, b):\n    while True: pass\n", "timeout"),
        ("--memory", 100, "def add(a, b): return len(bytes(1) * 300_000_000)\n", "out_of_memory"),
        ("--memory-mb", 100, "def add(a, b): return len(bytes(1) * 300_000_000)\n", "out_of_memory"),
        ("--disk-mb", 5, "def add(a, b): return open('x', 'wb').write(bytes(9_000_000))\n", "limit"),
        ("--output-kb", 10, "import os\ndef add(a, b): return os.write(1, bytes(50_000)) * 0 + 3\n", "limit"),
        (
            "--processes",
            12,
            "import os\ndef add(a, b):\n    for _ in range(100):\n        if not os.fork(): os.read(os.pipe()[0], 1)\n",
            "limit",
        ),
    ],
)
def test_every_limit_is_an_option(reproof, option, number, code, verdict):
    """
    Each limit can be set on the command line, holds, and is named in the reason.
    """
    write(reproof.folder, {"wrong/solution.py": code})

    report = reproof.report("wrong", "test_solution.py", option, number)

    assert report["verdict"] == verdict, report["reason"]
    assert float(number) in report["limits"].values()


def test_options_for_pytest_are_passed_on(reproof):
    """
    --pytest-option reaches pytest, also when it begins with a dash.
    """
    write(reproof.folder, {"test_solution.py": TESTS + "\ndef test_other(): assert False\n"})

    report = reproof.report("right", "test_solution.py", "--pytest-option=-k", "--pytest-option=test_add")

    assert report["verdict"] == "passed"
    assert report["counts"] == {"passed": 1}


def test_the_seed_is_in_the_report(reproof):
    """
    --seed seeds the run and stands in its report.
    """
    assert reproof.report("right", "test_solution.py", "--seed", 42)["seed"] == 42


def test_the_version_is_told(reproof):
    """
    --version says which Reproof this is.
    """
    done = reproof("--version")

    assert done.returncode == 0
    assert done.stdout.startswith("reproof 0.")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["verify", "--help"], ["batch", "--help"], ["image", "build", "--help"]]
)
def test_help_is_help(reproof, arguments):
    """
    Every command explains itself.
    """
    done = reproof(*arguments)

    assert done.returncode == 0
    assert "usage: reproof" in done.stdout


# --- the project's default ----------------------------------------------------


def test_the_projects_runner_is_the_default(reproof):
    """
    [tool.reproof] runner is taken when no --runner is given.
    """
    write(reproof.folder, {"pyproject.toml": "[tool.reproof]\nrunner = 'bubblewrap'\n"})

    done = reproof("verify", "right", "test_solution.py", "--format", "json")

    assert json.loads(done.stdout)["runner"] == "bubblewrap"


@pytest.mark.parametrize("setting", ["runner = 'vm'", "ruuner = 'docker'", "runner = "])
@pytest.mark.parametrize("command", ["verify", "batch"])
def test_a_wrong_setting_is_reported(reproof, setting, command):
    """
    A setting that cannot be right is a usage error that names the file, and nothing is run.
    """
    write(reproof.folder, {"pyproject.toml": f"[tool.reproof]\n{setting}\n", "jobs.jsonl": json.dumps(job("a"))})
    arguments = {"verify": ["right", "test_solution.py"], "batch": ["jobs.jsonl"]}[command]

    done = reproof(command, *arguments)

    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "pyproject.toml" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# --- metrics, doctor ----------------------------------------------------------


def test_a_metrics_file_holds_the_run(reproof):
    """
    --metrics-file leaves the run's figures for node_exporter's textfile collector.
    """
    done = reproof.verify("wrong", "test_solution.py", "--metrics-file", "reproof.prom")

    written = (reproof.folder / "reproof.prom").read_text()
    assert done.returncode == 1
    assert 'sandbox_executions_total{sandbox_type="bubblewrap",status="failed"} 1.0' in written
    assert 'sandbox_phase_seconds_count{phase="run",sandbox_type="bubblewrap"} 1.0' in written


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_metrics_port_answers_while_jobs_run_and_an_interrupt_leaves_nothing(reproof):
    """
    --metrics-port can be scraped during a run, and Ctrl-C ends that run, with everything in it, by its own status.
    """
    write(reproof.folder, {"wrong/solution.py": HANGING})
    port = free_port()
    command = [sys.executable, "-m", "harness", "verify", "wrong", "test_solution.py", "--runner", "bubblewrap"]
    command += ["--metrics-port", str(port)]
    scraped = ""

    with subprocess.Popen(command, cwd=reproof.folder, stderr=subprocess.PIPE, text=True) as running:
        while not scraped and running.poll() is None:
            with contextlib.suppress(urllib.error.URLError):
                scraped = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()

    assert "# TYPE sandbox_executions_total counter" in scraped
    assert running.returncode == 130
    assert said == "reproof: interrupted; nothing is left running\n"


def test_a_port_in_use_is_a_usage_error(reproof):
    """
    A metrics port that another process has is told by its number.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = reproof.verify("right", "test_solution.py", "--metrics-port", port)

    assert done.returncode == 2
    assert str(port) in done.stderr
    assert "in use" in done.stderr


def test_doctor_says_what_this_machine_can_do(reproof):
    """
    The doctor names every runner, what it found, and what `auto` would take.
    """
    done = reproof("doctor")

    assert done.returncode == 0
    assert {"python", "bubblewrap", "cgroup", "docker"} <= set(done.stdout.split())
    assert "`--runner auto` takes " in done.stdout


def test_doctor_gives_the_step_for_what_is_missing(reproof):
    """
    Without an engine the doctor says which step brings one.
    """
    done = reproof("doctor", env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})

    lines = done.stdout.splitlines()
    missing = next(number for number, line in enumerate(lines) if line.startswith("missing") and "docker" in line)
    assert "unix:///nowhere/docker.sock" in lines[missing]
    assert "→" in lines[missing + 1]
    assert "runner='" not in lines[missing + 1]


# --- batch --------------------------------------------------------------------


def test_a_batch_has_a_result_for_every_line(reproof):
    """
    Each job line becomes a result line with its id, verdict, reward and whole report.
    """
    done = reproof.batch([job("a"), job("b", WRONG), job("c", "def add(:")])

    found = results(done.stdout)
    assert {name: (one["verdict"], one["reward"]) for name, one in found.items()} == {
        "a": ("passed", 1.0),
        "b": ("failed", 0.0),
        "c": ("broken", 0.0),
    }
    assert found["b"]["report"]["failures"][0]["nodeid"] == "test_solution.py::test_add"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("line", "identity", "reason"),
    [
        ("{", "line 2", "line 2"),
        ("[1]", "line 2", "line 2"),
        ('"text"', "line 2", "line 2"),
        (json.dumps(job("x") | {"files": {"../evil.py": ""}}), "x", "leaves the workspace"),
        (json.dumps(job("x") | {"files": ["solution.py"]}), "x", "files"),
        (json.dumps(job("x") | {"files": None}), "x", "files"),
        (json.dumps({"id": "x", "tests": {"test_a.py": ""}}), "x", "files"),
        (json.dumps({"id": "x", "files": {"a.py": ""}}), "x", "nothing to verify against"),
        (json.dumps(job("x", limits={"memory_mb": 1})), "x", "memory_mb"),
        (json.dumps(job("x", limits={"colour": 1})), "x", "colour"),
        (json.dumps(job("x", limits=[1])), "x", "limits"),
        (json.dumps(job("x", cases=[{"call": "add"}])), "x", "solution.add"),
        (json.dumps(job("x", cases=[{"call": "solution.add", "expected": {"$nothing": 1}}])), "x", "$nothing"),
        (json.dumps(job("x", cases=7)), "x", "cases"),
        (json.dumps(job("x", requirements=["-e ."])), "x", "requirements"),
        (json.dumps(job("x", requirements="numpy")), "x", "requirements"),
        ("[" * 100_000, "line 2", "line 2"),
    ],
)
def test_a_bad_line_is_an_invalid_result_and_the_rest_goes_on(reproof, line, identity, reason):
    """
    A line that is no job is a result with the verdict invalid and the reason; the others are verified.
    """
    done = reproof.batch([job("a"), line, job("z")])

    found = results(done.stdout)
    assert [found[name]["verdict"] for name in ("a", identity, "z")] == ["passed", "invalid", "passed"]
    assert found[identity]["reward"] is None
    assert reason in found[identity]["report"]["reason"]
    assert done.returncode == 3


def test_a_batch_goes_on_where_it_stopped(reproof):
    """
    A second run with the same output verifies what is missing, a line that was cut off included, and keeps the rest.
    """
    first = reproof.batch([job("a"), job("b", WRONG)], "--output", "results.jsonl", "--workers", 1)
    output = reproof.folder / "results.jsonl"
    kept, torn = output.read_text().splitlines(keepends=True)
    output.write_text(kept + torn[: len(torn) // 2])

    second = reproof.batch([job("a"), job("b", WRONG), job("c")], "--output", "results.jsonl")

    lines = output.read_text().splitlines(keepends=True)
    assert (first.returncode, first.stdout, second.stdout) == (1, "", "")
    assert lines[0] == kept
    assert sorted(json.loads(line)["id"] for line in lines) == ["a", "b", "c"]
    assert "1 of 3 jobs" in second.stderr


def test_a_batch_with_nothing_left_to_do_does_nothing(reproof):
    """
    A run whose output is complete leaves it as it is.
    """
    reproof.batch([job("a")], "--output", "results.jsonl")
    before = (reproof.folder / "results.jsonl").read_text()

    done = reproof.batch([job("a")], "--output", "results.jsonl")

    assert done.returncode == 0
    assert (reproof.folder / "results.jsonl").read_text() == before


def test_a_batch_never_destroys_what_it_did_not_write(reproof):
    """
    An output file that holds something else is refused and left alone.
    """
    write(reproof.folder, {"notes.md": "# My notes\n\nof many years\n"})

    done = reproof.batch([job("a")], "--output", "notes.md")

    assert (reproof.folder / "notes.md").read_text() == "# My notes\n\nof many years\n"
    assert done.returncode == 2
    assert "notes.md" in done.stderr


def test_a_damaged_line_does_not_cost_the_results_after_it(reproof):
    """
    Results that stand behind a damaged line are not thrown away.
    """
    reproof.batch([job("a"), job("b"), job("c")], "--output", "results.jsonl")
    output = reproof.folder / "results.jsonl"
    lines = output.read_text().splitlines(keepends=True)
    kept = [json.loads(lines[0])["id"], json.loads(lines[2])["id"]]
    output.write_text(lines[0] + "damaged\n" + lines[2])

    reproof.batch([job("a"), job("b"), job("c")], "--output", "results.jsonl")

    assert lines[2] in output.read_text()
    assert kept[0] != kept[1]


def test_an_id_comes_back_as_it_was_given(reproof):
    """
    An id that is a number is a number in the result, so that results can be joined with their jobs.
    """
    done = reproof.batch([job(7)])

    assert json.loads(done.stdout)["id"] == 7


def test_progress_is_plain_lines_where_there_is_no_terminal(reproof):
    """
    Without a terminal progress is lines of text, with no control characters, and ends with the sum.
    """
    done = reproof.batch([job("a"), job("b", WRONG)])

    last = done.stderr.splitlines()[-1]
    assert last.startswith("2/2 jobs")
    assert last.endswith("1 failed, 1 passed")
    assert not set(done.stderr) & {"\r", "\x1b"}


def test_other_keys_of_a_job_line_are_ignored(reproof):
    """
    What a job line says besides does not matter.
    """
    done = reproof.batch([job("a", expect="passed", source={"corpus": "x"}, licence=None)])

    assert results(done.stdout)["a"]["verdict"] == "passed"


def test_limits_of_a_line_win_over_those_of_the_command(reproof):
    """
    A job's own limits hold for it, and the command's for what it does not say.
    """
    lines = [job("own", limits={"memory_mb": 300}), job("other")]

    done = reproof.batch(lines, "--memory", 200, "--timeout", 30)

    found = results(done.stdout)
    assert [found[name]["report"]["limits"]["memory_mb"] for name in ("own", "other")] == [300, 200]
    assert [found[name]["report"]["limits"]["wall_seconds"] for name in ("own", "other")] == [30, 30]


def test_cases_of_a_line_have_tagged_values(reproof):
    """
    Cases in a job line use values that JSON lacks, alone and beside pytest files.
    """
    code = "def pair(items): return tuple(sorted(items))\ndef add(a, b): return a + b\n"
    right = {"call": "solution.pair", "args": [{"$set": [2, 1]}], "expected": {"$tuple": [1, 2]}}
    wrong = {"call": "solution.pair", "args": [{"$set": [2, 1]}], "expected": [1, 2]}
    alone = {"id": "alone", "files": {"solution.py": code}, "cases": [right]}

    done = reproof.batch([job("right", code, cases=[right]), job("wrong", code, cases=[wrong]), alone])

    found = results(done.stdout)
    assert {name: one["verdict"] for name, one in found.items()} == {
        "right": "passed",
        "wrong": "failed",
        "alone": "passed",
    }
    assert found["right"]["report"]["counts"] == {"passed": 2}
    assert "(tuple, not list)" in found["wrong"]["report"]["reason"]


def test_odd_characters_do_not_stop_a_batch(reproof):
    """
    A candidate that raises a lone surrogate has its result line like any other, and the next job is verified.
    """
    done = reproof.batch([job("odd", "def add(a, b): raise ValueError('\\ud800')"), job("next")], "--workers", 1)

    found = results(done.stdout)
    assert (found["odd"]["verdict"], found["next"]["verdict"]) == ("failed", "passed"), done.stderr


def test_a_runner_that_is_not_to_be_had_is_an_invalid_result_for_every_job(reproof):
    """
    Without its runner a batch says so for every job, and never blames a candidate.
    """
    write(reproof.folder, {"jobs.jsonl": json.dumps(job("a")) + "\n" + json.dumps(job("b")) + "\n"})

    done = reproof("batch", "jobs.jsonl", "--runner", "docker", env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})

    found = results(done.stdout)
    assert [found[name]["verdict"] for name in ("a", "b")] == ["invalid", "invalid"]
    assert "unix:///nowhere/docker.sock" in found["a"]["report"]["reason"]
    assert done.returncode == 3


def test_a_verification_does_not_import_the_loop():
    """
    What `reproof verify` does not need costs it no time to start.
    """
    script = "import sys\nfrom harness.cli import _parser\n_parser(['verify'])\nprint('reflection' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
