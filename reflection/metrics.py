"""Prometheus metrics of the loop, in the registry that the harness keeps."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from harness.metrics import REGISTRY

from .conversation import Tokens
from .transcript import Result

__all__ = ["record_generation", "record_run", "record_verification"]

_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

_runs = Counter(
    "reflection_runs",
    "Runs of the reflection loop, by why they ended.",
    ["outcome"],
    registry=REGISTRY,
)
_iterations = Histogram(
    "reflection_iterations",
    "Iterations of a run.",
    buckets=(0, 1, 2, 3, 4, 5, 8, 12, 20, 50, 100, 200, 500),
    registry=REGISTRY,
)
_tokens = Counter(
    "reflection_tokens",
    "Tokens that generators read (prompt) and wrote (completion).",
    ["kind"],
    registry=REGISTRY,
)
_generation = Histogram(
    "reflection_generation_seconds",
    "Seconds until a generator had answered.",
    buckets=_SECONDS,
    registry=REGISTRY,
)
_verification = Histogram(
    "reflection_verification_seconds",
    "Seconds until a candidate was verified, repetitions included.",
    buckets=_SECONDS,
    registry=REGISTRY,
)


def record_generation(tokens: Tokens, seconds: float) -> None:
    """A generator has answered, with code or with a reflection."""
    _tokens.labels("prompt").inc(tokens.prompt)
    _tokens.labels("completion").inc(tokens.completion)
    _generation.observe(seconds)


def record_verification(seconds: float) -> None:
    _verification.observe(seconds)


def record_run(result: Result, outcome: str) -> None:
    """`outcome` is the result's, or `error` or `cancelled` for a run that came to no end of its own."""
    _runs.labels(outcome).inc()
    _iterations.observe(result.iterations)
