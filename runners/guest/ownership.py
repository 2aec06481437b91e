"""Whose something is: the submission's, the suite's or a library's. Read from where its code comes from."""

from __future__ import annotations

import sys
import types

from . import pristine

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from .failures import Describer


def file_of(thing: Any) -> str:
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    return getattr(module, "__file__", None) or "<unknown>"


class Ownership:
    def __init__(self, describe: Describer) -> None:
        self._describe = describe

    def of(self, thing: Any) -> str:
        """`suite`, `submission` or `library`, by the file that a module, or a class, comes from."""
        name = thing.__name__ if isinstance(thing, types.ModuleType) else type(thing).__module__
        if name.partition(".")[0] in pristine.JUDGES:
            return "library"
        module = thing if isinstance(thing, types.ModuleType) else sys.modules.get(name)
        return self._describe.owner(getattr(module, "__file__", None) or "<unknown>")

    def place_of(self, value: Any) -> str | None:
        """`path:line` in the submission where a value was made; None if it was not made there."""
        code = pristine.code_of(value)
        if code is not None:
            path = self._describe.relative(code.co_filename)
            if path is not None:
                return None if path in self._describe.suite else f"{path}:{code.co_firstlineno}"
            if not code.co_filename.startswith("<"):
                return None
        file = file_of(value if isinstance(value, type) else type(value))
        if self._describe.owner(file) == "submission":
            return self._describe.relative(file)
        space = getattr(value, "__globals__", None)
        if isinstance(space, dict) and self._describe.owner(str(space.get("__file__", "<unknown>"))) == "submission":
            return self._describe.relative(str(space["__file__"]))
        return None

    def is_known(self, value: Any, name: str) -> bool:
        """Whether a library's code made it, and so no one's trick, where something else had that name.

        Some libraries adapt others. Python's own, pytest and the suite do not: a function of theirs that
        stands in another's place was put there.
        """
        code = pristine.code_of(value)
        if code is None or code.co_filename.startswith("<") or self.place_of(value) is not None:
            return False
        if f"_{code.co_name}".endswith(f"_{name}"):
            return True
        return self._describe.relative(code.co_filename) is None and not pristine.is_basic(code.co_filename)

    def is_judge(self, thing: Any) -> bool:
        """Whether a function, class or object is pytest's, or the suite's."""
        kind = thing if isinstance(thing, (type, types.FunctionType)) else type(thing)
        name = getattr(kind, "__module__", None) or ""
        if name.partition(".")[0] in pristine.JUDGES:
            return True
        return self._describe.owner(file_of(kind)) == "suite"
