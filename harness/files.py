"""Files by relative path: from a file, a directory, or a git ref; checked before anything starts."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pathspec

__all__ = ["admitted", "check_path", "check_together", "read", "read_ref"]

LONGEST_NAME = 255
LONGEST_PATH = 3_000
MOST_BYTES = 128 * 1024 * 1024
TOO_MUCH = f"holds more than {MOST_BYTES >> 20} MB"
CONFIGURES = ("conftest.py", "sitecustomize.py", "usercustomize.py")
"""Would run before, or reach into, the tests; the suite's own do."""
NEVER_TAKEN = (".git", "__pycache__/", "*.pyc")
"""Whatever a `.gitignore` says."""

_Rule = tuple[bool, Any]
"""A line of a `.gitignore`: whether it is for folders only, and its pattern."""


def check_path(path: object) -> None:
    """A ValueError unless it is a relative path that stays inside the workspace."""
    if not isinstance(path, str):
        raise ValueError(f"path {path!r}: not a string")
    reason = _why_bad(path)
    if reason:
        shown = path if len(path) <= 80 else path[:77] + "..."
        raise ValueError(f"path {shown!r}: {reason}")


def _why_bad(path: str) -> str | None:
    if not path:
        return "is empty"
    if "\0" in path:
        return "holds a NUL"
    if path.startswith("/"):
        return "is absolute; paths are relative to the workspace"
    parts = path.split("/")
    if ".." in parts:
        return "leaves the workspace with '..'"
    if "" in parts or "." in parts:
        return "has an empty or '.' part"
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        return "cannot be a file name"
    if len(encoded) > LONGEST_PATH or any(len(os.fsencode(part)) > LONGEST_NAME for part in parts):
        return "is longer than a file system takes"
    return None


def check_together(files: Mapping[str, object]) -> None:
    """A ValueError if one path is needed both as a file and as a directory."""
    for path in files:
        for parent in PurePosixPath(path).parents:
            if str(parent) in files:
                raise ValueError(f"path {path!r}: {str(parent)!r} is a file, and would have to be a directory")


def admitted(submission: Mapping[str, bytes], suite: Mapping[str, bytes]) -> dict[str, bytes]:
    """The submission's files without those that would take the place of the suite's, or configure the run."""
    modules = {path.removesuffix(".py") for path in suite if path.endswith(".py")}
    folders = {str(parent) for path in suite for parent in PurePosixPath(path).parents}
    return {
        path: data
        for path, data in submission.items()
        if path not in suite and path not in folders and not _interferes(PurePosixPath(path), suite, modules)
    }


def _interferes(path: PurePosixPath, suite: Mapping[str, bytes], modules: set[str]) -> bool:
    if path.name in CONFIGURES or path.suffix == ".pyc" or "__pycache__" in path.parts:
        return True
    if path.name == "entry_points.txt" and path.parent.suffix in (".dist-info", ".egg-info"):
        return True  # pytest loads the plugins that it names
    # Python takes a package, or a compiled module, before a plain one of the same name.
    module = str(path.parent / path.name.partition(".")[0]) if path.suffix in (".so", ".pyd") else ""
    parents = [str(parent) for parent in path.parents]
    return module in modules or any(parent in modules or parent in suite for parent in parents)


def read(path: Path) -> dict[str, bytes]:
    """A file under its own name, or a directory without what its `.gitignore` files name.

    Raises:
        ValueError: it is not there, a link leads out of it, or it is too large.
    """
    if path.is_file():
        root, names = path.parent, iter([path.name])
    elif path.is_dir():
        root, names = path, _walk(path)
    else:
        raise ValueError(f"path {str(path)!r}: no such file or directory")
    found: dict[str, bytes] = {}
    size = 0
    for name in names:
        target = root / name
        if path.is_dir() and target.is_symlink() and not _inside(target, root):
            raise ValueError(f"path {name!r}: is a link that leads out of {str(path)!r}")
        if not target.is_file():
            continue
        size += target.stat().st_size
        if size > MOST_BYTES:
            raise ValueError(f"path {str(path)!r}: {TOO_MUCH}; name a smaller directory")
        found[name] = target.read_bytes()
    return found


def _inside(target: Path, root: Path) -> bool:
    # Not Path.resolve, which trips over a link to itself.
    return Path(os.path.realpath(target)).is_relative_to(os.path.realpath(root))


def _walk(root: Path) -> Iterator[str]:
    """Relative paths of the files that are not ignored, sorted. A link is a file, as it is for git."""
    never = list(_rules(NEVER_TAKEN))
    layers: list[tuple[str, list[_Rule]]] = []
    for folder, folders, names in os.walk(root):
        relative = os.path.relpath(folder, root)
        prefix = "" if relative == "." else relative.replace(os.sep, "/") + "/"
        layers = [layer for layer in layers if prefix.startswith(layer[0])]
        if ".gitignore" in names:
            text = (Path(folder) / ".gitignore").read_text("utf-8", "replace")
            layers.append((prefix, list(_rules(text.splitlines()))))
        asked = [*layers, ("", never)]
        names += [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(name for name in set(folders) - set(names) if not _ignored(asked, prefix + name, True))
        for name in sorted(names):
            if not _ignored(asked, prefix + name, False):
                yield prefix + name


def _rules(lines: Iterable[str]) -> Iterator[_Rule]:
    for line in lines:
        stripped = line.rstrip()
        for_folders = stripped.endswith("/")
        with contextlib.suppress(ValueError):  # what is no pattern matches nothing
            for pattern in pathspec.GitIgnoreSpec.from_lines([stripped[:-1] if for_folders else line]).patterns:
                yield for_folders, pattern


def _ignored(layers: list[tuple[str, list[_Rule]]], path: str, is_folder: bool) -> bool:
    """The last line of the deepest `.gitignore` that speaks of this very path decides, as in git.

    What is said of a folder above it was asked when we came to that folder. A pattern matches what is
    below a folder, too, and then tells by the one group in it, the slash: such matches do not count.
    """
    for prefix, rules in reversed(layers):
        for for_folders, pattern in reversed(rules):
            if is_folder or not for_folders:
                found = pattern.match_file(path.removeprefix(prefix))
                if found is not None and not any(found.match.groups()):
                    return bool(pattern.include)
    return False


def read_ref(repository: Path, reference: str) -> dict[str, bytes]:
    """The files of `REF:PATH` in a repository, by their path from its top.

    Raises:
        ValueError: there is no such repository, ref or path.
    """
    ref, colon, path = reference.partition(":")
    if not ref or not colon:
        raise ValueError(f"{reference!r} is not REF:PATH, e.g. main:tests")
    folder = repository if repository.is_dir() else repository.parent
    top = Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip())
    listed = _git(top, "ls-tree", "-r", "-z", "--full-tree", ref, "--", path or ".")
    found = {}
    for entry in listed.split(b"\0"):
        if not entry:
            continue
        details, _, name = entry.partition(b"\t")
        mode, kind, digest = details.decode().split()
        if kind == "blob" and mode != "120000":
            found[os.fsdecode(name)] = _git(top, "cat-file", "blob", digest)
    if not found:
        raise ValueError(f"{reference!r}: {path!r} holds no file at {ref!r}")
    return found


def _git(folder: Path, *arguments: str) -> bytes:
    # The repository is the candidate's: none of its hooks, filters or configured programs may run.
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        raise ValueError("git is not installed, and a suite was to be taken from a git ref") from None
    if done.returncode:
        raise ValueError(f"git {arguments[0]}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout
