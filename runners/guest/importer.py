"""Imports the guest's modules from memory: a read-only sandbox has no place for them."""

from __future__ import annotations

import importlib.machinery
import marshal
import sys
import zlib

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType, ModuleType

PACKAGE = "reproof_guest"
names: frozenset[str] = frozenset()
_compiled: Mapping[str, bytes] = {}
_packed = b""
_sources: dict[str, str] = {}


def sources() -> dict[str, str]:
    """All modules as text."""
    if not _sources:
        _sources.update(marshal.loads(zlib.decompress(_packed)))  # noqa: S302  # from our own host
    return _sources


class Importer:
    """Finds and loads them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.rpartition(".")[0] == PACKAGE and name.rpartition(".")[2] in names:
            return importlib.machinery.ModuleSpec(name, self, origin=f"<{name}>")  # type: ignore[arg-type]
        return None

    def get_source(self, name: str) -> str:
        return sources()[name.rpartition(".")[2]]

    def get_code(self, name: str) -> CodeType:
        ready = _compiled.get(name.rpartition(".")[2])
        if ready is None:
            return compile(self.get_source(name), f"<{name}>", "exec")
        code: CodeType = marshal.loads(zlib.decompress(ready))  # noqa: S302  # from our own host
        return code

    def is_package(self, name: str) -> bool:
        return False

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102  # our own, as every import does


def install(codes: Mapping[str, bytes], packed: bytes) -> None:
    """Know the guest's modules; `codes` are there if this Python is of the kind that compiled them."""
    global names, _compiled, _packed
    _packed, _compiled = packed, codes
    names = frozenset(codes or sources())
    sys.meta_path.insert(0, Importer())


class _Watching:
    """Finds a module as it would be found without this, and does something when it has been imported."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._then()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Do it now if this module is here already, or else as soon as someone has imported it."""
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Watching(name, then))


class Meaning:
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
