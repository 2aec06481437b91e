"""What is Docker's own. What every runner must do is in test_contract.py."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tarfile
import textwrap
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import NotFound

from runners import guest, owners, session
from runners.contract import Environment, Job, Limits, RunnerLost, RunnerUnavailable, Sandbox
from runners.docker import DockerRunner, build_image, find_engine

ENVIRONMENT, LIMITS = Environment(), Limits()
JOB = Job(submission={"solution.py": b"x = 1"}, suite={"test_x.py": b"def test_x():\n    while True: pass"})

IMPORTER = """
def install(codes, packed):
    import marshal, sys, types, zlib
    module = types.ModuleType("reproof_guest.supervisor")
    exec(marshal.loads(zlib.decompress(packed))["supervisor"], module.__dict__)
    sys.modules["reproof_guest.supervisor"] = sys.modules["reproof_guest"].supervisor = module
"""


def program(source: str) -> bytes:
    """A guest that runs this source in the supervisor's place, with all that it has."""
    body = f"import os, sys, json\ndef main(settings):\n{textwrap.indent(textwrap.dedent(source), '    ')}"
    sources = {"importer": IMPORTER, "supervisor": body}
    return guest.bundle({}, guest.program(sources, compiled=False))


async def read_all(sandbox: Sandbox) -> bytes:
    output = b""
    while data := await sandbox.read():
        output += data
    return output


async def run_inside(runner: DockerRunner, source: str, environment: Environment = ENVIRONMENT) -> bytes:
    async with runner.open(environment, LIMITS) as sandbox:
        await sandbox.write(program(source))
        return await read_all(sandbox)


def ours(client: Any) -> list[str]:
    """The ids of this process's containers."""
    found = client.api.containers(all=True, filters={"label": f"{owners.PID}={os.getpid()}"})
    return [container["Id"] for container in found]


@pytest.fixture
def client(docker_host: str) -> Iterator[Any]:
    with closing(docker.DockerClient(docker_host)) as connected:
        yield connected


@pytest.fixture
async def runner(docker_host: str) -> AsyncIterator[DockerRunner]:
    async with DockerRunner(docker_host) as entered:
        yield entered


@pytest.fixture
def image(client: Any) -> Iterator[Any]:
    """Makes an image from files and a Dockerfile; it is gone after the test."""
    made = []

    def make(*changes: str) -> str:
        empty, name = io.BytesIO(), f"reproof-test:{uuid.uuid4().hex[:12]}"
        tarfile.open(fileobj=empty, mode="w").close()
        repository, _, tag = name.partition(":")
        client.api.import_image_from_data(empty.getvalue(), repository, tag, changes=list(changes))
        made.append(name)
        return name

    yield make
    for name in made:
        client.images.remove(name, force=True)


async def test_a_missing_engine_is_named_with_the_reason_and_the_next_step(tmp_path: Path) -> None:
    """
    Where no daemon answers, the error says where, why, and what to do.
    """
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as refusing:
        refusing.bind(str(path))

    with pytest.raises(RunnerUnavailable) as raised:
        await find_engine(f"unix://{path}")

    assert str(raised.value) == (
        f"docker: no daemon answered at unix://{path} (connection refused). Nothing was run. "
        "Start Docker, or pass runner='bubblewrap'."
    )
    assert raised.value.runner == "docker"


async def test_a_stream_that_cannot_be_carried_is_refused() -> None:
    """
    An engine behind ssh is refused before anything is started there.
    """
    with pytest.raises(RunnerUnavailable, match=r"cannot go through ssh://somewhere\. Nothing was run"):
        await find_engine("ssh://somewhere")


