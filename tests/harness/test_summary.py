"""What many reports come to: right, resumable, and in memory that stays flat."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Failure, Report
from harness.batch import Task, result_line
from harness.cli import main
from harness.models import Assertion, ErrorInfo, Measurements, Submission, Suite
from harness.summary import KEPT_CAUSES, KEPT_SLOWEST, RATIO, Distribution, Summary


def failed(message: str, nodeid: str = "t.py::test", seconds: float = 1.0) -> Report:
    error = ErrorInfo(type="ValueError", message=message)
    failure = Failure(nodeid=nodeid, phase="call", kind="exception", message=message, exception=error)
    measured = Measurements(total_seconds=seconds, peak_memory_mb=40)
    return Report(verdict="failed", reason=message, failures=(failure,), measurements=measured)


@given(st.lists(st.floats(0.001, 10_000), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_is_right_to_within_a_bucket(values, share):
    """
    The value that is told is at least the true quantile, and no more than a bucket's width above it.
    """
    found = Distribution()
    for value in values:
        found.add(value)

    true = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    assert true * (1 - 1e-6) <= found.quantile(share) <= true * RATIO * (1 + 1e-6)


@given(st.lists(st.floats(0, 10_000), min_size=1, max_size=100), st.integers(1, 60))
def test_bars_hold_every_measurement(values, most):
    """
    No measurement is lost between the bars of a chart, and there are no more of them than asked for.
    """
    found = Distribution()
    for value in values:
        found.add(value)

    bars = found.bars(most)

    assert len(bars) <= most
    assert sum(count for _, _, count in bars) == len(values)
    assert all(low < high for low, high, _ in bars)


def test_failures_that_differ_in_values_only_count_together():
    """
    `bad 1 in 'a'` and `bad 22 in 'b'` are one failure, seen twice, with a job to look at.
    """
    summary = Summary()
    summary.add("first", failed("bad 1 in 'a'"))
    summary.add("second", failed("bad 22 in 'b'"))

    [(cause, common)] = summary.failures.most_common(5)

    assert (cause, common.count, common.example) == ("ValueError: bad N in '…'", 2, "first")


def test_a_test_that_was_ended_counts_by_why():
    """
    The exception by which the guest ends a test is our doing: what counts is what the test did.
    """
    summary = Summary()
    ours = ErrorInfo(type="CandidateLost", module="reproof_guest.judging", message="the candidate was lost")
    failure = Failure(nodeid="t", phase="call", kind="timeout", message="ran longer than its 5 seconds", exception=ours)
    summary.add("job", Report(verdict="failed", reason="", failures=(failure,)))

    assert [cause for cause, _ in summary.failures.most_common(9)] == ["timeout: ran longer than its N seconds"]


def test_what_we_failed_at_is_no_failure_of_a_candidate():
    """
    An invalid job is counted apart, with its reason.
    """
    summary = Summary()
    summary.add(7, Report(verdict="invalid", reason="no daemon answered"))

    assert summary.failures.most_common(5) == []
    assert [(cause, common.example) for cause, common in summary.faults.most_common(5)] == [("no daemon answered", "7")]
    assert summary.seconds.count == 0


def test_the_slowest_are_kept_in_order():
    """
    Of many jobs the slowest are named, the slowest first.
    """
    summary = Summary()
    for number in range(100):
        summary.add(f"job-{number}", failed("x", seconds=float(number * 37 % 100)))

    assert [slow.seconds for slow in summary.slowest] == [99.0 - rank for rank in range(KEPT_SLOWEST)]


def test_a_common_failure_survives_any_number_of_rare_ones():
    """
    What is seen often is still there, with its count, after thousands that are seen once.
    """
    summary = Summary()
    for number in range(6 * KEPT_CAUSES):
        summary.add(number, failed("".join(chr(97 + int(digit)) for digit in str(number))))
        if number % 3 == 0:
            summary.add(number, failed("common"))

    cause, common = summary.failures.most_common(1)[0]

    assert (cause, common.count) == ("ValueError: common", 2 * KEPT_CAUSES)


def test_memory_does_not_grow_with_the_number_of_reports(monkeypatch):
    """
    Ten times as many reports, each with a failure of its own, take no more memory.
    """
    monkeypatch.setattr("harness.summary.KEPT_CAUSES", 100)
    summary = Summary()
    names = iter(range(1_000_000))

    def add(count: int) -> int:
        for number, _ in zip(names, range(count), strict=False):
            word = "".join(chr(97 + int(digit)) for digit in str(number))
            summary.add({"id": word * 20}, failed(word * 50, nodeid=f"t.py::{word}"))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        after_some = add(300)
        after_many = add(3_000)
    finally:
        tracemalloc.stop()

    assert after_many < 1.5 * after_some


def test_assertions_count_by_their_operator():
    """
    The values of an assertion differ from job to job; that it was an equality does not.
    """
    compared = Assertion(operator="==", left="1", right="2")
    failure = Failure(nodeid="t", phase="call", kind="assertion", message="assert 1 == 2", assertion=compared)
    summary = Summary()
    summary.add(1, Report(verdict="failed", reason="", failures=(failure,)))

    assert summary.failures.most_common(1)[0][0] == "assertion: … == …"


def test_the_results_of_an_earlier_run_count_too(tmp_path):
    """
    The page of a batch that was gone on with is of all its jobs; a damaged line is passed over.
    """
    task = Task("a", Submission.from_code("x"), Suite.from_code("y"))
    path = tmp_path / "results.jsonl"
    path.write_text(result_line(task, failed("one")) + "{damaged\n" + result_line(task, failed("two")))
    summary = Summary()

    summary.add_results(path)

    assert summary.verdicts == {"failed": 2}


@pytest.mark.parametrize("second", [False, True])
def test_batch_writes_the_page_of_all_its_results(tmp_path, second):
    """
    `reproof batch --html` sums all results of the output up, also those of the run before.
    """
    tests = {"test_solution.py": "from solution import f\ndef test_f(): assert f() == 1"}
    jobs = [{"id": n, "files": {"solution.py": f"f = lambda: {n}"}, "tests": tests} for n in (1, 2)]
    (tmp_path / "jobs.jsonl").write_text("\n".join(map(json.dumps, jobs)))
    command = ["batch", str(tmp_path / "jobs.jsonl"), "--output", str(tmp_path / "r.jsonl"), "--runner", "bubblewrap"]
    if second:
        main(command)

    status = main([*command, "--html", str(tmp_path / "page.html")])

    assert status == (0 if second else 1)
    assert "<title>2 jobs, 50.0 % passed</title>" in (tmp_path / "page.html").read_text("utf-8")
