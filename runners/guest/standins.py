"""What the suite gets instead of the candidate's modules, classes and objects.

The judge's side of the seat `separate`. A stand-in forwards what is done with it, with one
exception that is the point of it all: **a comparison between a stand-in and a plain value is
decided here**, and the candidate is not asked. Its `__eq__` never sees what a test expects.
Only where both sides are the candidate's (`Vector(1, 2) == Vector(1, 2)`) is it asked about
itself, and that is counted.

A stand-in's class is made here from a description: the name, the special methods, and those
bases that tests rely on: other classes of the candidate's, Python's own exceptions (so that
`except` and `pytest.raises` work) and immutable types, whose value is copied (so that a named
tuple is a tuple, and an `IntEnum` member an int).
"""

from __future__ import annotations

import builtins
import sys
import types
from _collections_abc import Mapping

from . import named
from .crossing import Garbled
from .forwarding import SPECIAL_METHODS
from .peer import Ref

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HIDDEN = (
    *("pytest", "_pytest", "__pytest", "__test__", "__tracebackhide__", "is_hypothesis", "_hypothesis", "_reproof"),
    "__array",
)
"""Attributes by which pytest and Hypothesis know their own, and NumPy what it reads from memory, at an address that
the object tells, or lets decide of an `allclose`: nothing of the candidate's is that."""


OUR_OWN = ("_reproof", "__file__", "__path__", "__cached__", "__warningregistry__", "__wrapped__")
"""What Python itself looks for in modules; inspect does so in all of them. It is no matter of the candidate's."""


CATCHES_FAILURES = (AssertionError, Exception, BaseException)


def look_up(self: Any, name: str) -> Any:
    if name.startswith(HIDDEN):
        raise AttributeError(name)
    ref: Ref = self._reproof
    value = ref.peer.ask("get", self, name)
    if ref.origin is not None:
        found = getattr(value, "_reproof", None) if isinstance(value, (StandIn, StandInType, StandInModule)) else None
        if isinstance(found, Ref):
            found.named = not isinstance(self, StandIn)  # what an object has is its answer
            found.origin = found.origin or (*ref.origin, name)
        elif any(value is kind for kind in CATCHES_FAILURES):
            what = f"the submission's `{name}` is {value.__name__}: an `except` of it catches what fails a test"
            ref.peer.suspect(what)  # type: ignore[attr-defined]
    return value