async def test_bytes_arrive_as_they_were_sent(runner: DockerRunner) -> None:
    """
    A megabyte of any bytes, terminal control sequences too, comes back unchanged.
    """
    sent = random.Random(1).randbytes(1 << 20)
    echo = f"left = {len(sent)}\nwhile left:\n  data = os.read(0, 65536)\n  left -= len(data)\n  os.write(1, data)"

    async with runner.open(ENVIRONMENT, LIMITS) as sandbox:
        await sandbox.write(program(echo))
        _, received = await asyncio.gather(sandbox.write(sent), read_all(sandbox))

    assert received == sent


async def test_the_last_words_of_a_guest_are_kept_apart(runner: DockerRunner) -> None:
    """
    What a dying guest says on stderr is in the autopsy and not in the stream.
    """
    async with runner.open(ENVIRONMENT, LIMITS) as sandbox:
        await sandbox.write(program("os.write(1, b'fine'); sys.exit('out of cheese')"))
        output = await read_all(sandbox)
        autopsy = await sandbox.autopsy()

    assert output == b"fine"
    assert autopsy.detail == "It left exit status 1 and said: out of cheese"
    assert not autopsy.oom_killed


async def test_only_the_needed_privileges_are_there(runner: DockerRunner) -> None:
    """
    The supervisor can change users and kill; it can gain nothing, and seccomp filters its calls.
    """
    said = await run_inside(runner, "os.write(1, open('/proc/self/status', 'rb').read())")
    status = dict(line.split(":\t", 1) for line in said.decode().splitlines() if ":\t" in line)

    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 1 << 5 | 1 << 6 | 1 << 7
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


async def test_the_workspace_is_all_that_can_be_written(runner: DockerRunner) -> None:
    """
    The workspace is as large as the disk limit, /tmp is a part of it, and the rest is read-only.
    """
    said = await run_inside(
        runner,
        """
        os.mkdir("/job/tmp")
        disk = os.statvfs("/job")
        refused = [path for path in ("/", "/etc", "/usr/local", "/proc/sys") if os.statvfs(path).f_flag & os.ST_RDONLY]
        shared = os.statvfs("/dev/shm")
        print(json.dumps([disk.f_blocks * disk.f_frsize, os.stat("/tmp").st_dev == os.stat("/job").st_dev, refused,
                          shared.f_blocks * shared.f_frsize]))
        """,
    )

    assert json.loads(said) == [128 << 20, True, ["/", "/etc", "/usr/local", "/proc/sys"], 64 << 20]


