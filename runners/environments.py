"""The Python environment of a sandbox on this machine: a cached, read-only virtual environment.

It holds `interpreter.PACKAGES` and what the environment's requirements ask for,
is named by the hash of all that, is built once with network, and is only ever
read afterwards.
"""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import interpreter
from .contract import RunnerUnavailable

__all__ = ["cache_folder", "ensure", "locked", "pip_install"]

RECIPE = 3
"""Raise it when the way of building changes; older environments are then not used."""

USERS = range(1000, 1000 + 1024)
"""The ids that a sandbox's jobs have, two for each; all of them are called `sandbox`."""

Progress = Callable[[str], None]


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "reproof"


def ensure(runner: str, requirements: tuple[str, ...], progress: Progress | None = None) -> Path:
    """The environment's directory, built if it is not there yet.

    Raises:
        RunnerUnavailable: it could not be built; pip's reason is in the message.
    """
    folder = cache_folder() / "environments" / _name(requirements)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _build(runner, folder, requirements, progress or (lambda line: None))
    except OSError as exc:
        raise RunnerUnavailable(
            runner,
            f"the sandbox's Python environment cannot be kept in {folder.parent} ({exc.strerror or exc}). "
            "Nothing was run. Make that folder writable, or set XDG_CACHE_HOME to one that is.",
        ) from exc
    return folder


def _name(requirements: tuple[str, ...]) -> str:
    inputs = [RECIPE, sys.version, sys.base_prefix, sorted(interpreter.packages().items()), sorted(requirements)]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time is inside."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(runner: str, folder: Path, requirements: tuple[str, ...], progress: Progress) -> None:
    what = f"with {', '.join(requirements)}" if requirements else "(once)"
    progress(f"building the sandbox's Python environment {what} ...")
    work = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    try:
        site = work / "lib" / f"python{interpreter.python_version()}" / "site-packages"
        site.mkdir(parents=True)
        (work / "bin").mkdir()
        base = Path(sys.base_prefix) / "bin" / f"python{interpreter.python_version()}"
        for name in ("python", "python3"):
            (work / "bin" / name).symlink_to(base)
        (work / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
        interpreter.copy_packages(site)
        if requirements:
            pip_install(runner, requirements, site)
        compileall.compile_dir(site, quiet=2)
        _write_accounts(work / "etc")
        _open_to_all(work)
        work.rename(folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _write_accounts(folder: Path) -> None:
    """The accounts that a sandbox knows of."""
    folder.mkdir()
    (folder / "passwd").write_text(
        "root:x:0:0:root:/:/bin/false\n"
        + "".join(f"sandbox:x:{uid}:{uid}:sandbox:/job/home:/bin/sh\n" for uid in USERS)
        + "nobody:x:65534:65534:nobody:/:/bin/false\n"
    )
    groups = "".join(f"sandbox:x:{uid}:\n" for uid in USERS)
    (folder / "group").write_text(f"root:x:0:\n{groups}nogroup:x:65534:\n")


def _open_to_all(work: Path) -> None:
    """Readable by the sandbox's user, whatever the caller's umask is."""
    for path in (work, *work.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))


def pip_install(runner: str, requirements: tuple[str, ...], site: Path, *options: str) -> None:
    """Install wheels into a directory. No sdist: building one would run its code on this machine."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--upgrade", "--target", str(site), *options, "--", *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
        raise RunnerUnavailable(
            runner,
            f"the requirements {', '.join(requirements)} could not be installed: {reason[0]}. "
            "Nothing was run. Only wheels are installed, since building a source distribution would run its "
            "code on this machine: name versions that have one.",
        )
