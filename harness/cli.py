"""Arguments in, exit code out: 0 passed, 1 the candidate did not pass, 2 usage, 3 we could not find out."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn, TextIO

from runners import choice
from runners.contract import Environment, Limits, RunnerError

from . import batch, doctor, files, metrics
from .cache import VerdictCache
from .formats import batch_html, github, html, junit, text
from .models import Report, Submission, Suite
from .seats import SEATS
from .summary import Summary
from .verify import averify, version

__all__ = [
    "INVALID",
    "NOT_PASSED",
    "PASSED",
    "add_run_options",
    "cache_of",
    "from_1_to",
    "limits_of",
    "main",
    "suite_files",
    "write",
]

PASSED, NOT_PASSED, USAGE, INVALID = 0, 1, 2, 3
INTERRUPTED, UNHEARD = 130, 141  # as a shell names the ends by SIGINT and by SIGPIPE

FORMATS: dict[str, Callable[[Report], str]] = {
    "text": lambda report: text.render(report) + "\n",
    "json": lambda report: report.model_dump_json(indent=2) + "\n",
    "junit": junit.render,
    "github": github.render,
    "html": html.render,
}

_LIMIT_HELP = {
    "wall_seconds": "seconds for the whole job",
    "cpu_seconds": "seconds of CPU time, all processes together",
    "test_seconds": "seconds for one test; the others still run",
    "memory_mb": "MB of memory, all processes together",
    "processes": "processes and threads at once",
    "disk_mb": "MB of files that the job may write",
    "output_kb": "kB that the job may print",
}
_ALIASES = {"wall_seconds": ["--timeout"], "memory_mb": ["--memory"]}


class _Usage(Exception):
    """What the caller asked for makes no sense; told in one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    given = _parser(words[:1]).parse_args(words)
    try:
        for option in ("output", "html", "transcript", "metrics_file"):
            _check_place(option, getattr(given, option, None))
        if getattr(given, "metrics_port", None):
            _serve_metrics(given.metrics_port)
        status: int = given.run(given)
        if getattr(given, "metrics_file", None):
            metrics.write(given.metrics_file)
        sys.stdout.flush()
        return status
    except (ValueError, _Usage) as exc:
        print(f"reproof: {exc}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries once more, and complains
        return UNHEARD
    except OSError as exc:
        print(f"reproof: {exc.filename or ''}: {exc.strerror or exc}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("reproof: interrupted; nothing is left running", file=sys.stderr)
        return INTERRUPTED
    except Exception:  # a bug of ours: Python's own status for it is 1, which would blame the candidate
        traceback.print_exc()
        return INVALID


def _check_place(option: str, path: Path | None) -> None:
    """Say before anything is run that what comes of it cannot be written."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        why = "is a directory" if path.is_dir() else "there is no such directory"
        raise _Usage(f"--{option.replace('_', '-')} {path}: {why}")


def _serve_metrics(port: int) -> None:
    try:
        metrics.serve(port)
    except OSError as exc:
        raise _Usage(f"--metrics-port {port}: {exc.strerror}") from None


# --- reproof verify -----------------------------------------------------------


def _verify(given: argparse.Namespace) -> int:
    submission, suite = _what(given)
    environment = Environment(requirements=_requirements(given.requirements), image=given.image, runtime=given.runtime)
    report = asyncio.run(
        averify(
            submission,
            suite,
            runner=given.runner,
            limits=limits_of(given),
            environment=environment,
            seed=given.seed,
            seat=given.seat,
            require_seat=given.require_seat,
            reference=Submission.from_path(given.reference) if given.reference else None,
            cache=cache_of(given),
            progress=_say,
        )
    )
    write(FORMATS[given.format](report), given.output)
    return _status(report)


def _what(given: argparse.Namespace) -> tuple[Submission, Suite]:
    place: Path = given.submission
    submission = Submission.from_path(place)
    more = {"workers": given.workers, "options": tuple(given.pytest_option)}
    if given.suite_from:
        if given.suite is not None:
            raise _Usage("give SUITE or --suite-from, not both")
        return submission, Suite(files=_below(files.read_ref(place, given.suite_from), place), **more)
    if given.suite is None:
        raise _Usage("which tests? Give SUITE (a file or a directory) or --suite-from REF:PATH")
    return submission, Suite(files=suite_files(given.suite, place), **more)


def suite_files(suite: Path, submission: Path) -> dict[str, bytes]:
    """A suite that stands inside the submission keeps its place: imports and fixtures rely on it."""
    found = files.read(suite)
    with contextlib.suppress(ValueError):
        inside = suite.resolve().relative_to(submission.resolve())
        folder = inside.parent if suite.is_file() else inside
        found = {(folder / path).as_posix(): data for path, data in found.items()}
    return found


def _below(found: dict[str, bytes], place: Path) -> dict[str, bytes]:
    """Paths from a repository's top, as seen from a submission that may be a folder in it."""
    folder = place.resolve() if place.is_dir() else place.resolve().parent
    top = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), folder)
    prefix = folder.relative_to(top).as_posix()
    prefix = "" if prefix == "." else prefix + "/"
    return {path.removeprefix(prefix): data for path, data in found.items()}


