"""What others do: the ways to run a test that ours is measured against. All of them untuned on purpose."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from runners import images
from runners.contract import Environment, Limits

from .problems import Problem

BARE = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


async def bare(problem: Problem, autoload: bool = False) -> None:
    """`python -m pytest` in a fresh interpreter on the host."""
    variables = dict(os.environ)
    if not autoload:
        variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        problem.write(Path(folder))
        process = await asyncio.create_subprocess_exec(
            *BARE, cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert await process.wait() == 0


_ZYGOTE = """
import os, sys, pytest, hypothesis
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.chdir(line.strip())
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1); os.dup2(null, 2)
        sys.path.insert(0, os.getcwd())
        os._exit(pytest.main(["-q", "-p", "no:cacheprovider"]))
    print(os.waitpid(pid, 0)[1], flush=True)
"""


@asynccontextmanager
async def plain_fork() -> AsyncIterator[Any]:
    """A preloaded interpreter that forks and calls pytest.main(): no isolation at all, the floor."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _ZYGOTE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def run(problem: Problem) -> None:
        with tempfile.TemporaryDirectory() as folder:
            problem.write(Path(folder))
            stdin.write(folder.encode() + b"\n")
            assert await stdout.readline() == b"0\n"

    try:
        yield run
    finally:
        process.kill()
        await process.wait()


async def docker_run(client: Any, problem: Problem) -> None:
    """`docker run` with pytest as the command."""
    image = await asyncio.to_thread(images.ensure, client, Environment())

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)  # the container's user has to read it
            problem.write(Path(folder))
            client.containers.run(
                image,
                ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
                entrypoint=[],
                volumes={folder: {"bind": "/code", "mode": "ro"}},
                working_dir="/code",
                network_mode="none",
                environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TMPDIR": "/dev/shm"},
                remove=True,
            )

    await asyncio.to_thread(run)


async def testcontainers_exec(client: Any, problem: Problem) -> None:
    """A container of testcontainers, and pytest by exec in it."""
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    testcontainers_config.ryuk_disabled = True
    image = await asyncio.to_thread(images.ensure, client, Environment())

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)  # the container's user has to read it
            problem.write(Path(folder))
            container = DockerContainer(image).with_volume_mapping(folder, "/code", "ro")
            container = container.with_command(["python", "-c", "import time; time.sleep(1000)"])
            container = container.with_kwargs(entrypoint=[], network_mode="none")
            with container:
                wrapped = container.get_wrapped_container()
                command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
                variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TMPDIR": "/dev/shm"}
                status, output = wrapped.exec_run(command, workdir="/code", environment=variables)
                assert status == 0, output

    await asyncio.to_thread(run)


async def bare_container(client: Any, limits: Limits) -> None:
    """Create, start and remove a container as hardened as ours, that does nothing."""
    image = await asyncio.to_thread(images.ensure, client, Environment())

    def run() -> None:
        container = client.containers.create(
            image,
            ["-c", "pass"],
            entrypoint=["python"],
            network_mode="none",
            read_only=True,
            tmpfs={"/job": f"size={limits.disk_mb}m,mode=1777"},
            cap_drop=["ALL"],
            cap_add=["SETUID", "SETGID", "KILL"],
            security_opt=["no-new-privileges"],
            mem_limit=f"{limits.memory_mb + limits.disk_mb + 96}m",
            pids_limit=limits.processes + 2,
            stdin_open=True,
        )
        container.start()
        container.remove(force=True)

    await asyncio.to_thread(run)
