"""Imports the guest's modules from memory: a read-only sandbox has no place for them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

PACKAGE = "reproof_guest"
sources: dict[str, str] = {}


class Importer(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.rpartition(".")[0] == PACKAGE and name.rpartition(".")[2] in sources:
            return importlib.machinery.ModuleSpec(name, self, origin=f"<{name}>")
        return None

    def get_source(self, name: str) -> str:
        return sources[name.rpartition(".")[2]]

    def is_package(self, name: str) -> bool:
        return False

    def exec_module(self, module: ModuleType) -> None:
        code = compile(self.get_source(module.__name__), f"<{module.__name__}>", "exec")
        exec(code, module.__dict__)  # noqa: S102  # our own source, as every import does


def install(guest_sources: Mapping[str, str]) -> None:
    sources.update(guest_sources)
    sys.meta_path.insert(0, Importer())
