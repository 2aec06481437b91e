"""Test modules, compiled on this side: as pytest compiles them, its rewritten asserts included.

To rewrite and compile is a sixth of a small job, and whoever trains on a suite sends it a
thousand times. What comes of it depends on nothing but the source, where it stands, and the
versions of Python and pytest. So it is done here, the second time that a suite is seen, and
sent along to guests that have the same versions. Only a judge gets it: it is the suite.

A suite that is one simple module (`simple.py`) is compiled the first time: without a session
of pytest's, and maybe without pytest, its guest has no other use for the source.
"""

from __future__ import annotations

import ast
import base64
import fnmatch
import hashlib
import importlib.util
import marshal
import platform
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata

from .contract import Job
from .guest.importer import PACKAGE
from .simple import imports_of_simple

__all__ = ["Compiled", "compiled"]

MOST = 1024
LARGEST = 256 * 1024
"""A larger file is left to its guest: nobody else has to wait for that."""


@dataclass
class Compiled:
    """What is sent along with a suite."""

    codes: dict[str, str] = field(default_factory=dict)
    """Its files' code, by path."""
    direct: bool = False
    """Whether its tests may be called without a session (`guest/direct.py`)."""


@dataclass
class _Known:
    """A suite that has been seen."""

    codes: dict[str, str] = field(default_factory=dict)
    imports: frozenset[str] | None = None
    """What it imports from the submission, if it is one simple module."""
    seen: int = 0


_known: OrderedDict[bytes, _Known] = OrderedDict()


def compiled(job: Job, guest: Mapping[str, object]) -> Compiled:
    """For a guest that said this of itself; nothing if there is nothing to be gained."""
    folder = guest.get("folder")
    if not isinstance(folder, str) or any(guest.get(name) != ours for name, ours in _versions().items()):
        return Compiled()
    key = hashlib.sha256(repr((folder, sorted(job.suite.items()))).encode()).digest()
    known = _known.setdefault(key, _Known())
    _known.move_to_end(key)
    if len(_known) > MOST:
        _known.popitem(last=False)
    known.seen += 1
    if known.seen == 1 and (path := _only_module(job.suite)) is not None:
        _compile_simple(known, path, job.suite[path], folder)
    elif known.seen == 2 and not known.codes:
        known.codes = _compile_all(job.suite, folder)
    direct = known.imports is not None and guest.get("direct") is True and _is_direct(job, known.imports)
    return Compiled(known.codes, direct)


@cache
def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "magic": importlib.util.MAGIC_NUMBER.hex(),
        "pytest": metadata.version("pytest"),
    }


def _only_module(suite: Mapping[str, bytes]) -> str | None:
    """The file of a suite that is one test module and nothing else."""
    path = next(iter(suite)) if len(suite) == 1 else "/"
    return path if "/" not in path and _is_test_module(path) and len(suite[path]) <= LARGEST else None


def _is_test_module(name: str) -> bool:
    return fnmatch.fnmatchcase(name, "test_*.py") or fnmatch.fnmatchcase(name, "*_test.py")


def _is_direct(job: Job, imports: frozenset[str]) -> bool:
    """Whether nothing but the suite itself says how this one is to be run."""
    if job.workers or job.options or job.seed or job.seat != "separate":
        return False
    if any(name.startswith(("PYTEST", "PYTHON")) for name in job.environment.variables):
        return False
    return imports <= {path.removeprefix("src/").partition("/")[0].removesuffix(".py") for path in job.submission}


def _compile_simple(known: _Known, path: str, source: bytes, folder: str) -> None:
    try:
        tree = _parsed(source, f"{folder}/{path}")
        known.imports = imports_of_simple(tree)
        if known.imports is not None:
            known.codes = {path: _compile(tree, source, f"{folder}/{path}")}
    except UNCOMPILABLE:
        known.imports = None


class _MayWarn(Exception):
    """The compiler may have something to say of it, which is for the job's report."""


_TALKATIVE = re.compile(rb"\\[^'\"abfnrtvx0\r\nNuU]|\\0\d|\d(?:and|else|for|if|in|is|not|or)\b")
"""Escapes that mean nothing, or not the same everywhere; a number with a word at its end."""
_ESCAPES_IN_BYTES = re.compile(rb"\\[NuU](?s:.*)\b[bB][rR]?['\"]|\b[bB]['\"](?s:.*)\\[NuU]")
_DISPLAYS = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr, ast.GeneratorExp)


def _may_warn(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        literal = any(isinstance(side, _DISPLAYS) and not _is_single(side) for side in sides)
        return literal and any(isinstance(operator, (ast.Is, ast.IsNot)) for operator in node.ops)
    if isinstance(node, ast.Assert):
        return isinstance(node.test, ast.Tuple)
    if isinstance(node, ast.Call):
        return isinstance(node.func, _DISPLAYS)
    return isinstance(node, ast.Subscript) and isinstance(node.value, (*_DISPLAYS, ast.Lambda))


def _is_single(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (bool, type(...))))


def _compile_all(suite: Mapping[str, bytes], folder: str) -> dict[str, str]:
    found = {}
    for path, source in suite.items():
        if len(source) <= LARGEST and _is_test_module(path.rpartition("/")[2]):
            filename = f"{folder}/{path}"
            try:
                found[path] = _compile(_parsed(source, filename), source, filename)
            except UNCOMPILABLE:
                pass
    return found


UNCOMPILABLE = (SyntaxError, ValueError, RecursionError, MemoryError, SystemError, _MayWarn)
"""Its guest will tell what is wrong with such a file, and a warning to whom it may concern."""


def _parsed(source: bytes, filename: str) -> ast.Module:
    text = source.replace(rb"\\", b"")
    if _TALKATIVE.search(text) or _ESCAPES_IN_BYTES.search(text):
        raise _MayWarn
    return ast.parse(source, filename=filename)


def _compile(tree: ast.Module, source: bytes, filename: str) -> str:
    from _pytest.assertion.rewrite import rewrite_asserts  # a process that verifies one thing pays for no import

    if any(map(_may_warn, ast.walk(tree))):
        raise _MayWarn
    rewrite_asserts(tree, source, filename)
    for node in tree.body:
        if isinstance(node, ast.Import) and node.names[0].asname == "@pytest_ar":
            node.names[0].name = f"{PACKAGE}.explaining"  # which needs pytest only when an assert has failed
    code = compile(tree, filename, "exec", dont_inherit=True)
    return base64.b64encode(marshal.dumps(code)).decode("ascii")
