"""What decides about tests, as it was before there was a candidate: pytest, pluggy, builtins and the like.

`keep` remembers every function and class of these modules, and every method of their classes.
`changes` names those that are others now. Replacing one of them is how most cheats begin.

To look at an object is to count a reference to it, and so to copy a page that a fork shares: all of
them together cost as much as two tests. Up to 3.12 CPython gives a dict another version with each
change, so a namespace whose version is the old one need not be looked at; unless someone has been
at raw memory, who could change anything.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import operator
import os
import re
import sys
import types

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

JUDGES = ("_pytest", "pluggy", "pytest", "unittest", "hypothesis", "_hypothesis_pytestplugin", "reproof_guest")
"""Packages that have no use for a candidate's changes."""
_DECIDES = {
    "_pytest": tuple(
        "_pytest." + name
        for name in (
            *("_code.code", "approx", "assertion", "assertion.rewrite", "assertion.util", "config", "fixtures"),
            *("main", "mark.structures", "nodes", "outcomes", "python", "python_api", "raises", "reports", "runner"),
            *("skipping", "subtests", "unittest"),
        )
    ),
    "unittest": ("unittest", "unittest.case"),
    "hypothesis": (
        *("hypothesis", "hypothesis._settings", "hypothesis.control", "hypothesis.core", "hypothesis.errors"),
        *("hypothesis.internal.conjecture.data", "hypothesis.internal.conjecture.engine"),
        *("hypothesis.internal.conjecture.providers", "hypothesis.internal.conjecture.utils"),
        *("hypothesis.strategies._internal." + name for name in ("collections", "lazy", "misc", "numbers")),
        *("hypothesis.strategies._internal." + name for name in ("strategies", "strings")),
    ),
}
"""Of these packages, the modules that decide: to look at all is to copy all that a fork shares."""
SHARED = ("builtins", "operator", "json", "json.decoder", "json.encoder", "math", "os", "random", "re", "time")
"""Modules that tests and candidates use alike."""
NOTEWORTHY = ("collections", "copy", "datetime", "functools")
"""Modules of which a change is a suspicion only: honest programs are known to adapt them."""

HARMLESS = {
    *("builtins." + name for name in ("print", "input", "open", "help", "exit", "quit", "breakpoint", "__import__")),
    *("builtins." + name for name in ("copyright", "credits", "license", "__build_class__", "_")),
    *("json.encoder.JSONEncoder.default", "time.sleep", "time.tzset"),
    *("hypothesis.settings.default",),
}
"""Replaced by honest programs, too; a suspicion at most."""
ONLY = {
    "os": ("write", "read", "getpid", "_exit", "stat", "fstat"),
    "re": ("search", "match", "fullmatch", "_compile"),
}
"""Of these modules only what pytest itself goes by."""

