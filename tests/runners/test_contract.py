"""What every runner must do: one suite, run on each of them.

The candidates are in `fixtures/candidates`, one file per behaviour. What would
harm a machine that it is not kept away from is marked `needs_isolation`, and is
never run by `process`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import math
import os
import secrets
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from harness import Case, Environment, Limits, Report, Runner, Submission, Suite, averify, verify
from harness.seats import SeatName

from .leftovers import nothing_left

FIXTURES = Path(__file__).parents[2] / "fixtures"
LIMITS = Limits(
    wall_seconds=30, cpu_seconds=30, test_seconds=10, memory_mb=256, processes=48, disk_mb=48, output_kb=1024
)

needs_isolation = pytest.mark.needs_isolation


def suite(name: str, **more: Any) -> Suite:
    return Suite.from_code((FIXTURES / "suites" / f"{name}.py").read_text(), **more)


def candidate(name: str, **files: str) -> Submission:
    code = (FIXTURES / "candidates" / f"{name}.py").read_text()
    beside = {f"{stem}.txt": text for stem, text in files.items()}
    return Submission.from_files({"solution.py": code, **beside})


def checks(code: str, **more: Any) -> Suite:
    return Suite.from_code(dedent(code), **more)


def run(
    runner: Runner,
    submission: Submission | str,
    against: Suite | None = None,
    seat: SeatName = "auto",
    **limits: float,
) -> Report:
    """Verify a candidate, by default against `suites/add.py`, with small limits."""
    return verify(
        candidate(submission) if isinstance(submission, str) else submission,
        against or suite("add"),
        runner=runner,
        seat=seat,
        limits=Limits(**{**LIMITS.model_dump(), **limits}),
    )


def outcomes(report: Report) -> dict[str, str]:
    return {test.nodeid.rpartition("::")[2]: test.outcome for test in report.tests}


@pytest.fixture(autouse=True)
def leaves_nothing(
    request: pytest.FixtureRequest, runner: Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """After each run nothing is left of it."""
    docker_host = request.getfixturevalue("docker_host") if runner.name == "docker" else None
    with nothing_left(tmp_path_factory.mktemp("temporary"), docker_host):
        yield


def test_right_code_passes(runner):
    """
    A candidate that does what the suite asks has passed, and earns the reward.
    """
    report = run(runner, "right")

    assert report.verdict == "passed", report
    assert report.reward == 1
    assert report.counts == {"passed": 2}
    assert report.failures == ()


def test_a_report_names_what_was_really_obtained(runner):
    """
    The runner, its isolation, and what the run cost stand in every report.
    """
    report = run(runner, "right")

    assert report.runner == report.isolation.runner == runner.name
    assert ("not isolated" in report.isolation.network) == (runner.name == "process")
    assert str(LIMITS.memory_mb) in report.isolation.memory
    assert str(LIMITS.processes) in report.isolation.processes
    assert report.measurements.cpu_seconds > 0
    assert report.measurements.peak_memory_mb > 1
    assert report.measurements.total_seconds >= report.measurements.run_seconds > 0
    assert report.python
    assert report.pytest


def test_wrong_code_fails(runner):
    """
    A failed assertion comes back with its operator and both of its sides.
    """
    report = run(runner, "wrong")

    assert report.verdict == "failed"
    assert report.reward == 0
    assert report.counts == {"failed": 2}
    first = report.failures[0]
    assert (first.nodeid, first.phase, first.kind) == ("test_solution.py::test_adds", "call", "assertion")
    assert (first.assertion.left, first.assertion.operator, first.assertion.right) == ("-1", "==", "3")
    assert first.test_place == "test_solution.py:7"


def test_a_syntax_error_is_broken(runner):
    """
    A candidate that does not compile is broken, and the report says where.
    """
    report = run(runner, "syntax_error")

    assert report.verdict == "broken"
    assert report.failures[0].kind == "syntax"
    assert report.failures[0].phase == "collect"
    assert report.failures[0].place == "solution.py:3"


def test_an_import_error_is_broken(runner):
    """
    A candidate that imports a name that is not there is broken.
    """
    report = run(runner, "import_error")

    assert report.verdict == "broken"
    assert report.failures[0].kind == "import"
    assert "no_such_name" in report.reason


def test_a_missing_module_is_named(runner):
    """
    A module that is not installed is named, for whoever has to install it.
    """
    report = run(runner, "missing_module")

    assert report.verdict == "broken"
    assert report.failures[0].exception.missing == "no_such_module"
    assert "no_such_module" in report.reason


def test_a_name_that_the_candidate_lacks_is_broken(runner):
    """
    A suite that imports what the candidate does not define cannot be collected.
    """
    report = run(runner, Submission.from_code("def subtract(a, b): return a - b"))

    assert report.verdict == "broken"
    assert "add" in report.reason


def test_an_error_in_a_fixture_is_a_failure_of_the_setup(runner):
    """
    A candidate that raises inside a fixture has failed the test before its call.
    """
    report = run(
        runner,
        "raises",
        checks("""
            import pytest
            from solution import add

            @pytest.fixture
            def three():
                return add(1, 2)

            def test_three(three):
                assert three == 3
        """),
    )

    assert report.verdict == "failed"
    assert outcomes(report) == {"test_three": "error"}
    assert report.failures[0].phase == "setup"
    assert report.failures[0].exception.type == "ValueError"


def test_an_error_in_teardown_is_a_failure(runner):
    """
    A test whose call passed and whose teardown raised has not passed.
    """
    report = run(
        runner,
        "raises",
        checks("""
            import pytest
            from solution import add

            @pytest.fixture
            def late():
                yield
                add(1, 2)

            def test_nothing_much(late):
                pass
        """),
    )

    assert report.verdict == "failed"
    assert outcomes(report) == {"test_nothing_much": "error"}
    assert report.failures[0].phase == "teardown"


def test_a_suite_without_tests_is_no_pass(runner):
    """
    Where no test is found there is no verdict of passed.
    """
    report = run(runner, "right", checks("import solution"))

    assert report.verdict == "no_tests"


def test_an_infinite_loop_is_a_timeout(runner):
    """
    Each test is stopped at its own limit, and the next one gets its turn.
    """
    report = run(runner, "infinite_loop", test_seconds=0.5)

    assert report.verdict == "timeout"
    assert outcomes(report) == {"test_adds": "timeout", "test_adds_negative_numbers": "timeout"}
    assert "solution.py" in report.failures[0].place


def test_an_infinite_loop_at_import_is_a_timeout(runner):
    """
    Before the first test only the limit of the whole job holds; the report shows where it was stuck.
    """
    report = run(runner, "infinite_loop_at_import", wall_seconds=2)

    assert report.verdict == "timeout"
    assert "wall_seconds" in report.reason


def test_cpu_time_is_limited(runner):
    """
    A candidate that computes for too long is stopped for that, whatever the clock says.
    """
    report = run(runner, "infinite_loop", cpu_seconds=1)

    assert report.verdict == "timeout"
    assert "cpu_seconds" in report.reason


def test_a_loop_that_nothing_can_interrupt_is_a_timeout(runner):
    """
    Swallowing every exception and ignoring every signal gains a candidate nothing.
    """
    report = run(runner, "unstoppable_loop", wall_seconds=2, test_seconds=1)

    assert report.verdict == "timeout"


def test_sleeping_is_a_timeout(runner):
    """
    A candidate that waits is stopped like one that computes.
    """
    report = run(runner, "sleeps", test_seconds=0.5)

    assert report.verdict == "timeout"
    assert set(outcomes(report).values()) == {"timeout"}


def test_an_endless_thread_does_not_keep_the_run_open(runner):
    """
    A thread that never ends does not matter to tests that passed.
    """
    report = run(runner, "endless_thread")

    assert report.verdict == "passed"


def test_one_slow_test_does_not_take_the_others_with_it(runner):
    """
    A test that runs out of time is a timeout; those before and after it report as ever.
    """
    report = run(runner, "slow_for_one", suite("add_one_slow"), test_seconds=2)

    assert report.verdict == "timeout"
    assert outcomes(report) == {"test_before": "passed", "test_slow": "timeout", "test_after": "passed"}
    assert "test_slow" in report.reason


def test_a_slow_test_that_will_not_stop_does_not_take_the_others_with_it(runner):
    """
    A test that swallows the exception that should end it loses its process; the run goes on in another.
    """
    report = run(runner, "swallows_exceptions", suite("add_one_slow"), test_seconds=2)

    assert report.verdict == "timeout"
    assert outcomes(report) == {"test_before": "passed", "test_slow": "timeout", "test_after": "passed"}
    assert report.measurements.restarts == 1
    assert "solution.py" in report.failures[0].stack


def test_taking_too_much_memory_is_out_of_memory(runner):
    """
    Two gigabytes are over the limit, by the kernel's word or by our measurement.
    """
    report = run(runner, "allocates_2_gb")

    assert report.verdict == "out_of_memory", report
    assert "memory_mb" in report.reason


def test_a_segfault_is_a_crash(runner):
    """
    A candidate that dies of a signal has crashed, and the report names the test and the signal.
    """
    report = run(runner, "segfault")

    assert report.verdict == "crashed"
    assert report.reason == "killed by SIGSEGV while running test_solution.py::test_adds"
    assert "solution.py" in report.output  # where it happened, in faulthandler's words


@pytest.mark.parametrize("status", [0, 1])
def test_exiting_early_is_not_passing(runner, status):
    """
    A candidate that exits before its tests run has not passed them, whatever its status.
    """
    report = run(runner, f"exits_{status}")

    assert report.verdict == "crashed"
    assert report.reason == f"exited with status {status} before reporting any test"


def test_exiting_in_a_call_names_the_test(runner):
    """
    A candidate that exits while it is tested has crashed in that test.
    """
    report = run(runner, "exits_0_in_call")

    assert report.verdict == "crashed"
    assert report.reason == "exited with status 0 while running test_solution.py::test_adds"


def test_exiting_after_a_good_test_keeps_what_was_reported(runner):
    """
    What was reported before a crash is in the report, and does not make it a pass.
    """
    report = run(
        runner,
        Submission.from_code("import os\ndef add(a, b): return a + b if a > 0 else os._exit(0)"),
    )

    assert report.verdict == "crashed"
    assert outcomes(report)["test_adds"] == "passed"
    assert outcomes(report)["test_adds_negative_numbers"] in ("not_run", "failed")


def test_sys_exit_at_import_is_broken(runner):
    """
    A candidate that ends the interpreter on import cannot be collected.
    """
    report = run(runner, "sys_exit_at_import")

    assert report.verdict == "broken"
    assert "SystemExit" in report.reason


def test_sys_exit_in_a_call_is_a_failure(runner):
    """
    SystemExit is an exception of the test like any other.
    """
    report = run(runner, "sys_exit_in_call")

    assert report.verdict == "failed"
    assert report.counts == {"failed": 2}
    assert report.failures[0].kind == "exit"


@pytest.mark.parametrize(("name", "verdict"), [("atexit_fails", "passed"), ("atexit_succeeds", "failed")])
def test_the_exit_status_decides_nothing(runner, name, verdict):
    """
    What the tests said stands; an exit handler that changes the status does not.
    """
    report = run(runner, name)

    assert report.verdict == verdict


@needs_isolation
def test_a_fork_bomb_meets_its_limit(runner):
    """
    More processes than allowed end the run, and all of them with it.
    """
    report = run(runner, "fork_bomb")

    assert report.verdict == "limit", report
    assert "processes" in report.reason


def test_too_many_threads_meet_the_same_limit(runner):
    """
    Threads count as processes do.
    """
    report = run(
        runner,
        Submission.from_code(
            dedent("""
                import threading

                def add(a, b):
                    wait = threading.Event().wait
                    for _ in range(200):
                        threading.Thread(target=wait, daemon=True).start()
                    wait()
            """)
        ),
    )

    assert report.verdict == "limit", report
    assert "processes" in report.reason


def test_a_daemon_left_behind_is_noted_and_gone(runner):
    """
    A process that outlives its tests does not change the verdict; it is counted and killed.
    """
    report = run(runner, "daemon")

    assert report.verdict == "passed"
    assert report.measurements.leftover_processes >= 2
    assert any("still running" in note for note in report.notes)


@pytest.mark.parametrize("name", ["prints_100_mb", "writes_100_mb_at_import"])
def test_too_much_output_meets_its_limit(runner, name):
    """
    A hundred megabytes of output are over the limit, captured by pytest or not, and are not kept.
    """
    report = run(runner, name, seat="in_process", disk_mb=256, memory_mb=1024)

    assert report.verdict == "limit", report
    assert "output_kb" in report.reason
    assert len(report.model_dump_json()) < 1_000_000


def test_too_much_output_of_a_candidate_apart_meets_its_limit(runner):
    """
    The same, where the candidate prints in a process of its own.
    """
    report = run(runner, "prints_100_mb", seat="separate", disk_mb=256, memory_mb=1024)

    assert report.verdict == "limit", report
    assert "output_kb" in report.reason


def test_output_on_a_small_disk_is_still_a_limit(runner):
    """
    Output that pytest captures in a file may fill the disk first; that is the candidate's doing, too.
    """
    report = run(runner, "prints_100_mb", disk_mb=16)

    assert report.verdict in ("limit", "out_of_memory"), report


def test_output_that_is_no_text_is_reported(runner):
    """
    Bytes that are no UTF-8 are shown as well as they can be, and break nothing.
    """
    report = run(runner, "binary_output")

    assert report.verdict == "failed"
    assert report.counts == {"failed": 2}
    assert "ABC" in report.failures[0].stdout + report.output
    assert "broken" in report.failures[0].stderr + report.output
    assert report.model_dump_json()


@pytest.mark.parametrize("name", ["closes_descriptors", "closes_streams", "closes_everything"])
def test_closing_stdout_and_stderr_hides_nothing(runner, name):
    """
    A wrong candidate that closes what it could be heard on is still wrong, and it is not our fault.
    """
    report = run(runner, name)

    assert report.verdict in ("failed", "crashed"), report


@pytest.mark.parametrize("name", ["fills_disk", "fills_disk_with_one_file"])
def test_a_full_disk_is_a_limit(runner, name):
    """
    A candidate that writes more than it may is stopped for that.
    """
    report = run(runner, name, disk_mb=16)

    assert report.verdict == "limit", report
    assert "disk_mb" in report.reason


def test_a_submission_that_is_larger_than_its_disk_is_a_limit(runner):
    """
    Files that do not fit are the candidate's doing, too, and not a failure of ours.
    """
    report = run(
        runner,
        Submission.from_files({"solution.py": "def add(a, b): return a - b", "data": b"x" * (3 << 20)}),
        disk_mb=1,
    )

    assert report.verdict == "limit", report


@needs_isolation
def test_a_write_outside_the_workspace_does_not_reach_the_host(runner, tmp_path):
    """
    Nothing but the workspace and its temporary files can be written, and those are private.
    """
    name = f"reproof-was-here-{secrets.token_hex(8)}"
    mine = tmp_path / name
    mine.write_text("mine\n")
    forbidden = [mine, tmp_path / f"{name}-too"]
    forbidden += [Path(folder) / name for folder in ("/", "/etc", "/usr/lib", "/sys")]
    private = [Path(folder) / name for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    places = "\n".join(str(path) for path in [*forbidden, *private])
    check = checks(f"""
        from solution import reached

        def test_only_private_places_were_reached():
            assert set(reached) <= set({[str(path) for path in private]!r})
            assert {str(private[0])!r} in reached
    """)

    report = run(runner, candidate("writes_outside", places=places), check)

    assert report.verdict == "passed", report
    assert mine.read_text() == "mine\n"
    assert not any(path.exists() for path in [*forbidden, *private] if path != mine)


@needs_isolation
def test_a_secret_of_the_host_is_not_seen(runner, tmp_path, monkeypatch):
    """
    Neither a file outside, nor the harness's environment, nor other processes tell a candidate anything.
    """
    first, second = secrets.token_hex(16), secrets.token_hex(16)
    hidden = tmp_path / "secret.txt"
    hidden.write_text(first + second)
    monkeypatch.setenv("REPROOF_TEST_SECRET", first + second)
    places = ["/etc/passwd", "/etc/shadow", str(hidden), f"/proc/{os.getpid()}/environ"]
    check = checks("""
        import os
        import solution

        def test_it_looked():
            assert "/etc/passwd" in solution.looked_at
            assert "1" in solution.others

        def test_nothing_was_found():
            assert solution.found == []
            assert "REPROOF_TEST_SECRET" not in os.environ
            assert "/etc/shadow" not in solution.looked_at

        def test_the_first_process_is_closed():
            assert solution.readable == []
            assert "/proc/1/environ" not in solution.looked_at
            assert "/proc/1/mem" not in solution.looked_at
    """)

    report = run(runner, candidate("reads_secrets", part_1=first, part_2=second, places="\n".join(places)), check)

    assert report.verdict == "passed", report


@needs_isolation
def test_there_is_no_network(runner):
    """
    Neither the host's loopback nor its other addresses nor the world can be reached.
    """
    name = f"reproof-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        datagrams = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        datagrams.bind(server.getsockname())
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{name}")
        abstract.listen()
        port = server.getsockname()[1]
        addresses = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
        check = checks("""
            import solution

            def test_nothing_answered():
                assert solution.reached == []

            def test_its_own_loopback_works():
                assert solution.talks_to_itself
        """)

        report = run(runner, candidate("connects", port=str(port), abstract=name, addresses=" ".join(addresses)), check)

        assert report.verdict == "passed", report
        for listener in (server, abstract):
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
        datagrams.setblocking(False)
        with pytest.raises(BlockingIOError):
            datagrams.recv(1)


def test_endless_recursion_is_a_failure(runner):
    """
    Python's own limit is an exception; the report keeps both ends of the stack.
    """
    report = run(runner, "recursion")

    assert report.verdict == "failed"
    assert report.failures[0].kind == "recursion"
    assert report.failures[0].frames_cut > 100
    assert len(report.failures[0].frames) <= 50


def test_recursion_past_the_c_stack_is_a_crash(runner):
    """
    A stack that overflows kills the interpreter.
    """
    report = run(runner, "stack_overflow")

    assert report.verdict == "crashed", report
    assert "SIGSEGV" in report.reason


@needs_isolation
def test_a_signal_to_everyone_kills_only_the_sender(runner):
    """
    A candidate that kills all that it sees does not reach what watches it.
    """
    report = run(runner, "kills_everything")

    assert report.verdict == "crashed", report
    assert "test_adds" in report.reason


def test_a_forged_report_file_counts_for_nothing(runner):
    """
    Files and words that say "passed" are not what a verdict is made of.
    """
    report = run(runner, "forges_report")

    assert report.verdict == "failed"
    assert report.counts == {"failed": 2}


@pytest.mark.parametrize("name", ["garbles_events", "forges_events"])
def test_forged_events_are_noticed(runner, name):
    """
    What something else than our plugin wrote to the channel of events is no pass, and is said.
    """
    report = run(runner, name, seat="in_process")

    assert report.verdict == "tampered", report


ABBREVIATED = {
    "NESTED": '{"type": "X", "cause": ' * 300 + '{"type": "X"}' + "}" * 300,
    "LARGER": "9" * 5_000,
    "LARGE": "9" * 4_000,
    "DEEP": "[" * 2_000 + "]" * 2_000,
    "LONG": "x" * (33 << 20),
}


@pytest.mark.parametrize(
    "event",
    [
        '{"e": "stop", "id": [1], "n": TURN}',
        '{"e": "start", "id": {"a": 1}, "n": TURN}',
        '{"e": "stop", "id": NaN, "n": TURN}',
        '{"e": "warning", "id": "", "category": "", "message": "", "path": "", "line": Infinity, "n": TURN}',
        '{"e": "warning", "id": "", "category": "", "message": "", "path": "", "line": 1e999, "n": TURN}',
        '{"e": "phase", "id": "x", "when": "call", "outcome": "failed", "failure": NESTED, "n": TURN}',
        '{"e": "phase", "id": "x", "when": "call", "outcome": "failed", "failure": {"type": "\\ud800"}, "n": TURN}',
        '{"e": "phase", "id": "x", "when": 3, "outcome": "skipped", "skip": "no", "n": TURN}',
        '{"e": "stop", "id": "x", "out": LARGE, "n": TURN}',
        '{"e": "stop", "id": "x", "out": LARGER, "n": TURN}',
        '{"e": "stop", "id": "x", "more": DEEP, "n": TURN}',
        '{"e": "stop", "id": "x", "more": "LONG", "n": TURN}',
        '{"e": "__class__", "n": TURN}',
    ],
    ids=range(13),
)
def test_no_event_makes_us_fail(runner, event):
    """
    Whatever is sent in our plugin's name, the fault is the candidate's and not ours.
    """
    for name, text in ABBREVIATED.items():
        event = event.replace(name, text)

    report = run(runner, candidate("sends_events", event=event))

    assert report.verdict not in ("passed", "invalid"), report
    assert report.model_dump_json()
    assert str(report).encode()


def test_events_without_end_are_the_candidates_doing(runner):
    """
    A flood of events meets a limit, and is not taken for a failure of ours.
    """
    report = run(runner, "floods_events", seat="in_process", wall_seconds=10)

    assert report.verdict in ("limit", "tampered", "timeout"), report


def test_half_characters_are_reported(runner):
    """
    Text that UTF-8 cannot write is shown in another way; the report can be printed and sent.
    """
    report = run(runner, "lone_surrogates")

    assert report.verdict == "failed"
    assert "half a character" in report.failures[0].message
    assert report.model_dump_json()
    assert str(report).encode()


def test_a_huge_difference_is_cut_and_says_so(runner):
    """
    A failed comparison of a hundred thousand items is bounded, and marked where it was cut.
    """
    report = run(
        runner,
        Submission.from_code("def numbers(): return list(range(100_000))"),
        checks("""
            from solution import numbers

            def test_numbers():
                assert numbers() == list(range(1, 100_001))
        """),
    )

    assert report.verdict == "failed"
    assert "characters cut" in report.failures[0].assertion.left
    assert len(report.model_dump_json()) < 200_000


def test_a_huge_text_difference_is_still_a_failure(runner):
    """
    Comparing two long texts takes pytest long to explain; the answer is that they differ.
    """
    report = run(
        runner,
        Submission.from_code("def text(): return '\\n'.join(f'line {n}' for n in range(20_000))"),
        checks("""
            from solution import text

            def test_text():
                assert text() == "\\n".join(f"row {n}" for n in range(20_000))
        """),
        test_seconds=5,
    )

    assert report.verdict == "failed", report
    assert len(report.model_dump_json()) < 200_000


def test_ten_thousand_tests_are_all_reported(runner):
    """
    No test is lost among many.
    """
    report = run(
        runner,
        "right",
        checks("""
            import pytest
            from solution import add

            @pytest.mark.parametrize("n", range(10_000))
            def test_many(n):
                assert add(n, 1) == n + 1
        """),
        wall_seconds=120,
        cpu_seconds=120,
    )

    assert report.verdict == "passed", report
    assert report.counts == {"passed": 10_000}
    assert report.tests[-1].nodeid.endswith("test_many[9999]")


def test_a_deep_tree_is_no_trouble(runner):
    """
    A hundred directories inside of each other hold a candidate's module and a test.
    """
    deep = "/".join(f"d{level}" for level in range(100))
    report = run(
        runner,
        Submission.from_files({f"{deep}/leaf.txt": "3"}),
        Suite.from_files({f"{deep}/test_leaf.py": f"def test_leaf(): assert open('{deep}/leaf.txt').read() == '3'"}),
    )

    assert report.verdict == "passed", report


def test_any_file_name_is_kept(runner):
    """
    Spaces, other alphabets and line breaks are parts of names like any other character.
    """
    names = ["with space.txt", "ünïcödé/日本.txt", "line\nbreak.txt", "-n", "*?.txt", "quote'\".txt", " ", "🎉.txt"]
    report = run(
        runner,
        Submission.from_files({name: name for name in names}),
        Suite.from_files(
            {
                "a folder/test_ünï cödé\nand more.py": dedent(f"""
                    import pytest

                    @pytest.mark.parametrize("name", {names!r})
                    def test_name(name):
                        assert open(name, encoding="utf-8", newline="").read() == name
                """)
            }
        ),
    )

    assert report.verdict == "passed", report
    assert report.counts == {"passed": len(names)}
    assert report.tests[0].nodeid.startswith("a folder/test_ünï cödé\nand more.py::test_name[")


def test_a_submission_does_not_configure_the_run(runner):
    """
    Its conftest, settings files, start-up modules and own tests are not listened to.
    """
    report = run(runner, Submission.from_path(FIXTURES / "candidates" / "configures"))

    assert report.verdict == "failed", report
    assert report.counts == {"failed": 2}
    assert all(test.nodeid.startswith("test_solution.py::") for test in report.tests)


@pytest.mark.parametrize("name", ["pytest.ini", ".pytest.ini", "pytest.toml", "pyproject.toml", "setup.cfg", "tox.ini"])
def test_no_settings_file_of_a_submission_is_read(runner, name):
    """
    Each settings file that pytest knows is ignored by itself as well, beside the suite's conftest.
    """
    section = {"setup.cfg": "[tool:pytest]", "pyproject.toml": "[tool.pytest.ini_options]"}.get(name, "[pytest]")
    report = run(
        runner,
        Submission.from_files(
            {
                "tests/" + name: f'{section}\naddopts = "--collect-only"\n',
                name: f'{section}\naddopts = "--collect-only"\n',
                "solution.py": "def add(a, b): return a - b",
            }
        ),
        Suite.from_files({"tests/test_solution.py": suite("add").files["test_solution.py"], "conftest.py": ""}),
    )

    assert report.verdict == "failed", report


@pytest.mark.parametrize("name", ["pytest.py", "_pytest/__init__.py", "json.py", "unittest/__init__.py", "src/json.py"])
def test_a_module_named_like_a_library_does_not_replace_it(runner, name):
    """
    A candidate's file with the name of a module that the run needs does not end the run unseen.
    """
    report = run(
        runner,
        Submission.from_files({name: "import os\nos._exit(0)", "solution.py": "def add(a, b): return a - b"}),
    )

    assert report.verdict in ("failed", "crashed"), report


def test_a_suite_configures_the_run(runner):
    """
    The suite's own settings and conftest are the ones that count.
    """
    report = run(
        runner,
        Submission.from_files(
            {"solution.py": "def add(a, b): return a + b", "pytest.ini": "[pytest]\npython_files = x.py"}
        ),
        Suite.from_files(
            {
                "pytest.ini": "[pytest]\npython_files = check_*.py\nmarkers = odd\naddopts = --strict-markers",
                "conftest.py": "import pytest\n\n@pytest.fixture\ndef three():\n    return 3\n",
                "check_add.py": dedent("""
                    import pytest
                    from solution import add

                    @pytest.mark.odd
                    def test_adds(three):
                        assert add(1, 2) == three
                """),
                "test_add.py": "def test_never_collected(): assert False",
            }
        ),
    )

    assert report.verdict == "passed", report
    assert outcomes(report) == {"test_adds": "passed"}


def test_a_suites_file_wins_over_the_submissions(runner):
    """
    Tests that a candidate has edited, or brought along, are replaced by the suite's.
    """
    report = run(
        runner,
        Submission.from_files(
            {"solution.py": "def add(a, b): return a - b", "test_solution.py": "def test_adds(): pass", "data.txt": "4"}
        ),
        Suite.from_files({"test_solution.py": suite("add").files["test_solution.py"], "data.txt": "3"}),
    )

    assert report.verdict == "failed"
    assert outcomes(report) == {"test_adds": "failed", "test_adds_negative_numbers": "failed"}


STAND_IN = """
import os
__file__ = os.path.abspath({name!r})

