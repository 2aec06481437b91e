"""Reproof: run generated code against tests in a throwaway sandbox, and get a verdict to trust."""

from runners.contract import Environment, Limits, Runner, RunnerError, RunnerLost, RunnerUnavailable

from .batch import averify_many, verify_many
from .cache import VerdictCache
from .models import Case, Failure, Report, Submission, Suite, TestResult, Verdict
from .verify import averify, verify
from .warm import awarm, warm

__all__ = [
    "Case",
    "Environment",
    "Failure",
    "Limits",
    "Report",
    "Runner",
    "RunnerError",
    "RunnerLost",
    "RunnerUnavailable",
    "Submission",
    "Suite",
    "TestResult",
    "Verdict",
    "VerdictCache",
    "averify",
    "averify_many",
    "awarm",
    "verify",
    "verify_many",
    "warm",
]
