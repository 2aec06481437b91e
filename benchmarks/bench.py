"""What a verification costs, as a ratio to a bare `python -m pytest` in the same run.

`python -m benchmarks.bench [--jobs JOBS.jsonl] [--repeat N] [--growth 100,1000,10000] [--write FOLDER]`

Everything is measured in one run, interleaved and repeated, because machines are
shared and noisy: only the ratios mean something. `--write` leaves results.json,
results.svg and README.md in a folder.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from harness import Environment, Limits, RunnerUnavailable, averify
from harness.seats import SeatName
from harness.verify import entered
from runners import session
from runners.pool import Pool

from . import baselines, calls, problems
from .plot import bars

Way = Callable[[problems.Problem], Awaitable[None]]

BARE = "bare pytest, no plugin autoload"
HARDENED = "verify, bubblewrap, warm, freshness fork, in_process"
UNHARDENED = f"{HARDENED}, not hardened"
PAIRS = 60
"""Rounds in which these two alone are measured: what is between them is small."""


async def latencies(stack: contextlib.AsyncExitStack, client: Any) -> dict[str, Way]:
    """Every way to verify one problem, ready to be called."""
    ways: dict[str, Way] = {BARE: baselines.bare}
    ways["bare pytest, plugin autoload"] = lambda problem: baselines.bare(problem, autoload=True)
    ways["plain fork, pytest.main(), no isolation"] = await stack.enter_async_context(baselines.plain_fork())
    runners = ["bubblewrap"]
    if client is not None:
        runners.append("docker")
        ways["docker run + pytest"] = lambda problem: baselines.docker_run(client, problem)
        ways["testcontainers + exec"] = lambda problem: baselines.testcontainers_exec(client, problem)
    for name in runners:
        runner = await stack.enter_async_context(entered(name, _say))
        ways[f"verify, {name}, cold"] = _verify(runner)
        ways[f"verify, {name}, cases only, cold"] = _cases(runner)
        for freshness in ("sandbox", "fork"):
            pool = await stack.enter_async_context(Pool(runner, size=2, freshness=freshness))  # type: ignore[arg-type]
            ways[f"verify, {name}, warm, freshness {freshness}"] = _warm(pool, _verify(pool))
            ways[f"verify, {name}, cases only, warm, freshness {freshness}"] = _warm(pool, _cases(pool))
            if freshness == "fork":
                ways[f"verify, {name}, warm, freshness fork, with a session"] = _warm(pool, _sessioned(_verify(pool)))
                ways[f"verify, {name}, warm, freshness fork, in_process"] = _warm(pool, _verify(pool, "in_process"))
                if name == "bubblewrap":
                    ways[UNHARDENED] = _warm(pool, _unhardened(_verify(pool, "in_process")))
    return ways


def _verify(runner: Any, seat: SeatName = "auto") -> Way:
    async def run(problem: problems.Problem) -> None:
        report = await averify(problem.submission, problem.suite, runner=runner, seat=seat)
        assert report.passed, report

    return run


def _unhardened(way: Way) -> Way:
    """Without what keeps a candidate beside pytest honest: what would that save?"""

    async def run(problem: problems.Problem) -> None:
        session.HARDENED = False
        try:
            await way(problem)
        finally:
            session.HARDENED = True

    return run


def _sessioned(way: Way) -> Way:
    """As suites are run that are more than plain functions: with a session of pytest's around their tests."""

    async def run(problem: problems.Problem) -> None:
        session.DIRECT = False
        try:
            await way(problem)
        finally:
            session.DIRECT = True

    return run


def _cases(runner: Any) -> Way:
    async def run(problem: problems.Problem) -> None:
        report = await averify(problems.CASES_SUBMISSION, problems.CASES, runner=runner)
        assert report.passed, report

    return run


def _warm(pool: Pool, way: Way) -> Way:
    """Ready before it is timed: that is what a pool is for."""

    async def run(problem: problems.Problem) -> None:
        await way(problem)

    async def prepare() -> None:
        await pool.warm(Environment(), Limits())

    run.prepare = prepare  # type: ignore[attr-defined]
    return run