KINDS = (types.FunctionType, type, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_MEMBERS = (*KINDS, property, classmethod, staticmethod)

HEAP_TYPE = 1 << 9
_is, _map, _all, _len, _set = operator.is_, map, all, len, set
_built_in = frozenset(vars(builtins))


_VERSION = 24
"""Where a dict's version stands in it: behind its reference count, its type and its size."""


_read: Callable[[ctypes.c_uint64], int] = vars(ctypes.c_uint64.__mro__[1])["value"].__get__
"""From the class behind it, which nobody can change."""


def _version_of(space: Any) -> ctypes.c_uint64:
    whole = space if isinstance(space, dict) else gc.get_referents(space)[0]
    return ctypes.c_uint64.from_address(id(whole) + _VERSION)


def _has_versions() -> bool:
    """Whether this Python's dicts have versions, there, that change with each change and with nothing else."""
    if (
        sys.implementation.name != "cpython"
        or not (3, 9) <= sys.version_info < (3, 13)
        or ctypes.sizeof(ctypes.c_void_p) != 8
    ):
        return False
    space: dict[str, Any] = {"a": object()}
    version = _version_of(space)
    found = [_read(version)]
    for change in (lambda: space.update(a=object()), lambda: space.update(b=1), lambda: space.pop("b")):
        change()
        found.append(_read(version))
    same = _read(version) == found[-1] and space.get("a") and _read(version) == found[-1]
    return bool(same) and len(set(found)) == len(found)


class Kept:
    """One namespace: a module's, or a class's."""

    __slots__ = ("added", "get", "label", "names", "package", "size", "space", "values")

    def __init__(self, label: str, space: Any, names: list[str]) -> None:
        self.label, self.space, self.get = label, space, space.get
        self.package = label.partition(".")[0]
        self.names = tuple(names)
        self.values = tuple(map(space.get, names))
        self.size = len(space)
        self.added = frozenset(space)

    def is_as_it_was(self) -> bool:
        return identical(_map(self.get, self.names), self.values)

    def changes(self) -> Iterator[Change]:
        if not self.is_as_it_was():
            for name, before in zip(self.names, self.values):  # noqa: B905  # 3.9
                now = self.get(name)
                if now is not before:
                    yield _change(f"{self.label}.{name}", now)
        if _len(self.space) != self.size:
            yield from self._additions()

    def _additions(self) -> Iterator[Change]:
        """In a class, what answers for another attribute changes it; in a module, a name that hides a built-in one."""
        of_class = isinstance(self.space, types.MappingProxyType)
        for name in _set(self.space) - self.added:
            now = self.get(name)
            if hasattr(type(now), "__get__") if of_class else name in _built_in:
                yield _change(f"{self.label}.{name}", now)


def of_class(kind: type[Any]) -> Iterator[Kept]:
    """A class that was made in Python, and those that it is made of."""
    for base in kind.__mro__:
        if base.__flags__ & HEAP_TYPE:
            members = vars(base)
            own = [member for member, value in members.items() if isinstance(value, _MEMBERS)]
            yield Kept(f"{base.__module__}.{base.__qualname__}", members, own)


class Change:
    """Something that is not what it was."""

    __slots__ = ("name", "now", "proof")

    def __init__(self, name: str, now: Any, proof: bool) -> None:
        self.name, self.now, self.proof = name, now, proof


class Pristine:
    def __init__(self) -> None:
        self.modules: dict[str, types.ModuleType] = {}
        self._kept: list[Kept] = []
        self._seen: set[int] = set()
        for name, module in list(sys.modules.items()):
            if isinstance(module, types.ModuleType) and _counts(name):
                self._keep(name, module)
        self._seen.clear()
        # Side by side, for to look at them is to copy the pages that they stand on.
        self._versions = [_version_of(kept.space) for kept in self._kept] if _has_versions() else []
        self._were = tuple(map(_read, self._versions))

    def _keep(self, name: str, module: types.ModuleType) -> None:
        self.modules[name] = module
        space = vars(module)
        names = [key for key, value in space.items() if isinstance(value, KINDS)]
        names = [key for key in names if key in ONLY.get(name, names)]
        self._kept.append(Kept(name, space, names))
        if name == "builtins" or name in ONLY:
            return  # classes of theirs cannot be changed, or are no one's business
        for key in names:
            found = space[key]
            if isinstance(found, type) and found.__module__ == name and id(found) not in self._seen:
                self._seen.add(id(found))
                members = vars(found)
                own = [member for member, value in members.items() if isinstance(value, _MEMBERS)]
                self._kept.append(Kept(f"{name}.{key}", members, own))

    def changes(self, used: Callable[[str], bool], all_of_them: bool) -> Iterator[Change]:
        """In modules that are `used`, by their first name; `all_of_them` if versions may lie."""
        known: dict[str, bool] = {}
        looked_at: Iterable[Kept] = self._kept
        if self._versions and not all_of_them:
            versions = enumerate(zip(map(_read, self._versions), self._were))  # noqa: B905  # 3.9
            looked_at = [self._kept[index] for index, (now, before) in versions if now != before]
        for kept in looked_at:
            if kept.package not in known:
                known[kept.package] = used(kept.package)
            if known[kept.package]:
                yield from kept.changes()


def _counts(name: str) -> bool:
    package = name.partition(".")[0]
    if package == "reproof_guest":
        return name == "reproof_guest.plugin"
    if package in _DECIDES:
        return name in _DECIDES[package]
    return package in JUDGES or name in SHARED or name in NOTEWORTHY


def _change(name: str, now: Any) -> Change:
    proof = name not in HARMLESS and not any(name.startswith(module + ".") for module in NOTEWORTHY)
    return Change(name, now, proof)


kept: Pristine | None = None
"""Taken once for all jobs of a warm guest."""


def keep() -> Pristine:
    return kept if kept is not None else Pristine()


def has_wrong_patterns() -> bool:
    """Whether `re` has anything under another pattern than it was made of: `pytest.raises(match=...)` would take it."""
    known = [*getattr(re, "_cache", {}).items(), *getattr(re, "_cache2", {}).items()]
    return any(key[1] != made.pattern for key, made in known)


bases_of: Any = type.__dict__["__mro__"].__get__
_space_of: Any = type.__dict__["__dict__"].__get__


def equality_of(kind: type[Any]) -> tuple[type[Any], Any]:
    """What its objects are compared by, whatever its metaclass says, and the class that says so."""
    return next((base, _space_of(base)["__eq__"]) for base in bases_of(kind) if "__eq__" in _space_of(base))


_LIBRARY = os.path.dirname(os.__file__) + os.sep
_ADDED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def is_basic(filename: str) -> bool:
    """Whether code is the standard library's, or of what tests are run with."""
    if any(f"{os.sep}{package}{os.sep}" in filename for package in JUDGES):
        return True
    return filename.startswith(_LIBRARY) and not any(folder in filename for folder in _ADDED)


def identical(now: Iterable[Any], before: Iterable[Any]) -> bool:
    """Whether each of as many is what it was."""
    return _all(_map(_is, now, before))


def code_of(value: Any) -> types.CodeType | None:
    """The code behind a function, method, property or class, however it is wrapped; None if it is not in Python."""
    unwrap: tuple[Callable[[Any], Any], ...] = (
        lambda found: found.__func__,
        lambda found: found.fget,
        lambda found: found.func,
        lambda found: found.__call__.__func__,
    )
    for _ in range(8):
        code = getattr(value, "__code__", None)
        if isinstance(code, types.CodeType):
            return code
        for step in unwrap:
            try:
                value = step(value)
                break
            except AttributeError:
                continue
        else:
            return None
    return None
