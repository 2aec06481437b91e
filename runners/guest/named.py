"""Classes that both sides have, and that therefore cross by name."""

from __future__ import annotations

import _collections_abc as abstract
import builtins
import importlib
import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

_BUILTIN: dict[Any, str] = {found: name for name, found in vars(builtins).items() if isinstance(found, type)}
_BUILTIN[type(None)] = "NoneType"
_BY_NAME = {name: found for found, name in _BUILTIN.items()}
OF_MODULES: dict[str, tuple[str, ...]] = {
    "collections": ("OrderedDict", "defaultdict", "Counter", "deque"),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "pathlib": ("PosixPath", "PurePosixPath", "PureWindowsPath"),
    "uuid": ("UUID",),
}
"""Known by their names, so that none of these modules is imported before it is needed."""

STANDARD = frozenset(
    getattr(sys, "stdlib_module_names", None)
    or [*sys.builtin_module_names, *[name.partition(".")[0] for name in os.listdir(os.path.dirname(os.__file__))]]
)
"""The modules that Python brings itself."""

EXCEPTION_ATTRIBUTES: dict[type[BaseException], tuple[str, ...]] = {
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
    OSError: ("errno", "strerror", "filename", "filename2"),
    SyntaxError: ("msg", "lineno", "offset", "text"),
    SystemExit: ("code",),
    StopIteration: ("value",),
}
"""What an exception of Python's own holds beside its arguments."""


ABSTRACT: tuple[Any, ...] = (
    *(abstract.AsyncGenerator, abstract.Generator, abstract.Sequence, abstract.MutableSequence, abstract.Set),
    *(abstract.MutableSet, abstract.Mapping, abstract.MutableMapping, abstract.MappingView, abstract.KeysView),
    *(abstract.ItemsView, abstract.ValuesView, abstract.Coroutine),
)
"""What a class is only if it says so. What it is by its methods alone (Iterable, Sized, ...), a stand-in is, too."""


COROUTINE = "Coroutine"


VALUES: dict[Any, Any] = {
    int: lambda value: int.__getnewargs__(value)[0],
    float: lambda value: float.__getnewargs__(value)[0],
    complex: lambda value: complex(*complex.__getnewargs__(value)),  # type: ignore[attr-defined]
    str: lambda value: str.__getnewargs__(value)[0],
    bytes: lambda value: bytes.__getnewargs__(value)[0],
    tuple: lambda value: tuple(tuple.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}
"""Immutable types, and the plain value that an instance of a subclass is, whatever its methods say."""


def value_type(kind: type[Any]) -> Any:
    """Which of them it is a subclass of; None if it is of none."""
    return next((base for base in VALUES if issubclass(kind, base)), None)


def of_class(kind: type[Any]) -> tuple[str, str] | None:
    """Module and name, for builtin classes and those of the plain kinds."""
    try:
        builtin = _BUILTIN.get(kind)
    except TypeError:  # a metaclass without a hash
        return None
    if builtin is not None:
        return "builtins", builtin
    module, name = getattr(kind, "__module__", None), getattr(kind, "__name__", None)
    top = module.partition(".")[0] if type(module) is str else ""
    if top not in OF_MODULES or name not in OF_MODULES[top]:
        return None
    return (top, name) if getattr(sys.modules.get(top), name, None) is kind else None


def known(module: Any, name: Any) -> Any:
    """The class of that name; a LookupError for anything but those that `of_class` names."""
    if module == "builtins":
        return _BY_NAME[name]
    if name not in OF_MODULES[module]:
        raise LookupError(name)
    return getattr(importlib.import_module(module), name)


def standard_exception(module: Any, name: Any) -> Any:
    """The exception of the standard library's that has this name, if a suite may expect it: it is imported here.

    None of unittest's: they say what has become of a test.
    """
    if type(module) is not str or type(name) is not str or module.partition(".")[0] not in STANDARD - {"unittest"}:
        return None
    kind = getattr(sys.modules.get(module), name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None


def found(module: str, name: str) -> Any:
    """Whatever has that name. For the candidate's side, which may import what it likes."""
    try:
        return known(module, name)
    except LookupError:
        pass
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value
