"""`reproof reflect`: arguments in, exit code out, as for `reproof verify`."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import Report, RunnerError, Submission, Suite
from harness.cli import (
    INVALID,
    NOT_PASSED,
    PASSED,
    add_run_options,
    cache_of,
    from_1_to,
    limits_of,
    suite_files,
    write,
)
from harness.formats.text import plain

from .conversation import Generator, GeneratorError
from .disclosure import LEVELS
from .generators import AnthropicGenerator, CommandGenerator, OpenAIGenerator
from .loop import code_with_reflection
from .repair import RepairGenerator
from .transcript import Attempt, Result

__all__ = ["add_reflect"]

GENERATORS = ("repair", "openai", "anthropic", "command")
ITERATIONS, MUTANTS = 3, 200
"""Unless told otherwise: a model is asked again, a search goes on."""
LONGEST_EDIT = 100


def add_reflect(commands: Any) -> None:
    """Called by `harness/cli.py`, which finds it as an entry point."""
    parser = commands.add_parser(
        "reflect",
        help="generate code, verify it, feed the failures back, until the tests pass",
        description="Have a generator write code for the task in TASK.md, run SUITE against it in a sandbox, tell the "
        "generator what failed, and try again. Prints what came of it, and the change or the code.",
        epilog="Exit codes: 0 passed, 1 no candidate passed, 2 usage, 3 we could not find out.",
    )
    parser.add_argument("task", type=Path, metavar="TASK.md", help="what the code shall do, as the generator reads it")
    parser.add_argument("suite", type=Path, metavar="SUITE", help="the tests that decide: a file or a directory")
    generator = parser.add_argument_group("generator")
    generator.add_argument(
        "--generator",
        choices=GENERATORS,
        default="repair",
        help="repair (default): mends --start by search, needs no model; openai, anthropic: a model behind such an "
        "endpoint; command: a program of yours",
    )
    generator.add_argument("--model", metavar="M", help="openai, anthropic: which model")
    generator.add_argument("--base-url", metavar="U", help="openai, anthropic: where the endpoint is")
    generator.add_argument(
        "--command",
        metavar="LINE",
        help="command: what to run in a scratch copy of the code, with the task and the feedback on stdin",
    )
    generator.add_argument("--start", type=Path, metavar="SUBMISSION", help="code to begin with: a file or a directory")
    budget = parser.add_argument_group("budget")
    budget.add_argument(
        "--iterations",
        type=from_1_to(100_000),
        metavar="N",
        help=f"try so often (default {ITERATIONS}, for repair {MUTANTS})",
    )
    budget.add_argument(
        "--samples",
        type=from_1_to(64),
        default=1,
        metavar="K",
        help="candidates of an iteration, verified at once (default 1)",
    )
    budget.add_argument("--seconds", type=float, metavar="S", help="stop after so long (default: do not)")
    budget.add_argument(
        "--tokens", type=from_1_to(10**12), metavar="T", help="stop when a model has used so many (default: do not)"
    )
    tests = parser.add_argument_group("what the generator sees")
    tests.add_argument("--hidden", type=Path, metavar="SUITE", help="more tests, judged apart and disclosed sparingly")
    tests.add_argument(
        "--disclose",
        choices=LEVELS,
        help="of the hidden tests (default count), or of SUITE if there are none (default full): how many pass, which, "
        "their inputs and values, or all",
    )
    record = parser.add_argument_group("record")
    record.add_argument(
        "--transcript", type=Path, metavar="run.jsonl", help="write what happens there; go on if it is there already"
    )
    record.add_argument("--html", type=Path, metavar="run.html", help="write a page there that shows the run")
    add_run_options(parser)
    parser.set_defaults(run=_reflect)


def _reflect(given: argparse.Namespace) -> int:
    start = Submission.from_path(given.start) if given.start is not None else None
    beside = given.start if given.start is not None else given.suite
    progress = _Progress()
    try:
        result = asyncio.run(
            code_with_reflection(
                _task(given.task),
                Suite.from_files(suite_files(given.suite, beside)),
                _generator(given),
                start=start,
                hidden=Suite.from_files(suite_files(given.hidden, beside)) if given.hidden is not None else None,
                disclose=given.disclose,
                max_iterations=given.iterations or (MUTANTS if given.generator == "repair" else ITERATIONS),
                max_seconds=given.seconds,
                max_tokens=given.tokens,
                samples=given.samples,
                transcript=given.transcript,
                runner=given.runner,
                limits=limits_of(given),
                seat=given.seat,
                require_seat=given.require_seat,
                cache=cache_of(given),
                on_attempt=progress.add,
            )
        )
    except (GeneratorError, RunnerError) as exc:
        going_on = f"; run it again to go on from {given.transcript}" if given.transcript else ""
        print(f"reproof: {exc}{going_on}", file=sys.stderr)
        return INVALID
    if given.html is not None:
        from .page import page  # only this needs it

        write(page(result), given.html)
    write(plain("\n".join(_summary(result, start))) + "\n")
    return {"passed": PASSED, "invalid": INVALID}.get(str(result.outcome), NOT_PASSED)


def _task(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as exc:
        raise ValueError(f"{path}: is not text: {exc}") from None


def _generator(given: argparse.Namespace) -> Generator:
    asks_model = given.generator in ("openai", "anthropic")
    if given.command is not None and given.generator != "command":
        raise ValueError("--command goes with --generator command")
    for option in ("model", "base_url"):
        if getattr(given, option) is not None and not asks_model:
            raise ValueError(f"--{option.replace('_', '-')} goes with --generator openai or anthropic")
    if given.generator == "repair":
        if given.start is None:
            raise ValueError("--generator repair mends code that is there: give it with --start")
        return RepairGenerator()
    if given.generator == "command":
        if given.command is None:
            raise ValueError('--generator command needs --command, e.g. --command "my-agent --yes"')
        return CommandGenerator(given.command)
    if given.model is None:
        raise ValueError(f"--generator {given.generator} needs --model")
    kind = OpenAIGenerator if given.generator == "openai" else AnthropicGenerator
    return kind(given.model, given.base_url)


# --- while it runs ------------------------------------------------------------


class _Progress:
    """A line per attempt; of a search only those that come further, and one now and then."""

    EVERY = 50

    def __init__(self) -> None:
        self._most = -1

    def add(self, attempt: Attempt) -> None:
        further = attempt.tests_passed > self._most
        self._most = max(self._most, attempt.tests_passed)
        if further or not attempt.searching or attempt.number % self.EVERY == 0 or attempt.passed:
            print(f"reproof: {plain(_line(attempt))}", file=sys.stderr, flush=True)


def _line(attempt: Attempt) -> str:
    who = f"attempt {attempt.number}" if attempt.iteration else "start"
    if attempt.problem is not None:
        return f"{who}: {attempt.problem.partition('. ')[0].rstrip('.')}"
    told = " · ".join(_judged(attempt))
    seconds = attempt.generation_seconds + attempt.verification_seconds
    edit = f" · {_short(attempt.reply)}" if attempt.searching else ""
    return f"{who}: {told} · {seconds:.1f} s{edit}"


def _judged(attempt: Attempt) -> Iterator[str]:
    if attempt.report is not None:
        yield f"{attempt.report.verdict}, {_share(attempt.report)}"
    if attempt.hidden is not None:
        yield f"hidden {attempt.hidden.verdict}, {_share(attempt.hidden)}"


def _share(report: Report) -> str:
    passed, counted = report.score
    return f"{passed} of {counted} tests pass"


def _short(edit: str) -> str:
    line = " ".join(edit.split())
    return line if len(line) <= LONGEST_EDIT else line[: LONGEST_EDIT - 1] + "…"


# --- at the end ---------------------------------------------------------------


def _summary(result: Result, start: Submission | None) -> Iterator[str]:
    headline = {"passed": "PASSED", "invalid": "INVALID"}.get(str(result.outcome), "NOT PASSED")
    yield f"{headline}: {result.reason}"
    best = result.best
    if best is not None:
        which = f"attempt {best.number}" if best.iteration else "the start"
        yield f"  best      {which}: {' · '.join(_judged(best))}"
    if result.gap is not None:
        yield f"  gap       {result.gap:+.0%} more of the public tests pass than of the hidden ones"
    generating = sum(attempt.generation_seconds for attempt in result.attempts)
    verifying = sum(attempt.verification_seconds for attempt in result.attempts)
    iterations = f"{result.iterations} iteration{'s' * (result.iterations != 1)}"
    verifications = f"{result.verifications} verification{'s' * (result.verifications != 1)}"
    yield f"  attempts  {len(result.attempts)} in {iterations}, {verifications}"
    yield f"  time      {result.seconds:.1f} s; generating {generating:.1f} s, verifying {verifying:.1f} s"
    if result.tokens.total:
        yield f"  tokens    {result.tokens.prompt:,} read, {result.tokens.completion:,} written"
    if best is not None and best.submission is not None and best.iteration:
        yield ""
        yield from _change(start.files if start is not None else {}, best.submission.files)


def _change(before: dict[str, bytes], after: dict[str, bytes]) -> Iterator[str]:
    """A unified diff; it can be given to `git apply`."""
    for path in sorted(before.keys() | after.keys()):
        old, new = (files.get(path, b"").decode("utf-8", "backslashreplace").splitlines() for files in (before, after))
        yield from difflib.unified_diff(
            old,
            new,
            f"a/{path}" if path in before else "/dev/null",
            f"b/{path}" if path in after else "/dev/null",
            lineterm="",
        )