async def measure(ways: dict[str, Way], jobs: list[problems.Problem], repeat: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(repeat + 1):
        problem = jobs[round_number % len(jobs)]
        # In another order each time: the first to use a sandbox again finds cold caches, and warms them for the next.
        for name, way in random.Random(round_number).sample(list(ways.items()), len(ways)):
            if hasattr(way, "prepare"):
                await way.prepare()
            await asyncio.sleep(0.05)  # let what the one before left in the background come to rest
            begun = time.perf_counter()
            await way(problem)
            if round_number:  # the first round warms caches
                times[name].append(time.perf_counter() - begun)
        _say(f"round {round_number} of {repeat}")
    return times


# --- throughput -----------------------------------------------------------------


async def bare_throughput(jobs: list[problems.Problem], count: int, workers: int) -> float:
    return await _rate(lambda problem: baselines.bare(problem), jobs, count, workers)


async def _rate(way: Callable[[Any], Awaitable[None]], jobs: list[Any], count: int, workers: int) -> float:
    waiting = iter([jobs[index % len(jobs)] for index in range(count)])

    async def work() -> None:
        for problem in waiting:
            await way(problem)

    begun = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(workers)])
    return count / (time.perf_counter() - begun)


def batch(jobs: list[problems.Problem], count: int, workers: int, runner: str, freshness: str) -> dict[str, float]:
    """`reproof batch` as a process of its own: jobs per second, and its peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, "jobs.jsonl"), Path(folder, "results.jsonl")
        with path.open("w") as file:
            for index in range(count):
                job = jobs[index % len(jobs)]
                file.write(json.dumps({"id": str(index), "files": job.files, "tests": job.tests}) + "\n")
        command = [sys.executable, "-m", "benchmarks.bench", "--measured-batch", str(path), str(output)]
        command += ["--workers", str(workers), "--runner", runner, "--freshness", freshness]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        verdicts = [json.loads(line)["verdict"] for line in output.open()]
        assert len(verdicts) == count and set(verdicts) == {"passed"}, verdicts[:10]
        return found


def measured_batch(given: argparse.Namespace) -> int:
    from harness import cli

    begun = time.perf_counter()
    jobs, output = given.measured_batch
    arguments = ["batch", jobs, "--output", output, "--workers", given.workers]
    cli.main([*arguments, "--runner", given.runner, "--freshness", given.freshness])
    spent = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": spent, "peak_mb": peak}))
    return 0


# --- the whole ------------------------------------------------------------------


async def run(given: argparse.Namespace) -> dict[str, Any]:
    jobs = problems.read(given.jobs) if given.jobs else problems.built_in()
    result: dict[str, Any] = {"machine": machine(), "jobs": given.jobs.name if given.jobs else "built in"}
    client = await _engine()
    async with contextlib.AsyncExitStack() as stack:
        ways = await latencies(stack, client)
        result["latency"] = await measure(ways, jobs, given.repeat)
        pair = {name: ways[name] for name in (HARDENED, UNHARDENED)}
        result["hardening"] = await measure(pair, jobs, PAIRS)
    result["calls"] = calls.measure()
    runners = ["bubblewrap", *(["docker"] if client is not None else [])]
    result["throughput"] = await throughput(jobs, given.batch, runners)
    if client is not None:
        result["containers"] = await containers(client, jobs, given.batch // 4)
    result["growth"] = growth(jobs, [int(count) for count in given.growth.split(",") if count])
    result["workers"] = {str(count): batch(jobs, given.batch, count, "bubblewrap", "fork") for count in (1, 2, 4, 8)}
    result["workers_count"] = given.batch
    return result


async def throughput(jobs: list[problems.Problem], count: int, runners: list[str]) -> dict[str, list[float]]:
    """Jobs per second with two workers, in turns. A sandbox for each job takes longer, and gets fewer."""
    rates: dict[str, list[float]] = {BARE: []}
    for _ in range(3):
        rates[BARE].append(await bare_throughput(jobs, count // 4, 2))
        for name in runners:
            for freshness, number in (("fork", count), ("sandbox", count // 4)):
                seconds = batch(jobs, number, 2, name, freshness)["seconds"]
                rates.setdefault(f"batch, {name}, freshness {freshness}", []).append(number / seconds)
    return rates


async def containers(client: Any, jobs: list[problems.Problem], count: int) -> dict[str, list[float]]:
    """Containers per second: a bare create + start + remove, and `batch` with a container for each job."""
    rates: dict[str, list[float]] = {"create + start + remove": [], "batch, docker, freshness sandbox": []}
    for _ in range(3):
        bare = await _rate(lambda _: baselines.bare_container(client, Limits()), [None], count, 2)
        rates["create + start + remove"].append(bare)
        ours = batch(jobs, count, 2, "docker", "sandbox")
        rates["batch, docker, freshness sandbox"].append(count / ours["seconds"])
    return rates


def growth(jobs: list[problems.Problem], counts: list[int]) -> dict[str, dict[str, float]]:
    found = {}
    for count in counts:
        found[str(count)] = batch(jobs, count, 2, "bubblewrap", "fork")
        _say(f"{count} jobs: {found[str(count)]}")
    return found


async def _engine() -> Any:
    import docker

    from runners.docker import find_engine

    try:
        engine = await find_engine()
    except RunnerUnavailable as exc:
        _say(f"without docker: {exc}")
        return None
    return docker.from_env(**engine.options)


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}"
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# --- telling --------------------------------------------------------------------


def ratios(latency: dict[str, list[float]]) -> dict[str, tuple[float, float, float]]:
    """Median with quartiles, each over the median of the bare run."""
    unit = statistics.median(latency[BARE])
    found = {}
    for name, times in latency.items():
        low, middle, high = statistics.quantiles(times, n=4)
        found[name] = (low / unit, middle / unit, high / unit)
    return found


def required(result: dict[str, Any]) -> Iterator[tuple[str, float, str, float]]:
    """What has to hold: its name, what was measured, and the bound. What was not measured is left out."""
    latency = ratios(result["latency"])
    for name, most in (
        ("verify, bubblewrap, warm, freshness fork", 0.20),
        ("verify, bubblewrap, warm, freshness sandbox", 0.25),
        ("verify, docker, warm, freshness sandbox", 0.25),
        ("verify, bubblewrap, cases only, warm, freshness fork", 0.10),
    ):
        if name in latency:
            yield f"{name}: time, × bare pytest", latency[name][1], "≤", most
    bare = statistics.median(result["throughput"][BARE])
    for name in ("batch, bubblewrap, freshness fork", "batch, docker, freshness fork"):
        if name in result["throughput"]:
            rate = statistics.median(result["throughput"][name]) / bare
            yield f"{name}, 2 workers: jobs per second, × bare pytest", rate, "≥", 6.0
    if "containers" in result:
        bare, ours = (statistics.median(rates) for rates in result["containers"].values())
        yield "batch, docker, freshness sandbox: containers per second, × bare", ours / bare, "≥", 0.8
    growth = result["growth"]
    if "100" in growth and "10000" in growth:
        each = growth["10000"]["seconds"] / 10_000 / (growth["100"]["seconds"] / 100)
        yield "seconds per job at 10,000 jobs, × those at 100", each, "≤", 1.1
    if "1000" in growth and "10000" in growth:
        memory = growth["10000"]["peak_mb"] / growth["1000"]["peak_mb"]
        yield "peak memory of the harness at 10,000 jobs, × that at 1,000", memory, "≤", 1.1
    yield from _required_of_seats(result)


def _required_of_seats(result: dict[str, Any]) -> Iterator[tuple[str, float, str, float]]:
    """What it may cost to keep the candidate apart, and to watch it where it cannot be."""
    middle = {name: statistics.median(times) for name, times in result["latency"].items()}
    for runner in ("bubblewrap", "docker"):
        apart = f"verify, {runner}, warm, freshness fork"
        if apart in middle:
            separate = middle[apart] / middle[f"{apart}, in_process"]
            yield f"{runner}, seat separate: time, × in_process", separate, "≤", 1.5
    pairs = zip(*result["hardening"].values())  # noqa: B905  # the same problem each
    hardened = statistics.median(with_it / without for with_it, without in pairs)
    yield "seat in_process: time, × not hardened", hardened, "≤", 1.25
    yield "a call to the candidate: time, × a bare round trip over a pipe", calls.ratio(result["calls"]), "≤", 5.0


def table(result: dict[str, Any]) -> str:
    lines = ["| what has to hold | measured | wanted |", "| --- | --- | --- |"]
    for name, measured, sign, bound in required(result):
        met = measured <= bound if sign == "≤" else measured >= bound
        lines.append(f"| {name} | {measured:.2f}{'' if met else ' (missed)'} | {sign} {bound:g} |")
    unit = statistics.median(result["latency"][BARE]) * 1000
    lines += ["", f"One at a time; 1.00 = {BARE} ({unit:.0f} ms here).", ""]
    lines += ["| way | ratio | quartiles |", "| --- | --- | --- |"]
    for name, (low, middle, high) in ratios(result["latency"]).items():
        lines.append(f"| {name} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    lines += ["", "| two workers | jobs per second, × bare pytest |", "| --- | --- |"]
    bare = statistics.median(result["throughput"][BARE])
    for name, rates in result["throughput"].items():
        lines.append(f"| {name} | {statistics.median(rates) / bare:.1f} |")
    if "containers" in result:
        lines += ["", "| two workers | containers per second, × create + start + remove |", "| --- | --- |"]
        bare = statistics.median(result["containers"]["create + start + remove"])
        for name, rates in result["containers"].items():
            lines.append(f"| {name} | {statistics.median(rates) / bare:.2f} |")
    lines += _growth_table(result)
    return "\n".join(lines)


def _growth_table(result: dict[str, Any]) -> list[str]:
    lines = ["", "| jobs in one batch | seconds per job, × the first | peak memory, × the first |"]
    lines += ["| --- | --- | --- |"]
    first: tuple[float, float] | None = None
    for count, found in result["growth"].items():
        each = found["seconds"] / int(count)
        first = first or (each, found["peak_mb"])
        lines.append(f"| {count} | {each / first[0]:.2f} | {found['peak_mb'] / first[1]:.2f} |")
    lines += ["", "| workers | jobs per second, × one worker |", "| --- | --- |"]
    single = result["workers"]["1"]["seconds"]
    lines += [f"| {count} | {single / found['seconds']:.2f} |" for count, found in result["workers"].items()]
    return lines


def write(folder: Path, result: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    title = "Ratio to a bare pytest run (shorter is better)"
    (folder / "results.svg").write_text(bars(title, ratios(result["latency"])))
    (folder / "README.md").write_text(
        "# What a verification costs\n\n"
        f"The last run of `nox -s bench`, on {result['machine']}; jobs: {result['jobs']}. "
        "Only ratios within one run mean something.\n\n"
        f"{table(result)}\n\n![ratios](results.svg)\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a verification costs.")
    parser.add_argument("--jobs", type=Path, help="problems from a job file instead of the built-in ones")
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--batch", type=int, default=1000, help="jobs for each measurement of throughput")
    parser.add_argument("--growth", default="100,1000,10000")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--measured-batch", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--workers", default="2", help=argparse.SUPPRESS)
    parser.add_argument("--runner", default="bubblewrap", help=argparse.SUPPRESS)
    parser.add_argument("--freshness", default="fork", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measured_batch:
        return measured_batch(given)
    result = asyncio.run(run(given))
    print(table(result))
    if given.write:
        write(given.write, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
