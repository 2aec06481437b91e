"""The Docker engine: whether one answers, what it can do, and its failures in our words."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException
from testcontainers.core.docker_client import get_docker_host

from .contract import RunnerError, RunnerUnavailable

__all__ = ["NAME", "Engine", "cause", "connected", "find_engine", "translated"]

NAME = "docker"
CONNECT_SECONDS = 20


@dataclass(frozen=True)
class Engine:
    """An engine that answers, and what it can do."""

    host: str | None
    version: str
    api: str
    cgroup: str
    """Version of its cgroups, `1` or `2`; empty where it has none to limit with."""
    seccomp: bool
    cpus: int
    runtime: str
    """What a container gets that asks for no runtime."""

    @property
    def options(self) -> dict[str, Any]:
        """For `docker.from_env`; naming the version saves it a question."""
        return {"version": self.api, **_where(self.host)}


async def find_engine(host: str | None = None) -> Engine:
    """The engine at `host`, or else where docker's own settings point.

    Raises:
        RunnerUnavailable: none answers; the message says why and what to do.
    """
    return await asyncio.to_thread(_find_engine, host)


def _find_engine(host: str | None) -> Engine:
    host = host or get_docker_host()
    where = host or docker.constants.DEFAULT_UNIX_SOCKET.removeprefix("http+")
    if where.startswith(("ssh:", "npipe:")):
        raise _unavailable(f"a sandbox's stream cannot go through {where}", "Forward the engine's socket to here.")
    try:
        _knock(where)
        with closing(docker.from_env(timeout=CONNECT_SECONDS, **_where(host))) as client:
            if client.api.base_url.startswith("https:"):
                raise _unavailable(f"a sandbox's stream cannot go through TLS to {where}", "Use a tunnel.")
            about = client.info()
            api = client.api.api_version
    except (DockerException, OSError) as exc:  # those of requests are OSErrors
        raise _unavailable(
            f"no daemon answered at {where} ({cause(exc)})", "Start Docker, or pass runner='bubblewrap'."
        ) from exc
    return Engine(
        host=host,
        version=about["ServerVersion"],
        api=api,
        cgroup=about.get("CgroupVersion", "1") if about.get("MemoryLimit") and about.get("PidsLimit") else "",
        seccomp=any("name=seccomp" in option for option in about.get("SecurityOptions") or ()),
        cpus=about["NCPU"],
        runtime=about.get("DefaultRuntime", "runc"),
    )


def _knock(where: str) -> None:
    """Find out that nobody is there before docker-py does: it would leave its socket open."""
    if where.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(where.removeprefix("unix://"))


def _where(host: str | None) -> dict[str, Any]:
    return {"environment": {**os.environ, "DOCKER_HOST": host}} if host else {}


def connected(engine: Engine) -> closing[Any]:
    return closing(docker.from_env(**engine.options))


@contextmanager
def translated(
    doing: str,
    *,
    refused: type[RunnerError] = RunnerUnavailable,
    silent: type[RunnerError] = RunnerUnavailable,
) -> Iterator[None]:
    """Raise ours for docker's: `refused` when the engine said no, `silent` when it said nothing."""
    try:
        yield
    except (DockerException, requests.RequestException) as exc:
        error = refused if isinstance(exc, APIError) else silent
        state = "Nothing was run." if error is RunnerUnavailable else "It may have run."
        raise error(NAME, f"could not {doing} ({cause(exc)}). {state}") from exc


def _unavailable(what: str, next_step: str) -> RunnerUnavailable:
    return RunnerUnavailable(NAME, f"{what}. Nothing was run. {next_step}")


def cause(exc: BaseException) -> str:
    """The innermost reason: the engine's own words, or the operating system's."""
    if isinstance(exc, APIError) and exc.explanation:
        return str(exc.explanation).strip().rstrip(".")
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror.lower()
    inner = next((arg for arg in exc.args if isinstance(arg, BaseException)), exc.__cause__)
    return cause(inner) if inner is not None else str(exc)