async def test_there_is_no_network_and_nothing_of_the_caller(
    runner: DockerRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A sandbox sees its own loopback only, a fixed host name, and no variable of ours.
    """
    monkeypatch.setenv("REPROOF_TEST_SECRET", "s3cret")
    said = await run_inside(
        runner, "print(json.dumps([os.listdir('/sys/class/net'), os.uname().nodename, dict(os.environ)]))"
    )
    interfaces, name, variables = json.loads(said)

    assert (interfaces, name) == (["lo"], "sandbox")
    assert "REPROOF_TEST_SECRET" not in variables
    assert variables["PATH"] == "/usr/local/bin:/usr/bin:/bin"


async def test_limits_are_what_the_guest_can_read(runner: DockerRunner) -> None:
    """
    The cgroup directories that the guest is told of hold the limits of this very sandbox.
    """
    async with runner.open(ENVIRONMENT, Limits(memory_mb=100, disk_mb=4, processes=5)) as sandbox:
        cgroup = dict(sandbox.settings.cgroup)
        files = [
            cgroup["unified"] + "/memory.max" if "unified" in cgroup else cgroup["memory"] + "/memory.limit_in_bytes",
            cgroup.get("unified", cgroup.get("pids", "")) + "/pids.max",
        ]
        await sandbox.write(program(f"print([int(open(path).read()) for path in {files!r}])"))
        said = await read_all(sandbox)

    assert json.loads(said) == [(100 + 4 + 96) << 20, 5 + 3]


async def test_a_guest_that_ran_out_of_memory_is_told_by_the_kernel(runner: DockerRunner) -> None:
    """
    When the supervisor itself is killed for memory, the autopsy has it from the engine.
    """
    async with runner.open(ENVIRONMENT, Limits(memory_mb=16, disk_mb=1)) as sandbox:
        await sandbox.write(program("b'x' * (1 << 30)"))
        await read_all(sandbox)
        autopsy = await sandbox.autopsy()

    assert autopsy.oom_killed


async def test_a_killed_container_is_lost_and_not_a_verdict(runner: DockerRunner, client: Any) -> None:
    """
    A container that someone kills while a job runs is our failure, never the candidate's.
    """

    def kill(event: dict[str, Any]) -> None:
        if event["e"] == "start":
            client.api.kill(ours(client)[0])

    with pytest.raises(RunnerLost, match="exit status 137"):
        async with session.open_guest(runner, ENVIRONMENT, LIMITS) as guest:
            await guest.run(JOB, kill)

    assert ours(client) == []


async def test_a_removed_container_is_said_to_be(runner: DockerRunner, client: Any) -> None:
    """
    A container that someone removes is told apart from one that died.
    """
    async with runner.open(ENVIRONMENT, LIMITS) as sandbox:
        client.api.remove_container(ours(client)[0], force=True)
        await read_all(sandbox)
        autopsy = await sandbox.autopsy()

    assert autopsy.detail == "Someone else removed its container."


async def test_cancelling_while_it_starts_leaves_nothing(runner: DockerRunner, client: Any) -> None:
    """
    Cancelled after the engine has made the container and before it runs, there is none afterwards.
    """

    async def use() -> None:
        async with runner.open(ENVIRONMENT, LIMITS) as sandbox:
            await sandbox.read()

    using = asyncio.create_task(use())
    while not await asyncio.to_thread(ours, client):
        pass
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using

    assert ours(client) == []


def endings(client: Any, since: int, container: str) -> list[str]:
    """What the engine says of how a container that is gone has ended."""
    filters = {"container": container, "event": ["kill", "die", "destroy"]}
    with closing(client.api.events(since=since, until=str(time.time()), filters=filters, decode=True)) as told:
        return [event["Action"] for event in told]


async def test_a_guest_that_can_leave_is_not_killed(runner: DockerRunner, client: Any) -> None:
    """
    To kill a container costs the engine a program more than to see it end.
    """
    since = int(time.time())
    async with session.open_guest(runner, ENVIRONMENT, LIMITS):
        (container,) = ours(client)

    assert endings(client, since, container) == ["die", "destroy"]


async def test_a_guest_that_does_not_leave_is_killed(
    runner: DockerRunner, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    One that has spoken, and then does not hear that its host has gone.
    """
    monkeypatch.setattr("runners.docker.LEAVING_SECONDS", 0.1)
    since = int(time.time())
    async with runner.open(ENVIRONMENT, LIMITS) as sandbox:
        await sandbox.write(program("import time; print('here', flush=True); time.sleep(3600)"))
        await sandbox.read()
        (container,) = ours(client)

    assert endings(client, since, container) == ["kill", "die", "destroy"]


async def test_an_error_of_the_caller_leaves_nothing(runner: DockerRunner, client: Any) -> None:
    """
    An exception inside the block comes out as it is, after the container is gone.
    """
    with pytest.raises(ZeroDivisionError):
        async with runner.open(ENVIRONMENT, LIMITS):
            raise ZeroDivisionError

    assert ours(client) == []


async def test_sandboxes_leave_no_descriptor_open(runner: DockerRunner) -> None:
    """
    After some sandboxes this process has as many descriptors open as before.
    """
    await run_inside(runner, "pass")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await run_inside(runner, "pass")

    assert len(os.listdir("/proc/self/fd")) == before


async def test_an_image_without_python_is_refused(runner: DockerRunner, client: Any, image: Any) -> None:
    """
    An image in which no python can be started is named as our failure; nothing was run.
    """
    environment = Environment(image=image())

    with pytest.raises(RunnerUnavailable, match=r"could not start the container .*python.*Nothing was run"):
        async with runner.open(environment, LIMITS):
            pass

    assert ours(client) == []


async def test_an_unknown_runtime_is_refused(runner: DockerRunner) -> None:
    """
    Asked for a runtime that the engine does not have, it stops and says so.
    """
    with pytest.raises(RunnerUnavailable, match="no-such-runtime"):
        async with runner.open(Environment(runtime="no-such-runtime"), LIMITS):
            pass


OPEN_AND_WAIT = """
import asyncio, sys
from runners.contract import Environment, Limits
from runners.docker import DockerRunner
async def main():
    async with DockerRunner(sys.argv[1]) as runner, runner.open(Environment(), Limits()):
        print("open", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture
def harness(docker_host: str) -> Iterator[Any]:
    """Starts a process that holds a sandbox open."""
    started = []

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", OPEN_AND_WAIT, docker_host]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        return process

    yield start
    for process in started:
        process.send_signal(signal.SIGINT)
        process.communicate()


def of(client: Any, process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    return list(client.api.containers(all=True, filters={"label": f"{owners.PID}={process.pid}"}))


async def test_the_next_start_removes_what_a_killed_harness_left(
    harness: Any,
    client: Any,
    docker_host: str,
) -> None:
    """
    After kill -9 the next start removes that container, and not the one of a harness that still runs.
    """
    killed, running = harness(), harness()
    before = len(of(client, killed))
    killed.kill()
    killed.wait()
    async with DockerRunner(docker_host):
        after = len(of(client, killed))

        assert (before, after) == (1, 0)
        assert [container["State"] for container in of(client, running)] == ["running"]


def test_a_sandbox_ends_with_its_harness(harness: Any, client: Any) -> None:
    """
    The guest of a killed harness ends by itself, before anyone sweeps.
    """
    process = harness()
    container = of(client, process)[0]["Id"]
    process.kill()
    process.wait()
    with suppress(NotFound):  # swept by another worker's test
        client.api.wait(container, timeout=30)

    assert client.api.containers(filters={"id": container}) == []


@pytest.mark.parametrize(
    ("label", "value", "stays"),
    [(owners.HOST, "elsewhere", True), (owners.START, "an earlier process of this id", False)],
)
async def test_only_the_dead_of_this_host_are_swept(
    client: Any,
    docker_host: str,
    image: Any,
    label: str,
    value: str,
    stays: bool,
) -> None:
    """
    Another host's container stays, whatever its process id means here; one of a reused process id goes.
    """
    labels = {**owners.labels(), label: value}
    created = client.api.create_container(image(), ["none"], labels=labels)["Id"]
    async with DockerRunner(docker_host):
        remaining = client.api.containers(all=True, filters={"id": created})
    for container in remaining:
        client.api.remove_container(container["Id"])

    assert bool(remaining) is stays


async def test_a_volume_of_an_image_is_no_way_around_the_disk_limit(
    runner: DockerRunner, client: Any, docker_host: str, request: pytest.FixtureRequest
) -> None:
    """
    What an image declares as a volume is a small tmpfs; /tmp of one made from ours is in the workspace.
    """
    recipe = io.BytesIO(f"FROM {await build_image(docker_host)}\nVOLUME /data\n".encode())
    made, _ = client.images.build(fileobj=recipe, rm=True)
    request.addfinalizer(lambda: client.images.remove(made.id, force=True))
    said = await run_inside(
        runner,
        """
        os.mkdir("/job/tmp")
        data = os.statvfs("/data")
        print(json.dumps([data.f_blocks * data.f_frsize, os.stat("/tmp").st_dev == os.stat("/job").st_dev]))
        """,
        Environment(image=made.id),
    )

    assert json.loads(said) == [16 << 20, True]
