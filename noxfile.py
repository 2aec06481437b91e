"""What CI runs: `nox` with no arguments. Long measurements are sessions of their own."""

from __future__ import annotations

import nox

nox.needs_version = ">=2025.2"
nox.options.sessions = ["lint", "types", "tests", "selfcheck"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True

LOCK = ".ci/constraints.txt"


def _install(session: nox.Session) -> None:
    session.install("-q", "-c", LOCK, "-e", ".[dev]")


@nox.session
def lint(session: nox.Session) -> None:
    """Style, by ruff."""
    session.install("-q", "-c", LOCK, "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types, by mypy --strict."""
    _install(session)
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Every test, on every runner that this machine has; starts a Docker engine if none answers."""
    _install(session)
    session.run("python", "-m", "tests.engine", "--", "python", "-m", "pytest", "-n", "2", *session.posargs)


@nox.session
def contract(session: nox.Session) -> None:
    """The contract that every runner must keep."""
    _install(session)
    command = ["python", "-m", "pytest", "-n", "2", "tests/runners/test_contract.py"]
    session.run("python", "-m", "tests.engine", "--", *command, *session.posargs)


@nox.session
def selfcheck(session: nox.Session) -> None:
    """The tool on its own samples, as a user's noxfile would call it."""
    _install(session)
    suite = "fixtures/samples/test_duration.py"
    session.run("reproof", "doctor")
    session.run("reproof", "verify", "fixtures/samples/duration.py", suite, success_codes=[1])
    session.run("reproof", "verify", "fixtures/samples/fixed/duration.py", suite)


@nox.session
def bench(session: nox.Session) -> None:
    """What a verification costs, as a ratio to a bare `python -m pytest`."""
    _install(session)
    session.run("python", "-m", "tests.engine", "--", "python", "-m", "benchmarks.bench", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """1,000 verifications, a third of them hostile: nothing may be left, memory must stay flat."""
    _install(session)
    session.run("python", "-m", "tests.engine", "--", "python", "-m", "benchmarks.soak", *session.posargs)


@nox.session
def cheats(session: nox.Session) -> None:
    """Every submission that wants to pass without solving anything; the normal tests run a sample."""
    _install(session)
    session.env["REPROOF_ALL_CHEATS"] = "1"
    session.run("python", "-m", "pytest", "tests/harness/test_integrity.py", *session.posargs)


@nox.session
def corpus(session: nox.Session) -> None:
    """Every job of a folder of *.jsonl files must get the verdict that its `expect` says."""
    _install(session)
    session.run("python", "-m", "tests.engine", "--", "python", "-m", "benchmarks.corpus", *session.posargs)


@nox.session
def repair(session: nox.Session) -> None:
    """What feedback is worth: programs mended by search, with all of it and with next to none."""
    _install(session)
    session.run("python", "-m", "benchmarks.repair", *session.posargs)


@nox.session
def paths(session: nox.Session) -> None:
    """Every job of a folder of *.jsonl files must tell the same by the short ways and by the ordinary one."""
    _install(session)
    session.run("python", "-m", "benchmarks.paths", *session.posargs)
