"""A container per sandbox, through the client of testcontainers.

**The stream.** The guest speaks over the container's own stdin and stdout, attached
before the container starts: a guest that dies at once is still heard. Its stdin
closes with our end of the stream, so when we are killed the guest ends by itself.

**Users.** The supervisor is the container's root, with only the capabilities that
it takes to become another user for the candidate and to kill that user's processes.

**Leftovers.** testcontainers' own containers come with Ryuk, a second one that removes
those of a dead process. Its image cannot be pulled everywhere and it wants the
engine's socket, so ours are made without it. Instead each of them names its owner
in labels, and a sweep at entry and exit removes those whose owner is dead.

**Cost.** A container is four questions to the engine: create, attach, start, remove.
An image is looked for once.

No exception of docker, testcontainers or requests leaves this module.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import requests
from docker.errors import APIError, DockerException, NotFound
from docker.types import LogConfig, Ulimit
from testcontainers.core.docker_client import DockerClient

from . import guest, images, owners
from .contract import (
    Autopsy,
    Environment,
    GuestSettings,
    Isolation,
    Limits,
    RunnerLost,
    RunnerUnavailable,
    Sandbox,
)
from .engine import NAME, Engine, cause, connected, find_engine, translated
from .rootfs import SANDBOX_UID, USER_IDS

__all__ = ["DockerRunner", "Engine", "build_image", "find_engine", "sweep"]

WORKSPACE = "/job"
OVERHEAD_MB = 96
"""Our own processes in the container; tmpfs pages are charged too, so `disk_mb` comes on top."""
OUR_PROCESSES = 3
"""The supervisor and its two zygotes."""
SHARED_MEMORY_MB = 64
OTHER_FOLDER_MB = 16
MOST_CPUS = 4
CAPABILITIES = ["SETUID", "SETGID", "KILL"]
OTHER_THREADS = 4096
"""A kernel of its own, as gVisor is, dies when it gets no thread; the guest counts processes, then."""
KEPT_ERRORS = 16_384
EXIT_SECONDS = 5
LEAVING_SECONDS = 2
CONFLICT = 409

T = TypeVar("T")


async def build_image(
    host: str | None = None,
    *,
    from_host: bool = False,
    requirements: Iterable[str] = (),
    progress: images.Progress | None = None,
) -> str:
    """Build the sandbox image unless the engine has it; return its name.

    Raises:
        RunnerUnavailable: it could not be built.
    """
    engine = await find_engine(host)

    def build() -> str:
        with translated("build the image"), connected(engine) as client:
            return images.build(client, from_host=from_host, requirements=requirements, progress=progress)

    return await asyncio.to_thread(build)


class DockerRunner:
    name = NAME

    def __init__(self, host: str | None = None, progress: Callable[[str], None] | None = None) -> None:
        self._host = host
        self._progress = progress
        self._engine: Engine | None = None
        self._images: dict[str, _Image] = {}

    async def __aenter__(self) -> Self:
        self._engine = await find_engine(self._host)
        await asyncio.to_thread(sweep, self._engine)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            with suppress(RunnerUnavailable):  # an engine that is gone has nothing to sweep
                await _to_the_end(asyncio.to_thread(sweep, engine))

    @asynccontextmanager
    async def open(self, environment: Environment, limits: Limits) -> AsyncIterator[Sandbox]:
        assert self._engine is not None, "use `async with DockerRunner() as runner`"
        engine, key = self._engine, environment.model_dump_json()
        if key not in self._images:
            self._images[key] = await asyncio.to_thread(self._image, engine, environment)
        container = _Container(engine, self._images[key])
        try:
            try:
                await _to_the_end(asyncio.to_thread(container.start, environment, limits))
            except RunnerUnavailable:
                self._images.pop(key, None)  # it may be that which is gone
                raise
            reader, writer = await asyncio.open_connection(sock=container.stream)
            isolation, settings = _isolation(engine, environment, limits), _settings(engine, environment)
            sandbox = _Sandbox(container, reader, writer, isolation, settings)
            try:
                yield sandbox
            finally:
                await sandbox.close()
        finally:
            await _to_the_end(asyncio.to_thread(container.stop))

    def _image(self, engine: Engine, environment: Environment) -> _Image:
        with translated("get the image"), connected(engine) as client:
            name = images.ensure(client, environment, self._progress)
            if environment.image is None:
                return _Image(name, (), ours=True)
            about = client.images.get(name).attrs["Config"]
            return _Image(name, tuple(about.get("Volumes") or ()), ours=images.LABEL in (about.get("Labels") or {}))


@dataclass(frozen=True)
class _Image:
    name: str
    volumes: tuple[str, ...]
    ours: bool

    def writable_folders(self, engine: Engine, environment: Environment) -> Iterator[str]:
        """Where something could be written past the disk limit, unless we put a small tmpfs there."""
        yield from self.volumes
        # In our image /tmp is a part of the workspace; but gVisor mounts one of its own, without a limit.
        if not self.ours or not _shows_cgroups(engine, environment):
            yield "/tmp"


def sweep(engine: Engine) -> None:
    """Remove the containers of owners on this machine that are dead, and only those."""
    with translated("remove what a dead process left"), connected(engine) as client:
        for found in client.api.containers(all=True, filters={"label": owners.of_this_host()}):
            if not owners.is_alive(found["Labels"]):
                _remove(client, found["Id"])


def _remove(client: Any, container: str) -> None:
    """It is gone when this returns, whoever removed it."""
    with suppress(NotFound):
        try:
            client.api.remove_container(container, force=True, v=True)
        except APIError as exc:
            if exc.status_code != CONFLICT:
                raise
            client.api.wait(container, condition="removed")  # someone else is at it


class _Container:
    """Attached before it starts."""

    def __init__(self, engine: Engine, image: _Image) -> None:
        self._engine, self._image = engine, image
        self.name = f"reproof-{uuid.uuid4().hex}"
        # docker-py keeps a connection for each address that it asks: a client for each container.
        self.client = DockerClient(**engine.options).client
        self._api = self.client.api
        self.stream: socket.socket | None = None

    def start(self, environment: Environment, limits: Limits) -> None:
        variables = guest.variables(environment.variables)
        del variables["PATH"]  # the image knows where its Python is
        with translated("create the container"):
            self._api.create_container(
                self._image.name,
                list(guest.COMMAND),
                name=self.name,
                entrypoint=["python"],
                environment=variables,
                working_dir="/",
                user="0:0",
                labels=owners.labels(),
                hostname="sandbox",
                stdin_open=True,
                healthcheck={"test": ["NONE"]},
                use_config_proxy=False,
                host_config=self._restrictions(environment, limits),
            )
            self.stream = self._attach()
        with translated("start the container", silent=RunnerLost):
            self._api.start(self.name)

    def _restrictions(self, environment: Environment, limits: Limits) -> Any:
        """All that is asked of the engine to keep the container small and alone."""
        engine = self._engine
        memory = limits.memory_mb + limits.disk_mb + OVERHEAD_MB
        other = f"size={min(limits.disk_mb, OTHER_FOLDER_MB)}m,mode=1777,exec"
        folders = dict.fromkeys(self._image.writable_folders(engine, environment), other)
        return self._api.create_host_config(
            runtime=environment.runtime,
            init=False,
            log_config=LogConfig(type="none"),
            network_mode="none",
            ipc_mode="private",
            cgroupns="private",
            read_only=True,
            tmpfs={WORKSPACE: f"size={limits.disk_mb}m,mode=1777,exec", **folders},
            cap_drop=["ALL"],
            cap_add=CAPABILITIES,
            security_opt=["no-new-privileges"],
            mem_limit=f"{memory}m",
            memswap_limit=f"{memory}m",
            shm_size=f"{min(limits.disk_mb, SHARED_MEMORY_MB)}m",
            pids_limit=limits.processes + (OUR_PROCESSES if _shows_cgroups(engine, environment) else OTHER_THREADS),
            nano_cpus=min(engine.cpus, MOST_CPUS) * 1_000_000_000,
            ulimits=[Ulimit(name="core", soft=0, hard=0)],
        )

    def _attach(self) -> socket.socket:
        raw = self._api.attach_socket(self.name, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        stream = socket.socket(fileno=os.dup(raw.fileno()))
        raw._response.close()
        return stream

    def stop(self) -> None:
        """Kill it and remove it, also where we never heard whether it was created."""
        failed = translated(f"remove the container {self.name}", refused=RunnerLost, silent=RunnerLost)
        with failed, closing(self.client), self.stream or nullcontext():
            _remove(self.client, self.name)

    def state(self, seconds: int) -> Mapping[str, Any]:
        """How it ended, once it has; it gets some seconds for that."""
        with suppress(requests.RequestException):
            self._api.wait(self.name, timeout=seconds)
        return dict(self._api.inspect_container(self.name)["State"])


class _Sandbox:
    def __init__(
        self,
        container: _Container,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        isolation: Isolation,
        settings: GuestSettings,
    ) -> None:
        self.isolation = isolation
        self.settings = settings
        self._container, self._reader, self._writer = container, reader, writer
        self._waiting = bytearray()
        self._errors = bytearray()
        self._heard = False

    async def read(self) -> bytes:
        output = b""
        with suppress(ConnectionError):  # an engine that dies ends the stream, in one way or another
            while not output and (data := await self._reader.read(1 << 18)):
                self._heard = True
                self._waiting += data
                output = self._demultiplexed()
        return output

    def _demultiplexed(self) -> bytes:
        """What has arrived whole of stdout; stderr is kept, in bounds. Each piece has a header of 8 bytes."""
        output = bytearray()
        while len(self._waiting) >= 8:
            end = 8 + int.from_bytes(self._waiting[4:8], "big")
            if len(self._waiting) < end:
                break
            if self._waiting[0] == 2:
                self._errors = (self._errors + self._waiting[8:end])[-KEPT_ERRORS:]
            else:
                output += self._waiting[8:end]
            del self._waiting[:end]
        return bytes(output)

    async def write(self, data: bytes) -> None:
        with suppress(ConnectionError):  # a guest that is gone is noticed by `read`, and `autopsy` knows why
            self._writer.write(data)
            await self._writer.drain()

    async def close(self) -> None:
        """Let it end by itself, which costs the engine a program less than to kill it."""
        try:
            if self._heard and self._writer.can_write_eof():
                self._writer.write_eof()
                async with asyncio.timeout(LEAVING_SECONDS):
                    while await self.read():
                        pass
        except (OSError, TimeoutError):
            pass  # then it is killed
        finally:
            self._writer.transport.abort()

    async def autopsy(self) -> Autopsy:
        try:
            state = await asyncio.to_thread(self._container.state, EXIT_SECONDS)
        except NotFound:
            return Autopsy(detail="Someone else removed its container.")
        except (DockerException, requests.RequestException) as exc:
            return Autopsy(detail=f"The engine does not answer any more ({cause(exc)}).")
        said = self._errors.decode("utf-8", "replace").strip()
        ending = "closed its stream but still runs" if state["Running"] else f"left exit status {state['ExitCode']}"
        detail = f"It {ending}" + (f" and said: {said[-2000:]}" if said else ".")
        return Autopsy(oom_killed=bool(state["OOMKilled"]), detail=detail)


def _settings(engine: Engine, environment: Environment) -> GuestSettings:
    root, version = "/sys/fs/cgroup", engine.cgroup if _shows_cgroups(engine, environment) else ""
    folders = {
        "1": {name: f"{root}/{name}" for name in ("memory", "pids")},
        "2": {"unified": root},
    }
    return GuestSettings(
        workspace=WORKSPACE,
        uid=SANDBOX_UID,
        uids=USER_IDS,
        scratch=("/dev/shm", "/tmp"),
        cgroup=folders.get(version, {}),
    )


def _shows_cgroups(engine: Engine, environment: Environment) -> bool:
    """Whether the guest can read its own limits and use. Other runtimes may not even have them."""
    return bool(engine.cgroup) and (environment.runtime or engine.runtime) in ("runc", "crun")


def _isolation(engine: Engine, environment: Environment, limits: Limits) -> Isolation:
    runtime = environment.runtime or engine.runtime
    means = f"cgroup v{engine.cgroup}" if _shows_cgroups(engine, environment) else "measured"
    barrier = "default seccomp filter" if engine.seccomp else "no seccomp filter"
    return Isolation(
        runner=NAME,
        network="none: own namespace, loopback of its own",
        filesystem=f"read-only image, private tmpfs of {limits.disk_mb} MB",
        processes=f"own pid and ipc namespaces, at most {limits.processes} ({means}), "
        + (barrier if runtime == "runc" else f"runtime {runtime}"),
        memory=f"{limits.memory_mb} MB ({means})",
        user=f"uid {SANDBOX_UID}, no capabilities",
    )


async def _to_the_end(work: Awaitable[T]) -> T:
    """Wait for it even when cancelled meanwhile; then be cancelled.

    A thread cannot be stopped, and what it makes must be known to be removed.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at; the cancellation is what counts
        raise