class StandInType(type):
    """The class of a candidate's class."""

    _reproof: Ref

    def __call__(cls, /, *operands: Any, **named: Any) -> Any:
        return cls._reproof.peer.ask("call", cls, *operands, **named)

    def __getattr__(cls, name: str) -> Any:
        return look_up(cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("_reproof") or name in ("__abstractmethods__", "__doc__", "__module__", "__qualname__"):
            super().__setattr__(name, value)
            return
        peer, before = cls._reproof.peer, type.__getattribute__(cls, "__dict__").get(name)
        if isinstance(value, MethodName):  # what a patch found here is put back
            value = value.original
        elif isinstance(before, MethodName):
            before.original = peer.ask("static", cls, name)
        peer.ask("set", cls, name, value)

    def __delattr__(cls, name: str) -> None:
        cls._reproof.peer.ask("del", cls, name)

    def __dir__(cls) -> Any:
        return cls._reproof.peer.ask("dir", cls)

    def __getitem__(cls, key: Any) -> Any:
        return cls._reproof.peer.ask("getitem", cls, key)


class EnumStandInType(StandInType):
    """The class of a candidate's class that can be iterated over, as enumerations can."""

    __iter__ = SPECIAL_METHODS["__iter__"]
    __len__ = SPECIAL_METHODS["__len__"]
    __contains__ = SPECIAL_METHODS["__contains__"]

    def __bool__(cls) -> bool:
        return True


class StandIn(metaclass=StandInType):
    """Something of the candidate's."""

    __slots__ = ()  # what has some goes together with neither exceptions nor ints

    _reproof: Ref

    def __getattr__(self, name: str) -> Any:
        return look_up(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") and isinstance(self, BaseException):
            object.__setattr__(self, name, value)  # its traceback, cause and context are this side's
        else:
            self._reproof.peer.ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._reproof.peer.ask("del", self, name)

    def __repr__(self) -> str:
        return self._reproof.peer.in_words("repr", self)  # type: ignore[attr-defined,no-any-return]

    def __str__(self) -> str:
        return self._reproof.peer.in_words("str", self)  # type: ignore[attr-defined,no-any-return]

    def __format__(self, how: str) -> str:
        if self._reproof.told and not is_known(self):
            raise no_plain_value(self)
        return self._reproof.peer.in_words("format", self, how)  # type: ignore[attr-defined,no-any-return]

    __dir__ = SPECIAL_METHODS["__dir__"]

    def __copy__(self) -> Any:
        return self._reproof.peer.ask("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._reproof.peer.ask("deepcopy", self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an object of the candidate's cannot be pickled here")


class MethodName:
    """Among the names of a class, a method: found without asking, since most are looked up only to be called."""

    __slots__ = ("_name", "original")

    def __init__(self, name: str) -> None:
        self._name = name
        self.original: Any = None
        """What it was in the candidate's process before a test replaced it."""

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return look_up(kind, self._name) if owner is None else Method(owner, self._name)


class PlainName(MethodName):
    """A name that a plain kind has, in a class that is made of it: an object which the suite has not made by the
    name of its class is what it holds, and no `startswith` of the candidate's hears what is expected."""

    __slots__ = ("_is_method",)

    def __init__(self, name: str, is_method: bool) -> None:
        super().__init__(name)
        self._is_method = is_method

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return look_up(kind, self._name)
        known = is_known(owner)
        if known or not self._is_method:  # a named tuple may have a `count`, which is no method
            value = look_up(owner, self._name)
            if known or not callable(value):
                return value
        return getattr(plain(owner), self._name)


class Doc:
    """Among the names of a class, its documentation: a function is documented, and not what functions are."""

    __slots__ = ("_of_class",)

    def __init__(self, of_class: str | None) -> None:
        self._of_class = of_class

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self._of_class if owner is None else look_up(owner, "__doc__")


class Method:
    """A method of a candidate's object, bound to it: what it is called for goes in one message."""

    __slots__ = ("_name", "_owner")

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    def __call__(self, /, *operands: Any, **named: Any) -> Any:
        owner = self._owner
        return owner._reproof.peer.asked("method", (owner, self._name, *operands), named)

    def __getattr__(self, name: str) -> Any:
        return look_up(self._resolved(), name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Method) and other._owner is self._owner and other._name == self._name

    def __hash__(self) -> int:
        return hash((id(self._owner), self._name))

    def __repr__(self) -> str:
        return repr(self._resolved())

    @property
    def __self__(self) -> Any:
        return self._owner

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return look_up(self._resolved(), "__doc__")

    def _resolved(self) -> Any:
        return look_up(self._owner, self._name)

    def words(self) -> tuple[Any, str]:
        return self._owner, self._name


class Names(Mapping):  # type: ignore[type-arg]
    """The names of a module in the other process, for those who look at `module.__dict__` to patch it."""

    def __init__(self, module: StandInModule) -> None:
        self._module = module

    def __getitem__(self, name: str) -> Any:
        try:
            return look_up(self._module, name)
        except AttributeError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(dir(self._module))

    def __len__(self) -> int:
        return len(dir(self._module))


OF_EVERY_MODULE = frozenset((*vars(types.ModuleType("any")), "__builtins__", "__file__", "__path__", "__cached__"))
_BUILT_IN = frozenset(name for name in vars(builtins) if not name.startswith("_"))


def _names_in(code: types.CodeType) -> set[str]:
    """What a program calls by name, its functions included."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))


def _names(told: Any) -> Any:
    """Only what is exactly a list of texts: others could say one thing to us and another to Python."""
    if type(told) not in (list, tuple) or not all(type(name) is str for name in told):
        raise TypeError("what a module exports is not a list of names")
    return told


class StandInModule(types.ModuleType):
    """A module of the submission."""

    _reproof: Ref
    __dict__ = property(Names)
    __doc__ = property(lambda self: look_up(self, "__doc__"))

    def __getattr__(self, name: str) -> Any:
        if name in OUR_OWN:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} here")
        return self._exported(sys._getframe(1)) if name == "__all__" else look_up(self, name)

    def _exported(self, importer: types.FrameType) -> Any:
        """What `from solution import *` brings: nothing of what every module has, or what the suite has by then.

        Else a candidate that offers `math`, `pytest` or `__builtins__` would decide what the suite means by that.
        """
        try:
            names = _names(look_up(self, "__all__"))
        except AttributeError:
            # Python would otherwise look into this module's own, empty namespace
            names = [name for name in _names(self._reproof.peer.ask("dir", self)) if not name.startswith("_")]
        said = _names_in(importer.f_code)
        self._reproof.peer.unnamed.update((self.__name__, name) for name in names if name not in said)  # type: ignore[attr-defined]
        bound = importer.f_globals if importer.f_locals is importer.f_globals else {}
        names = [name for name in names if name.isidentifier() and name not in OF_EVERY_MODULE and name not in bound]
        for name in sorted(_BUILT_IN.intersection(names, said)):
            what = f"the suite's `from {self.__name__} import *` takes the submission's `{name}` for the built-in one"
            self._reproof.peer.suspect(what)  # type: ignore[attr-defined]
        return names

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or name == "_reproof" or isinstance(value, StandInModule):
            super().__setattr__(name, value)  # the import system's own business
        else:
            self._reproof.peer.ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._reproof.peer.ask("del", self, name)

    def __dir__(self) -> Any:
        return self._reproof.peer.ask("dir", self)


def plain(value: Any) -> Any:
    """What a stand-in holds, if it is one of a plain kind: an instance of a subclass of int is an int."""
    base = named.value_type(type(value))
    if base is not None:
        return named.VALUES[base](value)
    ref = value._reproof
    if ref.content is None or ref.content[0] != ref.peer.changes:  # else it could be three when counted, and then none
        content = ref.peer.ask("content", value)
        if type(content) is not type(value)._reproof_content:
            raise Garbled("content that is not of its kind")
        ref.content = ref.peer.changes, content
    return ref.content[1]


def is_known(value: Any) -> bool:
    """Whether the suite has made this object by the name of its class: then its operators are what is being tested.

    A class alone is not enough: `Solution().half(7)` may give a `Solution`.
    """
    kind = type(value)
    return value._reproof.named and not issubclass(kind, BaseException) and is_known_class(kind)


def is_known_class(kind: type[Any]) -> bool:
    for base in kind.__mro__:
        ref = vars(base).get("_reproof") if isinstance(base, StandInType) else None
        if isinstance(ref, Ref) and ref.origin is not None and ref.origin[-1][:1].isupper():
            return ref.origin not in ref.peer.unnamed  # type: ignore[attr-defined]
    return False


def no_plain_value(value: Any) -> TypeError:
    return TypeError(f"an object of the candidate's class {type(value).__name__} was expected to be a plain value")
