"""Prometheus metrics: what is counted, where, and how it gets out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request

import prometheus_client
import pytest

from harness import Environment, Report, Submission, Suite, metrics, verify, warm
from harness.models import Measurements

SUBMISSION = Submission.from_code("def f(): return 1")
SUITE = Suite.from_code("from solution import f\ndef test(): assert f() == 1")
UNINSTALLABLE = Environment(requirements=("this-is-no-package-of-any-index==0",))


def value(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.fixture(scope="module")
def before_and_after() -> tuple[dict[str, float], dict[str, float], Report]:
    """Every sample before and after one real verification, and its report."""

    def samples() -> dict[str, float]:
        return {
            sample.name + str(sorted(sample.labels.items())): sample.value
            for family in metrics.REGISTRY.collect()
            for sample in family.samples
        }

    before = samples()
    report = verify(SUBMISSION, SUITE, runner="bubblewrap")
    return before, samples(), report


def grown(before_and_after, name: str, **labels: str) -> float:
    before, after, _ = before_and_after
    key = name + str(sorted(labels.items()))
    return after[key] - before.get(key, 0.0)


def test_a_verification_is_counted_by_sandbox_and_verdict(before_and_after):
    """
    One verification is one execution of its runner with its verdict.
    """
    assert grown(before_and_after, "sandbox_executions_total", sandbox_type="bubblewrap", status="passed") == 1


@pytest.mark.parametrize("phase", ["queue", "start", "send", "collect", "run", "judge"])
def test_every_phase_is_observed(before_and_after, phase):
    """
    Each phase's seconds are observed once, and are those of the report.
    """
    labels = {"sandbox_type": "bubblewrap", "phase": phase}
    _, _, report = before_and_after

    assert grown(before_and_after, "sandbox_phase_seconds_count", **labels) == 1
    seconds = getattr(report.measurements, f"{phase}_seconds")
    assert grown(before_and_after, "sandbox_phase_seconds_sum", **labels) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("name", "field", "unit"),
    [
        ("sandbox_execution_duration_seconds_sum", "total_seconds", 1),
        ("sandbox_cpu_seconds_sum", "cpu_seconds", 1),
        ("sandbox_peak_memory_bytes_sum", "peak_memory_mb", 1024 * 1024),
    ],
)
def test_the_figures_are_those_of_the_report(before_and_after, name, field, unit):
    """
    Duration, CPU seconds and peak memory are measured, and the same figures stand in the report.
    """
    _, _, report = before_and_after
    figure = getattr(report.measurements, field)

    assert figure > 0
    assert grown(before_and_after, name, sandbox_type="bubblewrap") == pytest.approx(figure * unit)


def test_the_phases_add_up_to_the_whole(before_and_after):
    """
    Queueing, starting, sending, collecting and running are the whole time, but for the judging.
    """
    measured = before_and_after[2].measurements

    phases = sum(getattr(measured, f"{phase}_seconds") for phase in ("queue", "start", "send", "collect", "run"))

    assert phases == pytest.approx(measured.total_seconds, rel=0.01)


def test_what_we_could_not_find_out_is_an_error_with_a_reason():
    """
    A runner that cannot be had is counted as an error, by reason, and its seconds are not observed.
    """
    observed = value("sandbox_execution_duration_seconds_count", sandbox_type="bubblewrap")
    errors = value("executions_errors_total", reason="RunnerUnavailable")

    report = verify(SUBMISSION, SUITE, runner="bubblewrap", environment=UNINSTALLABLE)

    assert report.verdict == "invalid"
    assert value("executions_errors_total", reason="RunnerUnavailable") == errors + 1
    assert value("sandbox_execution_duration_seconds_count", sandbox_type="bubblewrap") == observed


def test_the_default_registry_stays_the_callers(before_and_after):
    """
    None of our metrics is in prometheus_client's default registry.
    """
    theirs = {family.name for family in prometheus_client.REGISTRY.collect()}

    assert not theirs & {family.name for family in metrics.REGISTRY.collect()}


def test_a_textfile_holds_all_of_it(tmp_path, before_and_after):
    """
    The textfile for short runs is in Prometheus' own notation, with every metric in it.
    """
    metrics.write(tmp_path / "reproof.prom")

    written = (tmp_path / "reproof.prom").read_text()
    assert 'sandbox_executions_total{sandbox_type="bubblewrap",status="passed"}' in written
    assert {family.name for family in metrics.REGISTRY.collect()} <= set(written.replace("_total", "").split())
    assert os.listdir(tmp_path) == ["reproof.prom"]


def test_a_port_answers_on_loopback():
    """
    A scrape of the port gets the metrics of the process that serves it.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = (
        "import sys; from harness import metrics; metrics.serve(int(sys.argv[1])); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(port)]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as serving:
        serving.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            scraped = answer.read().decode()
        serving.stdin.close()

    assert "# TYPE sandbox_executions_total counter" in scraped


def test_labels_hold_nothing_that_a_candidate_chose():
    """
    A reason is one of a few words, so that no candidate can fill the registry with labels.
    """
    report = Report(verdict="invalid", reason="chosen by the candidate", measurements=Measurements())
    before = value("executions_errors_total", reason="suite")

    metrics.record(report)

    assert value("executions_errors_total", reason="suite") == before + 1


def test_a_pool_is_measured_for_as_long_as_it_is_there(bubblewrap_runner):
    """
    How many sandboxes it has, whether requests found one ready, and how long they waited.
    """
    before = {name: value(name) for name in ("sandbox_pool_size", "sandbox_pool_wait_seconds_count")}
    hits = value("sandbox_pool_requests_total", result="hit")
    with warm(bubblewrap_runner, size=2, freshness="fork") as pool:
        size = value("sandbox_pool_size")
        verify(SUBMISSION, SUITE, runner=pool)

    assert size == before["sandbox_pool_size"] + 2
    assert value("sandbox_pool_size") == before["sandbox_pool_size"]
    assert value("sandbox_pool_requests_total", result="hit") == hits + 1
    assert value("sandbox_pool_wait_seconds_count") == before["sandbox_pool_wait_seconds_count"] + 1
