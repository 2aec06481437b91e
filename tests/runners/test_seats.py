"""The two processes of the separate seat: what each may know, do and outlive. Not what they say to each other.

Both run here with programs of the test's own: `CANDIDATE` answers each line by evaluating it,
and the judge's is a list of statements, whose last event tells what it has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

import pytest

from harness import Limits, Runner
from harness.verify import run_blocking
from runners import guest, session
from runners.contract import Environment, Evidence, Job, Outcome

LIMITS = Limits(wall_seconds=20, test_seconds=10, memory_mb=256, processes=48, disk_mb=32, output_kb=1024)

CANDIDATE = """
import ctypes, os, sys, time

def serve(job, workspace, requests, answers):
    sys.path.insert(0, workspace)
    for line in open(requests):
        os.write(answers, (repr(eval(line)) + "\\n").encode())
"""

JUDGE = """
import os, socket, time

from .child import OutOfTime, TestClock

def run(job, workspace, channel, ready, requests, answers, control):
    clock = TestClock(job["limits"]["test_seconds"])
    clock.arm()
    link = socket.socket(fileno=control)
    said = open(answers)

    def ask(question):
        os.write(requests, (question + "\\n").encode())
        return said.readline().strip()

    def another():
        nonlocal requests, said
        channel.send({{"e": "new_candidate"}})
        message, fds, _, _ = socket.recv_fds(link, 16, 2)
        if fds:
            requests, said = fds[0], open(fds[1])
        return bool(fds)

    seen = None
{statements}
    channel.send({{"e": "seen", "seen": seen}})
    channel.send({{"e": "finish", "status": 0}})