def _requirements(path: Path | None) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as exc:
        raise _Usage(f"--requirements {path}: {exc}") from None
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    return tuple(line for line in lines if line and not line.startswith("#"))


def cache_of(given: argparse.Namespace) -> VerdictCache | None:
    try:
        return VerdictCache(given.cache) if given.cache is not None else None
    except OSError as exc:
        raise _Usage(f"--cache {given.cache}: {exc.strerror}") from None


def limits_of(given: argparse.Namespace) -> Limits:
    return Limits(**{name: value for name in _LIMIT_HELP if (value := getattr(given, name)) is not None})


def _status(report: Report) -> int:
    return {"passed": PASSED, "invalid": INVALID}.get(report.verdict, NOT_PASSED)


def write(rendered: str, output: Path | None = None) -> None:
    if output is not None:
        output.write_text(rendered, "utf-8")
        return
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a terminal may not be UTF-8
    sys.stdout.write(rendered)


def _say(line: str) -> None:
    print(f"reproof: {line}", file=sys.stderr, flush=True)


# --- reproof batch ------------------------------------------------------------


def _batch(given: argparse.Namespace) -> int:
    with given.jobs.open("rb") as lines:
        total = sum(1 for line in lines if line.strip())
    done = batch.finished_ids(given.output) if given.output else set()
    summary = Summary()
    if given.html and done:
        summary.add_results(given.output)
    if done:
        _say(f"{len(done)} of {total} jobs are in {given.output} already; going on with the rest")
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(given.jobs.open(encoding="utf-8", errors="surrogateescape"))
        output = stack.enter_context(given.output.open("a", encoding="utf-8")) if given.output else sys.stdout
        tasks = batch.read_tasks(lines, limits_of(given), done)
        status = asyncio.run(_run_batch(tasks, output, max(0, total - len(done)), given, summary))
    if given.html:
        given.html.write_text(batch_html.render(summary), "utf-8")
    return status


async def _run_batch(tasks: Any, output: TextIO, total: int, given: argparse.Namespace, summary: Summary) -> int:
    status = PASSED
    bar = batch.ProgressBar(total, sys.stderr)
    results = batch.stream(
        tasks,
        runner=given.runner,
        workers=given.workers,
        freshness=given.freshness,
        seat=given.seat,
        require_seat=given.require_seat,
        cache=cache_of(given),
        progress=_say,
    )
    async with contextlib.aclosing(results):
        async for task, report in results:
            output.write(batch.result_line(task, report))
            output.flush()
            bar.add(report)
            summary.add(task.id, report)
            status = max(status, _status(report))
    bar.close()
    return status


# --- reproof doctor, reproof image --------------------------------------------


def _doctor(given: argparse.Namespace) -> int:
    found = asyncio.run(doctor.examine())
    for finding in found:
        print(f"{'ok     ' if finding.good else 'missing'}  {finding.subject:<11} {finding.seen}")
        if finding.step:
            print(f"         {'':<11} → {finding.step}")
    if any(finding.sandbox for finding in found):
        name = "docker" if any(f.sandbox and f.subject == "docker" for f in found) else "bubblewrap"
        print(f"\n`--runner auto` takes {name} here.")
        return PASSED
    print("\nThis machine has no sandbox yet: take one of the steps above.")
    return INVALID


def _image_build(given: argparse.Namespace) -> int:
    from runners.docker import build_image  # half a second of imports that only this needs

    try:
        name = asyncio.run(
            build_image(from_host=given.from_host, requirements=_requirements(given.requirements), progress=_say)
        )
    except RunnerError as exc:
        print(f"reproof: {exc}", file=sys.stderr)
        return INVALID
    print(name)
    return PASSED


# --- arguments ----------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"reproof: {message}\nTry: {self.prog} --help\n")


