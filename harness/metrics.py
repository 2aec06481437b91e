"""Prometheus metrics, in a registry of our own: a caller's default registry stays theirs."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server, write_to_textfile

if TYPE_CHECKING:
    from runners.pool import Pool

    from .models import Report

__all__ = ["REGISTRY", "pool_opened", "pool_taken", "record", "serve", "write"]

REGISTRY = CollectorRegistry()

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

_executions = Counter(
    "sandbox_executions",
    "Verifications by sandbox and verdict.",
    ["sandbox_type", "status"],
    registry=REGISTRY,
)
_duration = Histogram(
    "sandbox_execution_duration_seconds",
    "Seconds of a whole verification.",
    ["sandbox_type"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
_errors = Counter(
    "executions_errors",
    "Verifications that did not find out, by reason.",
    ["reason"],
    registry=REGISTRY,
)
_phases = Histogram(
    "sandbox_phase_seconds",
    "Seconds of each phase of a verification.",
    ["sandbox_type", "phase"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
_memory = Histogram(
    "sandbox_peak_memory_bytes",
    "Peak memory of a verification, by the kernel's accounting.",
    ["sandbox_type"],
    buckets=tuple(2.0**power for power in range(24, 36)),
    registry=REGISTRY,
)
_cpu = Histogram(
    "sandbox_cpu_seconds",
    "CPU seconds of a verification, by the kernel's accounting.",
    ["sandbox_type"],
    buckets=_SECONDS,
    registry=REGISTRY,
)

_pool = Counter(
    "sandbox_pool_requests",
    "Requests to a pool of warm sandboxes: hit, or miss where one had to be started.",
    ["result"],
    registry=REGISTRY,
)
_pool_wait = Histogram(
    "sandbox_pool_wait_seconds",
    "Seconds until a pool gave a sandbox.",
    buckets=_SECONDS,
    registry=REGISTRY,
)

_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
Gauge(
    "sandbox_pool_size",
    "Sandboxes of pools that exist right now: ready, getting ready or in use.",
    registry=REGISTRY,
).set_function(lambda: sum(pool.size for pool in list(_pools)))

PHASES = ("queue", "start", "send", "collect", "run", "judge")


def record(report: Report, error: str | None = None) -> None:
    sandbox = report.runner
    _executions.labels(sandbox, report.verdict).inc()
    if report.verdict == "invalid":
        _errors.labels(error or "suite").inc()
    if error is not None:
        return  # nothing ran, or nothing is known of it
    measured = report.measurements
    _duration.labels(sandbox).observe(measured.total_seconds)
    for phase in PHASES:
        _phases.labels(sandbox, phase).observe(getattr(measured, f"{phase}_seconds"))
    _memory.labels(sandbox).observe(measured.peak_memory_mb * 1024 * 1024)
    _cpu.labels(sandbox).observe(measured.cpu_seconds)


def pool_opened(pool: Pool) -> None:
    """Count its sandboxes for as long as it is there."""
    _pools.add(pool)


def pool_taken(hit: bool, seconds: float) -> None:
    _pool.labels("hit" if hit else "miss").inc()
    _pool_wait.observe(seconds)


def serve(port: int) -> None:
    """Answer scrapes on this port of the loopback interface until the process ends."""
    start_http_server(port, addr="127.0.0.1", registry=REGISTRY)


def write(path: Path) -> None:
    """For runs too short to be scraped: a file for node_exporter's textfile collector."""
    write_to_textfile(str(path), REGISTRY)
