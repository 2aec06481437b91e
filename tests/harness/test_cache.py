"""The verdict cache: the same job is run once, any other job is another job, and only what lasts is kept."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from harness import Case, Environment, Limits, Report, Runner, Submission, Suite, VerdictCache, verify, verify_many
from harness.cli import main
from runners import interpreter

LIMITS = Limits(memory_mb=256, processes=48, disk_mb=32)
SUITE = Suite.from_code("from solution import f\ndef test(): assert f() == 1")
RIGHT = Submission.from_code("def f(): return 1")
WRONG = Submission.from_code("def f(): return 2")


@pytest.fixture
def cache(tmp_path: Path) -> VerdictCache:
    return VerdictCache(tmp_path / "cache")


@pytest.fixture
def check(cache: VerdictCache, bubblewrap_runner: Runner):
    """Verify with the cache, by default a right submission; what differs is given."""

    def run(submission: Submission = RIGHT, suite: Suite = SUITE, **more) -> Report:
        more.setdefault("limits", LIMITS)
        return verify(submission, suite, runner=bubblewrap_runner, cache=cache, **more)

    return run


@pytest.mark.parametrize("submission", [RIGHT, WRONG], ids=["passed", "failed"])
def test_the_same_job_twice_is_answered_from_disk(check, submission):
    """
    The second report is the first one, but for saying that it was not run.
    """
    first, second = check(submission), check(submission)

    assert (first.cached, second.cached) == (False, True)
    assert second == first.model_copy(update={"cached": True})


def test_a_cache_outlives_its_object(check, cache, tmp_path, bubblewrap_runner):
    """
    Another run, with the same folder, knows what the first one found.
    """
    check()
    again = verify(RIGHT, SUITE, runner=bubblewrap_runner, limits=LIMITS, cache=VerdictCache(tmp_path / "cache"))

    assert again.cached


def test_without_a_cache_everything_is_run(bubblewrap_runner):
    """
    Nothing is kept unless it is asked for.
    """
    reports = [verify(RIGHT, SUITE, runner=bubblewrap_runner, limits=LIMITS) for _ in range(2)]

    assert [report.cached for report in reports] == [False, False]


OTHERS = {
    "a byte of the submission": {"submission": Submission.from_code("def f(): return 1 ")},
    "another file of the submission": {"submission": Submission.from_files({**RIGHT.files, "more.py": ""})},
    "a name in the submission": {"submission": Submission.from_code("def f(): return 1", "src/solution.py")},
    "a file that does not count": {"submission": Submission.from_files({**RIGHT.files, "conftest.py": ""})},
    "a byte of the suite": {"suite": Suite.from_code("from solution import f\ndef test(): assert f() == 1 ")},
    "another file of the suite": {"suite": Suite.from_files({**SUITE.files, "data.txt": "x"})},
    "a name in the suite": {"suite": Suite.from_files({"test_other.py": SUITE.files["test_solution.py"]})},
    "an option": {"suite": SUITE.model_copy(update={"options": ("-x",)})},
    "workers": {"suite": SUITE.model_copy(update={"workers": 1})},
    "the memory": {"limits": LIMITS.model_copy(update={"memory_mb": 257})},
    "the time": {"limits": LIMITS.model_copy(update={"wall_seconds": 59.0})},
    "a variable": {"environment": Environment(variables={"A": "1"})},
    "the seed": {"seed": 1},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_job_is_another_job(check, other):
    """
    Whatever differs in a byte is run.
    """
    check()
    report = check(**other)

    assert not report.cached
    assert report.verdict == "passed", report.reason


ADD = Submission.from_code("def add(a, b):\n    print('3')\n    return a + b\ndef none(*_): print('3')")
CASES = {
    "the expectation": ({"call": "solution.add", "args": [1, 2], "expected": 3}, {"expected": 4}),
    "its type": ({"call": "solution.add", "args": [1, 2], "expected": 3}, {"expected": 3.0}),
    "its truth": ({"call": "solution.add", "args": [0, 1], "expected": 1}, {"expected": True}),
    "an argument": ({"call": "solution.add", "args": [1, 2], "expected": 3}, {"args": [2, 1]}),
    "a container": ({"call": "solution.add", "args": [[1], [2]], "expected": [1, 2]}, {"expected": (1, 2)}),
    "the tolerance": ({"call": "solution.add", "args": [1, 2], "expected": 3.5, "approx": 0.5}, {"approx": 0.1}),
    "the name": ({"call": "solution.add", "args": [1, 2], "expected": 3}, {"name": "adds"}),
    "what is printed": ({"call": "solution.add", "args": [1, 2], "stdout": "3\n"}, {"stdout": "4\n"}),
    "whether a value is expected": ({"call": "solution.add", "args": [1, 2], "stdout": "3\n"}, {"expected": None}),
}


@pytest.mark.parametrize(("case", "change"), CASES.values(), ids=CASES)
def test_a_case_that_expects_something_else_is_another_job(check, case, change):
    """
    What is expected never enters the sandbox, and is part of the job all the same.
    """
    check(ADD, Suite(cases=(Case(**case),)))
    report = check(ADD, Suite(cases=(Case(**{**case, **change}),)))

    assert not report.cached


KEY = """
from harness import Case, Environment, Limits, Submission, Suite
from harness.cache import key_of
from harness.verify import prepare