def test_adds():
    pass

def check(given, expected):
    pass
"""


@pytest.mark.parametrize("name", ["test_solution.py", "helpers.py"])
def test_a_package_does_not_stand_in_for_a_module_of_the_suite(runner, name):
    """
    Python prefers a package to a module of the same name; the suite's module wins all the same.
    """
    package = name.removesuffix(".py")
    report = run(
        runner,
        Submission.from_files(
            {
                "solution.py": "def add(a, b): return a - b",
                f"{package}/__init__.py": STAND_IN.format(name=name),
                f"src/{package}/__init__.py": STAND_IN.format(name=name),
            }
        ),
        Suite.from_files(
            {
                "helpers.py": "def check(given, expected):\n    assert given == expected\n",
                "test_solution.py": "import helpers, solution\ndef test_adds(): helpers.check(solution.add(1, 2), 3)",
            }
        ),
    )

    assert report.verdict == "failed", report


@pytest.mark.parametrize(
    "files",
    [
        {"tests": "a file where the suite has a directory"},
        {"tests/test_solution.py/inner.py": "a directory where the suite has a file"},
    ],
    ids=["file", "directory"],
)
def test_a_submission_does_not_take_the_suites_place(runner, files):
    """
    What a candidate puts in the way of the suite's files gives way to them.
    """
    report = run(
        runner,
        Submission.from_files({"solution.py": "def add(a, b): return a - b", **files}),
        Suite.from_files({"tests/test_solution.py": suite("add").files["test_solution.py"]}),
    )

    assert report.verdict == "failed", report


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("skips_itself", ["failed"]),
        ("skips_at_import", ["failed", "broken"]),
        ("xfails_itself", ["failed"]),
        ("ends_pytest", ["crashed", "failed"]),
        ("ends_pytest_at_import", ["crashed", "broken"]),
        ("interrupts", ["crashed", "failed"]),
    ],
)
def test_a_submission_does_not_talk_itself_out_of_its_tests(runner, name, verdicts):
    """
    A skip, an expected failure or an end of the run that comes from the candidate is no pass.
    """
    report = run(runner, name)

    assert report.verdict in verdicts, report


@pytest.mark.parametrize(
    "code",
    [
        "import unittest\ndef add(a, b): raise unittest.SkipTest('not today')",
        "import unittest\nraise unittest.SkipTest('not today')",
        "import pytest\ndef add(a, b): exec('pytest.skip()', {'pytest': pytest})",
        "import pytest\nclass Skip(pytest.skip.Exception): pass\ndef add(a, b): raise Skip('not today')",
        "import pytest\nclass Sum:\n    def __eq__(self, other): pytest.skip()\ndef add(a, b): return Sum()",
    ],
)
def test_a_skip_in_disguise_is_no_pass(runner, code):
    """
    There are other ways to skip than `pytest.skip`; none of them is a candidate's to take.
    """
    report = run(runner, Submission.from_code(code))

    assert report.verdict in ("failed", "broken"), report


@pytest.mark.parametrize("name", ["skip", "xfail", "importorskip"])
def test_a_function_that_is_pytests_own_skip_is_no_pass(runner, name):
    """
    A candidate whose function *is* pytest's is called by the suite, and has skipped all the same.
    """
    report = run(
        runner,
        Submission.from_code(f"from pytest import {name} as shout\ndef add(a, b): return a + b"),
        checks("""
            from solution import add, shout

            def test_adds():
                assert add(1, 2) == 3

            def test_shouts():
                assert shout("hello") == "HELLO"
        """),
    )

    assert report.verdict == "failed", report


def test_a_base_class_of_the_candidate_does_not_skip_the_suites_tests(runner):
    """
    unittest's own skipTest is no more a candidate's to call than pytest's.
    """
    report = run(
        runner,
        Submission.from_code(
            "import unittest\nclass Base(unittest.TestCase):\n    def setUp(self): self.skipTest('not today')"
        ),
        checks("""
            from solution import Base

            class TestBase(Base):
                def test_something(self):
                    assert False

            def test_else():
                pass
        """),
    )

    assert report.verdict == "failed", report


def test_a_decorator_of_the_candidate_does_not_skip_the_suites_tests(runner):
    """
    A mark that the candidate put on a test is not the suite's.
    """
    report = run(
        runner,
        Submission.from_code("import pytest\ndef twice(function): return pytest.mark.skip(function)"),
        checks("""
            from solution import twice

            @twice
            def test_something():
                assert False

            def test_else():
                pass
        """),
    )

    assert report.verdict == "failed", report


def test_a_skip_of_the_suite_is_the_suites_to_decide(runner):
    """
    What the suite skips, or expects to fail, does not stand in the way of a pass.
    """
    report = run(
        runner,
        "right",
        checks("""
            import pytest
            from solution import add

            def test_adds():
                assert add(1, 2) == 3

            @pytest.mark.skip(reason="not here")
            def test_elsewhere():
                assert False

            def test_sometimes():
                pytest.skip("not now")

            @pytest.mark.xfail(reason="known")
            def test_known():
                assert add(1, 2) == 4
        """),
    )

    assert report.verdict == "passed"
    assert report.counts == {"passed": 1, "skipped": 2, "xfailed": 1}


def test_a_suite_that_skips_everything_has_no_tests(runner):
    """
    Where every test was skipped nothing was found out about the candidate.
    """
    report = run(runner, "right", checks("import pytest\n@pytest.mark.skip(reason='no')\ndef test_a(): pass"))

    assert report.verdict == "no_tests"


def test_a_suite_can_run_on_several_workers(runner):
    """
    xdist's workers report as one process does, structured failures included.
    """
    report = run(
        runner,
        "wrong",
        checks(
            """
            import os
            import pytest
            from solution import add

            @pytest.mark.parametrize("n", range(6))
            def test_adds(n):
                print("printed by", os.environ["PYTEST_XDIST_WORKER"])
                assert add(n, n) == 2 * n
            """,
            workers=2,
        ),
        memory_mb=1024,
    )

    assert report.verdict == "failed", report
    assert report.counts == {"passed": 1, "failed": 5}
    failure = next(failure for failure in report.failures if failure.nodeid.endswith("[3]"))
    assert (failure.assertion.left, failure.assertion.right) == ("0", "6")
    assert "printed by gw" in failure.stdout


def test_a_worker_that_dies_is_a_failure(runner):
    """
    A crash on a worker is not lost between the others' passes.
    """
    report = run(
        runner,
        "segfault",
        checks(
            """
            from solution import add

            def test_fine():
                pass

            def test_dies():
                add(1, 2)

            def test_fine_too():
                pass
            """,
            workers=2,
        ),
        memory_mb=1024,
    )

    assert report.verdict in ("failed", "crashed"), report
    assert "test_dies" in report.reason


def test_a_slow_test_on_a_worker_is_a_timeout(runner):
    """
    The limit of a single test holds on workers, too.
    """
    report = run(runner, "slow_for_one", suite("add_one_slow", workers=2), memory_mb=1024, test_seconds=1)

    assert report.verdict == "timeout", report
    assert outcomes(report) == {"test_before": "passed", "test_slow": "timeout", "test_after": "passed"}


def test_a_worker_that_will_not_stop_is_a_timeout(runner):
    """
    A test that cannot be interrupted ends the run at the job's own limit.
    """
    report = run(runner, "unstoppable_loop", suite("add", workers=2), memory_mb=1024, test_seconds=1, wall_seconds=4)

    assert report.verdict == "timeout", report


def test_async_tests_run(runner):
    """
    Coroutines are tests, with or without a mark, and async fixtures work.
    """
    report = run(
        runner,
        Submission.from_code("import asyncio\nasync def add(a, b):\n    await asyncio.sleep(0)\n    return a + b"),
        checks("""
            import pytest
            import pytest_asyncio
            from solution import add

            @pytest_asyncio.fixture
            async def three():
                return await add(1, 2)

            async def test_unmarked(three):
                assert three == 3

            @pytest.mark.asyncio
            async def test_marked():
                assert await add(1, 2) == 3

            async def test_wrong():
                assert await add(1, 2) == 4
        """),
    )

    assert report.verdict == "failed"
    assert outcomes(report) == {"test_unmarked": "passed", "test_marked": "passed", "test_wrong": "failed"}


def test_unittest_classes_run(runner):
    """
    unittest's own assertions have their two sides in the report.
    """
    report = run(
        runner,
        "wrong",
        checks("""
            import unittest
            from solution import add

            class TestAdd(unittest.TestCase):
                def setUp(self):
                    self.three = 3

                def test_adds(self):
                    self.assertEqual(add(1, 2), self.three)

                def test_zero(self):
                    self.assertEqual(add(0, 0), 0)
        """),
    )

    assert report.verdict == "failed"
    assert outcomes(report) == {"test_adds": "failed", "test_zero": "passed"}
    assertion = report.failures[0].assertion
    assert (assertion.left, assertion.operator, assertion.right) == ("-1", "==", "3")


def test_doctests_run_if_the_suite_asks(runner):
    """
    The examples in a candidate's docstrings are tests when the suite says so.
    """
    code = 'def add(a, b):\n    """\n    >>> add(1, 2)\n    3\n    """\n    return a - b\n'
    asking = suite("add", options=("--doctest-modules",))
    report = run(runner, Submission.from_code(code), asking)

    assert report.verdict == "failed"
    assert any(failure.nodeid == "solution.py::solution.add" for failure in report.failures)
    assert len(report.tests) == 3


def test_parameters_classes_and_wider_fixtures_work(runner):
    """
    Parametrised tests have their own ids; module and class fixtures are set up once.
    """
    report = run(
        runner,
        "right",
        checks("""
            import pytest
            from solution import add

            made = []

            @pytest.fixture(scope="module")
            def once():
                made.append("module")
                yield add(1, 2)

            @pytest.fixture(scope="class")
            def per_class():
                made.append("class")

            class TestAdd:
                @pytest.mark.parametrize(("a", "b"), [(1, 2), pytest.param(2, 1, id="turned")])
                def test_adds(self, a, b, once, per_class):
                    assert add(a, b) == once

                def test_made(self, once, per_class):
                    assert made == ["module", "class"]
        """),
    )

    assert report.verdict == "passed", report
    assert outcomes(report) == {"test_adds[1-2]": "passed", "test_adds[turned]": "passed", "test_made": "passed"}


def test_subtests_are_told_apart(runner):
    """
    A subtest that fails fails its test, and says which it was.
    """
    report = run(
        runner,
        "wrong",
        checks("""
            import unittest
            from solution import add

            class TestAdd(unittest.TestCase):
                def test_adds(self):
                    for n in range(3):
                        with self.subTest(n=n):
                            self.assertEqual(add(n, n), 2 * n)

            def test_subtests(subtests):
                for n in range(3):
                    with subtests.test("doubling", n=n):
                        assert add(n, n) == 2 * n
        """),
    )

    assert report.verdict == "failed", report
    assert set(outcomes(report).values()) == {"failed"}
    told = [failure.subtest for failure in report.failures if failure.subtest]
    assert [text for text in told if "n=1" in text]
    assert [text for text in told if "n=2" in text]


def test_hypothesis_tells_what_it_found_and_how_to_find_it_again(runner):
    """
    The falsifying example and the seed that reproduces it are in the report.
    """
    against = checks("""
        from hypothesis import given, strategies as st
        from solution import add

        @given(a=st.integers(), b=st.integers())
        def test_order_does_not_matter(a, b):
            assert add(a, b) == add(b, a)
    """)
    report = verify(candidate("wrong"), against, runner=runner, limits=LIMITS, seed=7)

    assert report.verdict == "failed"
    found = report.failures[0].hypothesis
    assert found.seed == 7
    assert "a=0" in found.example
    assert "b=1" in found.example


def test_the_chain_of_causes_is_kept(runner):
    """
    An error raised because of another comes with it, and with the candidate's locals.
    """
    report = run(runner, "raises")

    assert report.verdict == "failed"
    failure = report.failures[0]
    assert (failure.exception.type, failure.exception.message) == ("ValueError", "no sum without c")
    assert failure.exception.explicit_cause
    assert (failure.exception.cause.type, failure.exception.cause.message) == ("KeyError", "'c'")
    assert failure.place == "solution.py:8"
    assert failure.test_place == "test_solution.py:7"
    frame = failure.frames[-1]
    assert (frame.path, frame.function, frame.owner) == ("solution.py", "add", "submission")
    assert frame.source == 'raise ValueError("no sum without c") from exc'
    assert frame.locals["total"] == "{'a': 1, 'b': 2}"
    assert all(not frame.locals for frame in failure.frames if frame.owner == "suite")


def test_what_the_failing_test_said_is_kept(runner):
    """
    stdout, stderr, log and warnings belong to the failure of their test.
    """
    failure = run(runner, "talks").failures[0]

    assert failure.stdout == "said on stdout\n"
    assert failure.stderr == "said on stderr\n"
    assert "said in the log" in failure.log
    assert [warning.message for warning in failure.warnings] == ["said as a warning"]
    assert (failure.warnings[0].category, failure.warnings[0].path) == ("UserWarning", "solution.py")


def test_two_runs_are_the_same_run(runner):
    """
    The order of sets and the numbers of `random` are those of the seed.
    """
    code = Submission.from_code(
        "import random\ndef draw(): return [random.random(), list({'a', 'b', 'c', 'd', 'e'}), hash('x')]"
    )
    against = checks("from solution import draw\ndef test_draw(): assert draw() == None")

    first, second, other = (
        verify(code, against, runner=runner, limits=LIMITS, seed=seed).failures[0].assertion.left for seed in (1, 1, 2)
    )

    assert first == second
    assert first != other


def test_variables_are_those_of_the_environment(runner):
    """
    A job sees the variables that it was given and none of the harness's.
    """
    against = checks("""
        import os

        def test_variables():
            assert os.environ["GIVEN"] == "given by the job"
            assert "PYTEST_XDIST_TESTRUNUID" not in os.environ
            assert "VIRTUAL_ENV" not in os.environ
    """)
    given = Environment(variables={"GIVEN": "given by the job"})

    report = verify(candidate("right"), against, runner=runner, limits=LIMITS, environment=given)

    assert report.verdict == "passed", report


def test_the_hash_seed_is_the_environments(runner):
    """
    It is in force, and not only among the variables: what a job starts gets the same hashes.
    """
    against = checks("""
        import os, subprocess, sys

        def test_hashes():
            asked = [sys.executable, "-c", "print(hash('text'))"]
            assert os.environ["PYTHONHASHSEED"] == "7"
            assert int(subprocess.check_output(asked)) == hash("text")
    """)
    given = Environment(variables={"PYTHONHASHSEED": "7"})

    report = verify(candidate("right"), against, runner=runner, limits=LIMITS, environment=given)

    assert report.verdict == "passed", report


KINDS = """
import datetime, math, sys
from decimal import Decimal

