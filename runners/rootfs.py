"""The Python that runs here, as the root directory of an image.

The interpreter, its library, the packages that every sandbox holds, the shared
libraries that all these load, and a few tools. Nothing in it names a path of
this machine.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from . import interpreter

__all__ = ["COMPILE", "PATH", "SANDBOX_UID", "fill", "plain"]

SANDBOX_UID = 10001
USER_IDS = 1024
"""Jobs of a sandbox have this id and the next ones, one after the other; all are called `sandbox`."""
PATH = "/usr/local/bin:/usr/bin:/bin"
WHEN = 946_684_800
"""Every file is of the year 2000, so that the same inputs give the same layer."""

COMPILE = """\
import compileall, os, py_compile, sys
root, *paths = sys.argv[1:]
for path in paths:
    compile = compileall.compile_dir if os.path.isdir(path) else compileall.compile_file
    compile(path, quiet=2, stripdir=root, prependdir="/",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"""
"""Byte-compiles paths as they will be seen from a root directory, which comes first.

Unchecked: files in a read-only image do not change, so no import has to look at the source.
"""

# fmt: off
UNNEEDED = (
    "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo",
    "config-*", "__pycache__", "sitecustomize.py", "_tkinter.*", "_test*", "_ctypes_test*", "nis.*",
)
TOOLS = (
    "sh", "env", "cat", "cp", "date", "echo", "false", "head", "id", "ls", "mkdir", "mv", "printf", "pwd", "rm",
    "sleep", "sort", "tail", "touch", "tr", "true", "uname", "wc",
)
"""What a test may expect behind `subprocess.run`."""
WHEELS_EXPECT = (
    "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1", "libdl.so.2", "libpthread.so.0", "libresolv.so.2",
    "librt.so.1", "libutil.so.1",
)
"""Libraries that a manylinux wheel does not bring along."""
# fmt: on
_IDS = range(SANDBOX_UID, SANDBOX_UID + USER_IDS)
_ACCOUNTS = "".join(f"sandbox:x:{uid}:{uid}:sandbox:/job/home:/bin/sh\n" for uid in _IDS)
_GROUPS = "".join(f"sandbox:x:{uid}:\n" for uid in _IDS)
USERS = f"""\
root:x:0:0:root:/:/bin/sh
{_ACCOUNTS}nobody:x:65534:65534:nobody:/:/bin/sh
"""
GROUPS = f"root:x:0:\n{_GROUPS}nogroup:x:65534:\n"


def fill(root: Path) -> None:
    """Make `root` a root directory in which `python` and a handful of tools work."""
    stdlib, program = Path(sysconfig.get_path("stdlib")), f"python{interpreter.python_version()}"
    library = root / "usr/local" / stdlib.relative_to(sys.base_prefix)
    shutil.copytree(stdlib, library, ignore=shutil.ignore_patterns(*UNNEEDED), ignore_dangling_symlinks=True)
    interpreter.copy_packages(library / "site-packages")
    (library / "dist-packages").symlink_to("site-packages")  # where Debian's own Python looks
    subprocess.run([sys.executable, "-c", COMPILE, root, library], check=True)
    _copy(getattr(sys, "_base_executable", sys.executable), root / "usr/local/bin" / program)
    for link in ("python", "python3"):
        (root / "usr/local/bin" / link).symlink_to(program)
    for tool in TOOLS:
        if found := shutil.which(tool):
            _copy(found, root / "usr/bin" / tool)
    _copy_libraries(root)
    _copy_settings(root)


def _copy(source: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _copy_libraries(root: Path) -> None:
    """Copy what the programs and extension modules load, and the loader itself.

    All go to one directory, and every directory that some loader searches by
    default is a link to it: nothing has to be configured.
    """
    folder, modules = root / "usr/lib", list(root.rglob("*.so"))
    for source in _needed([*root.glob("usr/bin/*"), *root.glob("usr/local/bin/python3.*"), *modules]):
        if not (folder / Path(source).name).exists():
            _copy(source, folder / Path(source).name)
    if strip := shutil.which("strip"):  # debug information can be three quarters of libpython
        subprocess.run([strip, "--strip-debug", *folder.glob("libpython*"), *modules], check=False)
    if multiarch := sysconfig.get_config_var("MULTIARCH"):
        (folder / multiarch).symlink_to(".")
    for link, target in (("lib", "usr/lib"), ("lib64", "usr/lib"), ("usr/lib64", "lib"), ("bin", "usr/bin")):
        (root / link).symlink_to(target)


def _needed(programs: list[Path]) -> set[str]:
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = {line.split("=>")[-1].split()[0] for line in listed.splitlines() if "(0x" in line}
    found = {path for path in found if path.startswith("/")}  # the kernel's own is no file
    beside = {Path(path).parent for path in found}
    wanted = {folder / name for folder in beside for name in WHEELS_EXPECT}
    return found | {str(path) for path in wanted if path.exists()}


def _copy_settings(root: Path) -> None:
    for folder in ("etc", "proc", "sys", "dev", "var"):
        (root / folder).mkdir()
    # No /job: what mounts one would give it the mode of a directory that is there already.
    (root / "tmp").symlink_to("job/tmp")
    (root / "var/tmp").symlink_to("../job/tmp")
    (root / "etc/passwd").write_text(USERS)
    (root / "etc/group").write_text(GROUPS)
    zones = Path("/usr/share/zoneinfo")
    if zones.is_dir():
        unneeded = shutil.ignore_patterns("posix", "right", "localtime")
        shutil.copytree(zones, root / "usr/share/zoneinfo", symlinks=True, ignore=unneeded)


def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same file whoever packs it, and whenever."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = WHEN
    entry.mode |= 0o444 | (0o111 if entry.isdir() else 0)
    return entry
