"""Imports the guest's modules from memory: a read-only sandbox has no place for them."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import marshal
import sys
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, ModuleType

PACKAGE = "reproof_guest"
names: frozenset[str] = frozenset()
_compiled: dict[str, bytes] = {}
_packed = b""


@functools.lru_cache(maxsize=None)  # a Python that is not like ours asks for each module
def sources() -> dict[str, str]:
    """All modules as text."""
    found: dict[str, str] = json.loads(zlib.decompress(_packed))
    return found


class Importer(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.rpartition(".")[0] == PACKAGE and name.rpartition(".")[2] in names:
            return importlib.machinery.ModuleSpec(name, self, origin=f"<{name}>")
        return None

    def get_source(self, name: str) -> str:
        return sources()[name.rpartition(".")[2]]

    def get_code(self, name: str) -> CodeType:
        ready = _compiled.get(name.rpartition(".")[2])
        if ready is None:
            return compile(self.get_source(name), f"<{name}>", "exec")
        code: CodeType = marshal.loads(ready)  # noqa: S302  # from our own host
        return code

    def is_package(self, name: str) -> bool:
        return False

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102  # our own, as every import does


def install(magic: str, sizes: Mapping[str, int], codes: bytes, packed: bytes) -> None:
    """Know the guest's modules; compiled ones are taken if this Python is of the kind that compiled them."""
    global names, _packed
    _packed = packed
    if magic == importlib.util.MAGIC_NUMBER.hex():
        data, start = zlib.decompress(codes), 0
        for name, size in sizes.items():
            _compiled[name] = data[start : start + size]
            start += size
    names = frozenset(_compiled or sources())
    sys.meta_path.insert(0, Importer())


class Meaning(importlib.abc.MetaPathFinder):
    """Finds modules of the environment that a submission has files of the same name for."""

    def __init__(self, names: frozenset[str], path: Sequence[str]) -> None:
        self._names, self._path = names, path

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if path is not None or name not in self._names:
            return None
        return importlib.machinery.PathFinder.find_spec(name, self._path, target)


def keep_meaning(names: frozenset[str], path: Sequence[str]) -> None:
    """Let these names mean what they mean on this path, whatever comes before it later."""
    if names:
        sys.meta_path.insert(0, Meaning(names, path))