def same(value): return value
def keywords(*, a, b=2): return [a, b]
def fails(text): raise ValueError(f"bad input: {text}")
def third(): return 1 / 3
def prints(name): print("hello", name)
def pair(): return (1, [2, {3}], frozenset({4}), b"5", Decimal("6.50"), complex(7, 8))
def moment(): return datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc)
def odd(): return [math.nan, math.inf, -math.inf, -0.0]

class Stack:
    def __init__(self, items=(), limit=None):
        self.items, self.limit = list(items), limit
    def push(self, item):
        if self.limit is not None and len(self.items) >= self.limit: raise OverflowError("full")
        self.items.append(item)
        return self.items
    @classmethod
    def empty(cls): return len(cls().items)

if __name__ == "__main__":
    numbers = [int(word) for word in sys.stdin.read().split()]
    print(sum(numbers))
    sys.exit(0 if numbers else 3)
"""

RIGHT_CASES = {
    "expected": Case(call="solution.same", args=[{"a": [1, None, "é"]}], expected={"a": [1, None, "é"]}),
    "kwargs": Case(call="solution.keywords", kwargs={"a": 1}, expected=[1, 2]),
    "raises": Case(call="solution.fails", args=["x"], raises="ValueError", match="bad .*: x"),
    "raises a base": Case(call="solution.fails", args=["x"], raises="Exception"),
    "approx": Case(call="solution.third", expected=0.3333, approx=1e-3),
    "printed": Case(call="solution.prints", args=["world"], stdout="hello world\n"),
    "program": Case(stdin="1 2 3\n", stdout="6\n"),
    "method": Case(call="solution.Stack.push", init=[[1]], args=[2], expected=[1, 2]),
    "method with keywords": Case(
        call="solution.Stack.push", init=[], init_kwargs={"limit": 0}, args=[2], raises="OverflowError"
    ),
    "class method": Case(call="solution.Stack.empty", expected=0),
    "types": Case(call="solution.pair", expected=(1, [2, {3}], frozenset({4}), b"5", Decimal("6.50"), complex(7, 8))),
    "moment": Case(call="solution.moment", expected=datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)),
    "odd numbers": Case(call="solution.odd", expected=[math.nan, math.inf, -math.inf, -0.0]),
    "arguments keep their type": Case(
        call="solution.same", args=[(1, {2}, b"3", Decimal("4"), {5: 6})], expected=(1, {2}, b"3", Decimal("4"), {5: 6})
    ),
    "an integer of any size": Case(call="solution.same", args=[10**400], expected=10**400),
}

WRONG_CASES = {
    "another value": Case(call="solution.same", args=[1], expected=2),
    "another type": Case(call="solution.same", args=[1], expected=1.0),
    "truth is no number": Case(call="solution.same", args=[True], expected=1),
    "a list is no tuple": Case(call="solution.same", args=[[1]], expected=(1,)),
    "nothing raised": Case(call="solution.same", args=[1], raises="ValueError"),
    "another error": Case(call="solution.fails", args=["x"], raises="KeyError"),
    "another message": Case(call="solution.fails", args=["x"], raises="ValueError", match="^x"),
    "raised": Case(call="solution.fails", args=["x"], expected=1),
    "not near enough": Case(call="solution.third", expected=0.3, approx=1e-3),
    "printed something else": Case(call="solution.prints", args=["world"], stdout="hello\n"),
    "another output": Case(stdin="1 2 3\n", stdout="7\n"),
    "a bad exit status": Case(stdin="", stdout="0\n"),
    "no such function": Case(call="solution.nothing", expected=1),
    "an object": Case(call="solution.Stack", expected=None),
}


def named(cases: dict[str, Case]) -> Suite:
    return Suite.from_cases(case.model_copy(update={"name": name}) for name, case in cases.items())


def test_cases_of_every_kind_pass(runner):
    """
    Values, errors, output and whole programs are compared outside of the sandbox, by type.
    """
    report = run(runner, Submission.from_code(KINDS), named(RIGHT_CASES))

    assert report.verdict == "passed", report
    assert report.counts == {"passed": len(RIGHT_CASES)}


def test_cases_of_every_kind_fail(runner):
    """
    What is not exactly what was expected is a failure, with a message that says why.
    """
    report = run(runner, Submission.from_code(KINDS), named(WRONG_CASES))

    assert report.verdict == "failed"
    assert report.counts == {"failed": len(WRONG_CASES)}
    assert all(failure.message for failure in report.failures)


def test_a_program_runs_to_its_own_end(runner):
    """
    What a program's threads and exit handlers print is its output, as at any command line.
    """
    code = dedent("""
        import atexit, threading, time

        def late():
            time.sleep(0.1)
            print("thread")

        atexit.register(print, "handler")
        threading.Thread(target=late).start()
        print("main")
    """)
    report = run(
        runner, Submission.from_code(code), Suite.from_cases([Case(stdin="", stdout="main\nthread\nhandler\n")])
    )

    assert report.verdict == "passed", report


def test_an_object_that_equals_everything_fools_no_case(runner):
    """
    The candidate's own __eq__ never gets to decide.
    """
    report = run(runner, "equals_everything", Suite.from_cases([Case(call="solution.add", args=[1, 2], expected=3)]))

    assert report.verdict == "failed"


def test_what_a_case_expects_never_enters_the_sandbox(runner):
    """
    A candidate that searches all of its memory for the expected value does not find it; an argument it would.
    """
    answer = secrets.token_hex(16)
    searching = candidate("searches_memory", digest=hashlib.sha256(answer.encode()).hexdigest())
    expected = Case(call="solution.search", expected=answer)
    given = Case(call="solution.DIGEST.strip", args=[answer], raises="Exception")

    assert run(runner, searching, Suite.from_cases([expected])).verdict == "failed"
    assert run(runner, searching, Suite.from_cases([expected, given])).counts == {"passed": 1, "failed": 1}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("infinite_loop", "timeout"),
        ("swallows_exceptions", "timeout"),
        ("exits_0", "crashed"),
        ("exits_0_in_call", "crashed"),
        ("segfault", "crashed"),
        ("syntax_error", "failed"),
        ("sys_exit_in_call", "failed"),
        ("allocates_2_gb", "out_of_memory"),
        ("recursion", "failed"),
        ("garbles_events", "tampered"),
    ],
)
def test_cases_meet_hostile_code_as_tests_do(runner, name, verdict):
    """
    The verdict of a candidate that crashes, hangs or forges is the same without pytest.
    """
    cases = Suite.from_cases([Case(call="solution.add", args=[13, 13], expected=26)])
    report = run(runner, name, cases, test_seconds=0.5 if verdict == "timeout" else 10)

    assert report.verdict in (verdict, "broken" if verdict == "failed" else verdict), report


def test_one_slow_case_does_not_take_the_others_with_it(runner):
    """
    A case that will not stop is a timeout; the other cases, and pytest's tests, report as ever.
    """
    cases = [Case(call="solution.add", args=[n, n], expected=2 * n) for n in (1, 13, 2)]
    report = run(runner, "swallows_exceptions", suite("add", cases=tuple(cases)), test_seconds=2)

    assert report.verdict == "timeout"
    assert [test.outcome for test in report.tests] == ["passed", "timeout", "passed", "passed", "passed"]


def test_cases_and_tests_can_be_mixed(runner):
    """
    A suite of both passes only if both do.
    """
    good = Case(call="solution.add", args=[1, 2], expected=3)
    bad = Case(call="solution.add", args=[1, 2], expected=4)

    assert run(runner, "right", suite("add", cases=(good,))).counts == {"passed": 3}
    report = run(runner, "right", suite("add", cases=(bad,)))
    assert report.verdict == "failed"
    assert report.counts == {"passed": 2, "failed": 1}


async def test_cancelling_leaves_nothing(runner):
    """
    A verification that is cancelled while a test runs is gone when the cancellation is through.
    """
    running = asyncio.Event()
    work = asyncio.create_task(
        averify(
            candidate("unstoppable_loop"),
            suite("add"),
            runner=runner,
            limits=LIMITS,
            on_event=lambda event: running.set() if event.get("e") == "start" else None,
        )
    )
    waiting = asyncio.create_task(running.wait())
    await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()

    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work


@pytest.mark.parametrize("steps", [1, 3, 10, 40])
async def test_cancelling_while_it_starts_leaves_nothing(runner, steps):
    """
    It does not matter how far a verification has come when it is cancelled.
    """
    work = asyncio.create_task(averify(candidate("right"), suite("add"), runner=runner, limits=LIMITS))
    for _ in range(steps):
        await asyncio.sleep(0)
    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work


def test_verify_can_be_called_from_threads(runner):
    """
    Verifications at the same time do not mix their answers.
    """
    names = ["right", "wrong", "exits_0", "sys_exit_in_call"] * 2
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda name: run(runner, name).verdict, names))

    assert verdicts == ["passed", "failed", "crashed", "failed"] * 2


async def test_verify_can_be_called_inside_a_running_loop(runner):
    """
    The synchronous function works where an event loop already runs, and beside the asynchronous one.
    """
    there = run(runner, "wrong")
    here, also = await asyncio.gather(
        averify(candidate("right"), suite("add"), runner=runner, limits=LIMITS),
        averify(candidate("wrong"), suite("add"), runner=runner, limits=LIMITS),
    )

    assert (there.verdict, here.verdict, also.verdict) == ("failed", "passed", "failed")