suite = Suite(cases=(Case(call="solution.f", expected={"alpha", "beta", "gamma", "delta"}),))
submission = Submission.from_code("")
job = prepare(submission, suite, Limits(), Environment(), 0)
print(key_of(submission, suite, job, "bubblewrap", "1"))
"""


def test_the_same_job_is_the_same_in_every_process():
    """
    The order in which a process happens to list a set does not make another job.
    """
    keys = {
        subprocess.run(
            [sys.executable, "-c", KEY], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(keys) == 1


@pytest.mark.parametrize("version", ["python", "pytest"])
def test_a_verdict_is_not_for_another_python_or_pytest(version, check, monkeypatch):
    """
    What they make of a suite may be something else: an upgrade asks again.
    """
    check()
    if version == "python":
        monkeypatch.setattr(platform, "python_version", lambda: "3.99.0")
    else:
        monkeypatch.setattr(interpreter, "packages", lambda: {"pytest": "99.0"})
    report = check()

    assert not report.cached


FLAKY = """
from hypothesis import given, settings, strategies as st

seen = []

@settings(database=None)
@given(st.integers())
def test_it(number):
    seen.append(number)
    assert len(seen) != 3
"""

PASSING = {
    "timeout": (Submission.from_code("while True: pass"), SUITE, {"wall_seconds": 1.0}, "timeout"),
    "a test's timeout": (
        RIGHT,
        Suite.from_code("import time\ndef test_a(): time.sleep(60)\ndef test_b(): assert 0"),
        {"test_seconds": 0.2},
        "failed",
    ),
    "memory": (Submission.from_code("x = b'x' * (2 << 30)"), SUITE, {}, "out_of_memory"),
    "output": (
        RIGHT,
        Suite.from_code("def test():\n    for _ in range(2_000): print('x' * 1_000)"),
        {"output_kb": 16},
        "limit",
    ),
    "flaky": (RIGHT, Suite.from_code(FLAKY), {}, "failed"),
    "deadline": (
        RIGHT,
        Suite.from_code(
            "import time\nfrom hypothesis import given, settings, strategies as st\n"
            "@settings(deadline=1, database=None)\n@given(st.integers())\ndef test(n): time.sleep(0.02)"
        ),
        {},
        "failed",
    ),
}


@pytest.mark.parametrize(("submission", "suite", "limits", "verdict"), PASSING.values(), ids=PASSING)
def test_what_may_be_otherwise_next_time_is_not_kept(check, submission, suite, limits, verdict):
    """
    A verdict that a slower, smaller or busier machine could have caused is found out again.
    """
    small = Limits(**{**LIMITS.model_dump(), **limits})
    first, second = (check(submission, suite, limits=small) for _ in range(2))

    assert first.verdict in (verdict, "timeout"), first.reason
    assert not second.cached


def test_an_invalid_report_is_not_kept(cache, docker_runner):
    """
    That we could not find out today says nothing of tomorrow.
    """
    nowhere = Environment(image="no-such-image-of-reproof:0")
    reports = [verify(RIGHT, SUITE, runner=docker_runner, environment=nowhere, cache=cache) for _ in range(2)]

    assert [(report.verdict, report.cached) for report in reports] == [("invalid", False)] * 2


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[: len(data) // 2], id="torn"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: b"\xff\xfe", id="not text"),
        pytest.param(lambda data: b"[]", id="something else"),
        pytest.param(lambda data: data.replace(b'"passed"', b'"splendid"'), id="an unknown verdict"),
    ],
)
def test_a_damaged_file_is_a_miss(check, tmp_path, damage):
    """
    What cannot be read is found out again, and mended.
    """
    check()
    (file,) = (path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    file.write_bytes(damage(file.read_bytes()))
    second, third = check(), check()

    assert (second.verdict, second.cached) == ("passed", False)
    assert third.cached


def test_nothing_but_reports_is_in_the_folder(check, tmp_path):
    """
    No half-written file stays, and each report is one that can be read.
    """
    check()
    check(WRONG)
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]

    assert {Report.model_validate_json(path.read_bytes()).verdict for path in files} == {"passed", "failed"}
    assert len(files) == 2


def test_a_note_belongs_to_its_own_submission(check):
    """
    What a report says of files that were not used is said of the files that were handed in.
    """
    check(Submission.from_files({**RIGHT.files, "conftest.py": ""}))
    report = check(RIGHT)

    assert not any("conftest.py" in note for note in report.notes)


def test_many_jobs_are_answered_from_disk(cache, bubblewrap_runner):
    """
    A batch runs what is new and takes the rest from the cache, in order.
    """
    list(verify_many([(RIGHT, SUITE)], runner=bubblewrap_runner, limits=LIMITS, cache=cache))
    jobs = [(WRONG, SUITE), (RIGHT, SUITE)]
    reports = list(verify_many(jobs, runner=bubblewrap_runner, limits=LIMITS, cache=cache, workers=1))

    assert [(report.verdict, report.cached) for report in reports] == [("failed", False), ("passed", True)]


def test_the_command_line_keeps_verdicts(bubblewrap_runner, tmp_path, capsys):
    """
    With `--cache DIR` the second run of `verify` is answered from there.
    """
    (tmp_path / "solution.py").write_bytes(RIGHT.files["solution.py"])
    (tmp_path / "test_solution.py").write_bytes(SUITE.files["test_solution.py"])
    command = ["verify", str(tmp_path / "solution.py"), str(tmp_path / "test_solution.py")]
    command += ["--runner", "bubblewrap", "--format", "json", "--cache", str(tmp_path / "cache")]
    statuses, reports = [], []
    for _ in range(2):
        statuses.append(main(command))
        reports.append(json.loads(capsys.readouterr().out))

    assert statuses == [0, 0]
    assert [(report["verdict"], report["cached"]) for report in reports] == [("passed", False), ("passed", True)]