"""

Sit = Callable[..., tuple[Any, Evidence]]


@pytest.fixture(params=["bubblewrap", "docker"])
def runner(request: pytest.FixtureRequest) -> Runner:
    ready: Runner = request.getfixturevalue(f"{request.param}_runner")
    return ready


@pytest.fixture
def sit(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> Sit:
    """Run these statements as the judge; what it has seen, and the evidence of it."""

    def outcome_of(statements: str, limits: Limits = LIMITS, preload: bool = False) -> tuple[Any, Evidence]:
        judge = JUDGE.format(statements=indent(dedent(statements), "    "))
        sources = {**guest._sources(), "candidate": CANDIDATE, "judging": judge}
        program = guest.program(sources, compiled=False)
        monkeypatch.setattr(guest, "_program", lambda: program)
        job = Job(
            {"solution.py": b"KEPT = 1"}, {"test_it.py": b"import sys  # of the suite"}, seat="separate", limits=limits
        )

        async def work() -> tuple[Outcome, bool]:
            async with session.open_guest(runner, Environment(), limits, preload=preload) as opened:
                return await opened.run(job, last=False), await opened.settle()

        outcome, clean = run_blocking(work())
        assert clean
        seen = [event["seen"] for event in outcome.events if event["e"] == "seen"]
        return (seen[0] if seen else None), outcome.parts["pytest"]

    return outcome_of


def test_they_reach_each_other(sit):
    """
    What the judge asks, the candidate answers; the run ends with the judge.
    """
    seen, evidence = sit("seen = ask('__import__(\"solution\").KEPT')")

    assert seen == "1"
    assert evidence.exit_code == 0
    assert len(evidence.candidates) == 1


def test_they_are_two_users(sit):
    """
    Neither is root, and the one is not the other.
    """
    (judge, candidate), _ = sit("seen = [list(os.getresuid()), eval(ask('os.getresuid()'))]")

    assert len({*judge, *candidate}) == 2
    assert 0 not in {*judge, *candidate}


def test_each_has_its_own_files(sit):
    """
    The judge has the suite's files and the candidate the submission's, in different folders.
    """
    (judge, candidate), _ = sit(
        """
        seen = [sorted(os.listdir(".")), eval(ask('sorted(os.listdir("."))'))]
        """
    )

    assert judge == ["test_it.py"]
    assert candidate == ["solution.py"]


FORBIDDEN = {
    "its folder": "os.listdir('/job/work')",
    "its home": "os.listdir('/job/judge')",
    "its memory": "open('/proc/{pid}/mem', 'rb')",
    "its map": "open('/proc/{pid}/maps').read()",
    "its variables": "open('/proc/{pid}/environ').read()",
    "its descriptors": "os.listdir('/proc/{pid}/fd')",
    "its end": "os.kill({pid}, 9)",
    "its trace": "check(ctypes.CDLL(None, use_errno=True).ptrace(16, {pid}, 0, 0))",
    "its limits": "__import__('resource').prlimit({pid}, 7, (3, 3))",
}


def test_the_candidate_cannot_touch_the_judge(sit):
    """
    Not its files, memory, descriptors, limits or life.
    """
    seen, evidence = sit(
        f"""
        attempt = "[exec('def check(n):\\\\n if n == -1: raise OSError'), eval(%r)]"
        seen = {{}}
        for name, code in {FORBIDDEN!r}.items():
            seen[name] = ask(attempt % code.format(pid=os.getpid()))
            seen[name] = seen[name] or another() and "refused"
        """
    )

    assert set(seen.values()) == {"refused"}
    assert {each["exit_code"] for each in evidence.candidates[:-1]} == {70}


def test_each_knows_its_own_side_of_the_job(sit):
    """
    The candidate has never been told what the suite says, nor the judge what was submitted.
    """
    seen, _ = sit("""
        asked = "len(job['submission']), job['suite'], job['code']"
        seen = [job["submission"], len(job["suite"]), ask(asked)]
    """)

    assert seen == [[], 1, "(1, [], {})"]


def test_a_candidate_that_ends_does_not_end_the_run(sit):
    """
    The judge goes on, and may have another one; how each ended is evidence.
    """
    seen, evidence = sit(
        """
        first = ask("os._exit(7)")
        seen = [first, another(), ask("1 + 1")]
        """
    )

    assert seen == ["", True, "2"]
    assert len(evidence.candidates) == 2
    assert evidence.candidates[0] == {"exit_code": 7, "signal": None, "stopped": None, "during": None, "stack": None}


def test_another_candidate_finds_nothing_of_the_one_before(sit):
    """
    Its processes are dead and its files are gone; what the judge has stays.
    """
    (found, processes, kept), evidence = sit(
        """
        open("kept", "w").close()
        ask("[open(name, 'w').close() for name in ('left', '/tmp/left', '/dev/shm/left', '/job/left')]")
        ask("os.fork() or (os.setsid(), time.sleep(60))")
        ask("os.fork() or (os.setsid(), time.sleep(60))")
        another()
        found = "[[os.listdir(name) for name in ('.', '/tmp', '/dev/shm')], sorted(os.listdir('/job'))]"
        seen = [eval(ask(found)), ask("len([n for n in os.listdir('/proc') if n.isdigit()])"), os.path.exists("kept")]
        """
    )

    assert found == [[["solution.py"], [], []], ["candidate", "home", "judge", "tmp", "work"]]
    assert processes == "5"  # the supervisor, its two zygotes, the judge, the candidate
    assert kept
    assert evidence.candidates[0]["stopped"] == "replaced"


def test_there_is_an_end_to_candidates(sit):
    """
    After a number of them there are no more, and the judge is told.
    """
    seen, evidence = sit("seen = [another() for _ in range(25)]")

    assert seen == [True] * 20 + [False] * 5
    assert len(evidence.candidates) == 21


def test_a_test_that_takes_too_long_costs_the_candidate(sit):
    """
    The candidate says where it is and is killed with all that it has started; the judge's test gets the exception.
    """
    seen, evidence = sit(
        """
        channel.send({"e": "start", "id": "test_it.py::test_slow"})
        clock.running = True
        try:
            seen = ask("os.fork() and time.sleep(60)")
            time.sleep(60)
        except OutOfTime:
            seen = [seen, "out of time"]
        clock.running = False
        channel.send({"e": "stop", "id": "test_it.py::test_slow"})
        seen += [another(), ask("1 + 1")]
        """,
        LIMITS.model_copy(update={"test_seconds": 0.5}),
    )

    assert seen[-3:] == ["out of time", True, "2"]
    assert evidence.stopped is None
    first = evidence.candidates[0]
    assert (first["stopped"], first["during"]) == ("test", "test_it.py::test_slow")
    assert "in serve" in first["stack"]


@pytest.mark.parametrize(
    ("limit", "question"),
    [
        ("memory", "[b'x' * (300 << 20), time.sleep(60)]"),
        ("cpu", "sum(range(1 << 60))"),
        ("output", "[print('x' * 10_000) for _ in range(1_000)] and time.sleep(60)"),
        ("wall", "time.sleep(60)"),
    ],
)
def test_limits_are_for_both(sit, limit, question):
    """
    What the candidate uses counts for the run.
    """
    limits = LIMITS.model_copy(update={"cpu_seconds": 2, "wall_seconds": 4 if limit == "wall" else 20})
    _, evidence = sit(f"ask({question!r}); time.sleep(60)", limits)

    assert evidence.stopped == limit or (limit == "memory" and evidence.oom_kills)
    assert evidence.candidates[0]["stopped"] in (limit, None)


def test_a_judge_that_does_not_stop_is_replaced_with_its_candidate(sit):
    """
    The run goes on behind the test that it is stuck in.
    """
    seen, evidence = sit(
        """
        if not job["finished"]:
            channel.send({"e": "start", "id": "test_it.py::test_stuck"})
            time.sleep(60)
        seen = [job["finished"], ask("1 + 1")]
        """,
        LIMITS.model_copy(update={"test_seconds": 0.5}),
    )

    assert seen == [["test_it.py::test_stuck"], "2"]
    assert evidence.restarts == 1


def test_the_judge_goes_on_from_a_session_that_is_ready(sit):
    """
    The session that a warm guest has begun is one for the folder in which the judge works.
    """
    seen, _ = sit("seen = [str(ready.config.rootpath), workspace]", preload=True)

    assert seen[0] == seen[1]
