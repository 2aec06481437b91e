"""Test modules that come again and again, compiled once: as pytest compiles them, its rewritten asserts included.

To rewrite and compile is a sixth of a small job, and whoever trains on a suite sends it a
thousand times. What comes of it depends on nothing but the source, where it stands, and the
versions of Python and pytest. So it is done here, the second time that a suite is seen, and
sent along to guests that have the same versions. Only a judge gets it: it is the suite.
"""

from __future__ import annotations

import ast
import base64
import fnmatch
import hashlib
import importlib.util
import marshal
import platform
from collections import OrderedDict
from collections.abc import Mapping
from functools import cache
from importlib import metadata

__all__ = ["compiled"]

MOST = 1024
LARGEST = 256 * 1024
"""A larger file is left to its guest: nobody else has to wait for that."""

_known: OrderedDict[bytes, dict[str, str] | None] = OrderedDict()
"""None for those that have been seen once."""


def compiled(suite: Mapping[str, bytes], guest: Mapping[str, object]) -> dict[str, str]:
    """Files of the suite → code, for a guest that said this of itself; empty if there is nothing to be gained."""
    folder = guest.get("folder")
    if not isinstance(folder, str) or any(guest.get(name) != ours for name, ours in _versions().items()):
        return {}
    key = hashlib.sha256(repr((folder, sorted(suite.items()))).encode()).digest()
    found = _known.get(key)
    if found is None:
        found = _known[key] = _compile_all(suite, folder) if key in _known else None
    _known.move_to_end(key)
    if len(_known) > MOST:
        _known.popitem(last=False)
    return found or {}


@cache
def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "magic": importlib.util.MAGIC_NUMBER.hex(),
        "pytest": metadata.version("pytest"),
    }


def _compile_all(suite: Mapping[str, bytes], folder: str) -> dict[str, str]:
    found = {}
    for path, source in suite.items():
        name = path.rpartition("/")[2]
        if len(source) <= LARGEST and (fnmatch.fnmatch(name, "test_*.py") or fnmatch.fnmatch(name, "*_test.py")):
            try:
                found[path] = _compile(source, f"{folder}/{path}")
            except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
                pass  # its guest will tell what is wrong with it
    return found


def _compile(source: bytes, filename: str) -> str:
    from _pytest.assertion.rewrite import rewrite_asserts  # a process that verifies one thing pays for no import

    tree = ast.parse(source, filename=filename)
    rewrite_asserts(tree, source, filename)
    code = compile(tree, filename, "exec", dont_inherit=True)
    return base64.b64encode(marshal.dumps(code)).decode("ascii")