def _parser(command: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Commands of other packages are there, too, unless this is one of ours: a verification need not import them."""
    parser = _Parser(
        prog="reproof",
        description="Verify generated code: run tests against it in a throwaway sandbox and say what happened.",
        epilog="Exit codes: 0 passed, 1 the candidate did not pass, 2 usage, 3 invalid (we could not find out).",
    )
    parser.add_argument("--version", action="version", version=f"reproof {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    _add_verify(commands)
    _add_batch(commands)
    examine = commands.add_parser("doctor", help="what this machine can do, and how to fix what it cannot")
    examine.set_defaults(run=_doctor)
    _add_image(commands)
    if not commands.choices.keys() & set(command):
        for entry in metadata.entry_points(group="reproof.commands"):
            entry.load()(commands)
    return parser


def _add_verify(commands: Any) -> None:
    parser = commands.add_parser(
        "verify",
        help="verify one submission",
        description="Run SUITE against SUBMISSION in a sandbox. Each is a file or a directory; a directory "
        "is taken without what its .gitignore names, and the suite's files win over the submission's.",
    )
    parser.add_argument("submission", type=Path, metavar="SUBMISSION", help="the code to verify")
    parser.add_argument("suite", type=Path, metavar="SUITE", nargs="?", help="the tests that decide")
    parser.add_argument(
        "--suite-from", metavar="REF:PATH", help="take the suite from a git ref of the submission's repository"
    )
    parser.add_argument(
        "--reference", type=Path, metavar="PATH", help="a right solution: both seats are tried with it, to choose one"
    )
    parser.add_argument("--requirements", type=Path, metavar="FILE", help="packages that the sandbox must hold")
    parser.add_argument("--image", help="docker: use this image (needs Python 3.9 and pytest)")
    parser.add_argument("--runtime", help="docker: the OCI runtime, e.g. runsc for gVisor")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="run the tests in N processes (xdist)")
    parser.add_argument("--pytest-option", action="append", default=[], metavar="OPTION", help="pass on to pytest")
    parser.add_argument("--seed", type=int, default=0, help="for random and Hypothesis (default 0)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to write the report (default text)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there and not to stdout")
    add_run_options(parser)
    parser.set_defaults(run=_verify)


def _add_batch(commands: Any) -> None:
    parser = commands.add_parser(
        "batch",
        help="verify many jobs from a JSON-lines file",
        description='One job per line: {"id", "files": {path: text}, "tests": {path: text}, "cases"?, "limits"?, '
        '"requirements"?}. One result per line: {"id", "verdict", "reward", "report"}, as each job ends. '
        "A second run with the same --output goes on where the first stopped.",
    )
    parser.add_argument("jobs", type=Path, metavar="JOBS.jsonl")
    parser.add_argument("--output", type=Path, metavar="RESULTS.jsonl", help="append results there (default stdout)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page there that sums all results up")
    parser.add_argument("--workers", type=from_1_to(1_000), metavar="N", help="jobs at once (default: one per core)")
    parser.add_argument(
        "--freshness",
        choices=("fork", "sandbox"),
        default="fork",
        help="fork (default): jobs share a sandbox one after the other, cleaned in between; sandbox: one for each",
    )
    add_run_options(parser)
    parser.set_defaults(run=_batch)


def _add_image(commands: Any) -> None:
    parser = commands.add_parser("image", help="the sandbox image for the docker runner")
    build = parser.add_subparsers(required=True, metavar="build", parser_class=_Parser).add_parser(
        "build",
        help="build it, unless the engine has it",
        description="Build the sandbox image and print its name, which is made of what is in it.",
    )
    build.add_argument("--from-host", action="store_true", help="from this machine's Python; needs no registry")
    build.add_argument("--requirements", type=Path, metavar="FILE", help="packages to put in, as a layer on top")
    build.set_defaults(run=_image_build)


def from_1_to(most: int) -> Callable[[str], int]:
    def integer(given: str) -> int:
        number = int(given)
        if not 1 <= number <= most:
            raise argparse.ArgumentTypeError(f"{given} is not from 1 to {most}")
        return number

    return integer


def add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runner",
        choices=choice.NAMES,
        help="where to run (default: [tool.reproof] runner in pyproject.toml, or auto: docker if an engine "
        "answers, else bubblewrap; `process` is not a sandbox)",
    )
    parser.add_argument(
        "--seat",
        choices=SEATS,
        default="auto",
        help="where the candidate runs: separate (a process of its own, which cannot touch pytest), in_process (in "
        "pytest's own interpreter, watched), or auto (default): separate wherever the suite allows it",
    )
    parser.add_argument(
        "--require-seat",
        choices=SEATS[1:],
        help="refuse a suite that has to be judged from a weaker seat than this one",
    )
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="keep verdicts there, and answer the same job from there"
    )
    limits = parser.add_argument_group("limits")
    for name, field in Limits.model_fields.items():
        number = float if name.endswith("_seconds") else int
        flags = [*_ALIASES.get(name, []), "--" + name.replace("_", "-")]
        limits.add_argument(
            *flags, dest=name, type=number, metavar="N", help=f"{_LIMIT_HELP[name]} (default {field.default})"
        )
    measured = parser.add_argument_group("metrics")
    measured.add_argument(
        "--metrics-port", type=from_1_to(65_535), metavar="PORT", help="serve Prometheus metrics on loopback"
    )
    measured.add_argument("--metrics-file", type=Path, metavar="FILE", help="write them to a file at the end")


if __name__ == "__main__":
    sys.exit(main())
