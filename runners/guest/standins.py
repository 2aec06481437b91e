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
import operator
import sys
import types
import weakref
from _collections import deque  # type: ignore[import-not-found]
from _collections_abc import Mapping

from . import named
from .crossing import Garbled
from .forwarding import COMPARISONS, COMPUTES, MEASURES, SPECIAL_METHODS
from .peer import Ref

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .crossing import Reader
    from .judging import Connection

HIDDEN = (
    *("pytest", "_pytest", "__pytest", "__test__", "__tracebackhide__", "is_hypothesis", "_hypothesis", "_reproof"),
    "__array",
)
"""Attributes by which pytest and Hypothesis know their own, and NumPy what it reads from memory, at an address that
the object tells, or lets decide of an `allclose`: nothing of the candidate's is that."""


OUR_OWN = ("_reproof", "__file__", "__path__", "__cached__", "__warningregistry__", "__wrapped__")
"""What Python itself looks for in modules; inspect does so in all of them. It is no matter of the candidate's."""


def _look_up(self: Any, name: str) -> Any:
    if name.startswith(HIDDEN):
        raise AttributeError(name)
    ref: Ref = self._reproof
    value = ref.peer.ask("get", self, name)
    if ref.origin is not None:
        found = getattr(value, "_reproof", None) if isinstance(value, (StandIn, StandInType, StandInModule)) else None
        if isinstance(found, Ref):
            found.named = True
            found.origin = found.origin or (*ref.origin, name)
    return value


class StandInType(type):
    """The class of a candidate's class."""

    _reproof: Ref

    def __call__(cls, /, *operands: Any, **named: Any) -> Any:
        return cls._reproof.peer.ask("call", cls, *operands, **named)

    def __getattr__(cls, name: str) -> Any:
        return _look_up(cls, name)

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
        return _look_up(self, name)

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
        if self._reproof.told and not _is_known(self):
            raise _no_plain_value(self)
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
        return _look_up(kind, self._name) if owner is None else Method(owner, self._name)


class PlainName(MethodName):
    """A name that a plain kind has, in a class that is made of it: an object which the suite has not made by the
    name of its class is what it holds, and no `startswith` of the candidate's hears what is expected."""

    __slots__ = ("_is_method",)

    def __init__(self, name: str, is_method: bool) -> None:
        super().__init__(name)
        self._is_method = is_method

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return _look_up(kind, self._name)
        known = _is_known(owner)
        if known or not self._is_method:  # a named tuple may have a `count`, which is no method
            value = _look_up(owner, self._name)
            if known or not callable(value):
                return value
        return getattr(_plain(owner), self._name)


class Method:
    """A method of a candidate's object, bound to it: what it is called for goes in one message."""

    __slots__ = ("_name", "_owner")

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    def __call__(self, /, *operands: Any, **named: Any) -> Any:
        owner = self._owner
        return owner._reproof.peer.asked("method", (owner, self._name, *operands), named)

    def __getattr__(self, name: str) -> Any:
        return _look_up(self._resolved(), name)

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
        return _look_up(self._resolved(), "__doc__")

    def _resolved(self) -> Any:
        return _look_up(self._owner, self._name)

    def words(self) -> tuple[Any, str]:
        return self._owner, self._name


class Names(Mapping):  # type: ignore[type-arg]
    """The names of a module in the other process, for those who look at `module.__dict__` to patch it."""

    def __init__(self, module: StandInModule) -> None:
        self._module = module

    def __getitem__(self, name: str) -> Any:
        try:
            return _look_up(self._module, name)
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

    def __getattr__(self, name: str) -> Any:
        if name in OUR_OWN:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} here")
        return self._exported(sys._getframe(1)) if name == "__all__" else _look_up(self, name)

    def _exported(self, importer: types.FrameType) -> Any:
        """What `from solution import *` brings: nothing of what every module has, or what the suite has by then.

        Else a candidate that offers `math`, `pytest` or `__builtins__` would decide what the suite means by that.
        """
        try:
            names = _names(_look_up(self, "__all__"))
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


# --- comparisons ----------------------------------------------------------------


def _comparison(name: str) -> Callable[..., Any]:
    decide = getattr(operator, name)

    def compare(self: Any, other: Any) -> Any:
        if isinstance(other, StandIn):
            peer = self._reproof.peer
            peer.comparisons += 1
            return peer.ask(name, self, other)
        return NotImplemented

    def compare_value(self: Any, other: Any) -> Any:
        return compare(self, other) if isinstance(other, StandIn) else decide(_plain(self), other)

    compare.of_value = compare_value  # type: ignore[attr-defined]
    return compare


def _plain(value: Any) -> Any:
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


_COMPARISONS = {f"__{name}__": _comparison(name) for name in COMPARISONS}


# --- operators --------------------------------------------------------------------
#
# `abs(solution.half(7) - 3.5) < 1e-9` shows what is expected to whoever subtracts. So for an object
# of a class that the suite does not know by name, an instance of a subclass of float is that float,
# one of a subclass of set is that set, and no other becomes a plain value by computing with one.


def _is_known(value: Any) -> bool:
    """Whether the suite has made this object by the name of its class: then its operators are what is being tested.

    A class alone is not enough: `Solution().half(7)` may give a `Solution`.
    """
    kind = type(value)
    if value._reproof.named and not issubclass(kind, BaseException):
        for base in kind.__mro__:
            ref = vars(base).get("_reproof") if isinstance(base, StandInType) else None
            if isinstance(ref, Ref) and ref.origin is not None and ref.origin[-1][:1].isupper():
                return ref.origin not in ref.peer.unnamed  # type: ignore[attr-defined]
    return False


def _is_theirs(others: tuple[Any, ...]) -> bool:
    return any(isinstance(other, (StandIn, StandInType)) for other in others)


def _of_scalar(name: str, base: type[Any]) -> Callable[..., Any]:
    forward, own = SPECIAL_METHODS[name], getattr(base, name, _unsupported)

    def compute(self: Any, *others: Any) -> Any:
        if _is_known(self) or _is_theirs(others):
            return _of_their_own(forward, self, *others)
        return own(_plain(self), *others)

    return compute


def _of_their_own(forward: Callable[..., Any], value: Any, *others: Any) -> Any:
    """What comes of an object that the suite has made is as good as made by it."""
    known = _is_known(value)
    result = forward(value, *others)
    if known and isinstance(result, StandIn):
        result._reproof.named = True
    return result


def _of_content(name: str) -> Callable[..., Any]:
    forward = SPECIAL_METHODS[name]

    def compute(self: Any, other: Any) -> Any:
        if _is_known(self) or _is_theirs((other,)):
            return _of_their_own(forward, self, other)
        content = _plain(self)
        self._reproof.content = None  # `+=` changes it
        return getattr(type(content), name, _unsupported)(content, other)

    return compute


def _unsupported(content: Any, other: Any) -> Any:
    return NotImplemented


def _of_object(name: str) -> Callable[..., Any]:
    forward, computes = SPECIAL_METHODS[name], name in COMPUTES

    def compute(self: Any, *others: Any) -> Any:
        known = _is_known(self)
        result = _of_their_own(forward, self, *others)
        told = self._reproof.told or (computes and not _is_theirs(others))
        if not told or known:
            return result
        if not isinstance(result, StandIn) or _is_plain(type(result), type(self)):
            raise _no_plain_value(self)
        result._reproof.told = True
        return result

    return compute


def _of_container(name: str) -> Callable[..., Any]:
    forward = SPECIAL_METHODS[name]
    own: Any = len if name == "__len__" else iter

    def look(self: Any) -> Any:
        return forward(self) if _is_known(self) else own(_plain(self))

    return look


def _of_sequence(self: Any, key: Any) -> Any:
    forward = SPECIAL_METHODS["__getitem__"]
    if not _is_known(self):
        try:
            return _plain(self)[key]
        except (LookupError, TypeError):  # a default, or a matrix's row and column
            pass
    return forward(self, key)


# `len(found) == len(expected)`, and then a loop over both with `zip`: nothing at all is compared with an object
# that says one thing when it is asked for its length, and another when it is asked for what it holds.


def _length(self: Any) -> Any:
    length = SPECIAL_METHODS["__len__"](self)
    _count(self, length)
    return length


def _elements(self: Any) -> Any:
    found = SPECIAL_METHODS["__iter__"](self)
    return found if found is self else _counted(self, found)


def _counted(sized: Any, elements: Any) -> Iterator[Any]:
    count = 0
    for element in elements:
        yield element
        count += 1
    _count(sized, count)


def _element(self: Any, key: Any) -> Any:
    """Without `__iter__`, iteration ends where there is no such index."""
    try:
        return SPECIAL_METHODS["__getitem__"](self, key)
    except IndexError:
        size = self._reproof.size
        if type(key) is int and size is not None and 0 <= key < size[1]:
            _count(self, key)
        raise


def _count(sized: Any, count: Any) -> None:
    ref: Ref = sized._reproof
    changes: int = ref.peer.changes  # type: ignore[attr-defined]
    before, ref.size = ref.size, (changes, count)
    if before is not None and before[0] == changes and before[1] != count and not _is_known(sized):
        kind = type(sized).__name__
        raise TypeError(f"an object of the candidate's class {kind} has {before[1]} elements, and {count}")


_OF_SIZED: dict[str, Callable[..., Any]] = {"__len__": _length, "__iter__": _elements, "__getitem__": _element}


def _no_plain_value(value: Any) -> TypeError:
    return TypeError(f"an object of the candidate's class {type(value).__name__} was expected to be a plain value")


def _is_plain(kind: type[Any], computed_from: type[Any]) -> bool:
    """Whether its objects are equal to plain values. A named tuple may well compute others of its kind."""
    if issubclass(kind, tuple) and issubclass(computed_from, tuple):
        return False
    return named.value_type(kind) is not None or getattr(kind, "_reproof_content", False)


CONTAINERS: dict[Any, type[Any]] = {kind.__name__: kind for kind in (list, dict, set, bytearray, deque)}
_SCALARS = (int, float, complex, str, bytes, frozenset)


_GROUP: Any = getattr(builtins, "BaseExceptionGroup", BaseException)  # 3.11
_IMMUTABLE: dict[Any, Any] = {list: tuple, deque: tuple, set: frozenset, bytearray: bytes, dict: Mapping}
"""Kinds that have of a container's methods those which do not change it."""


def _special_method(name: str, base: Any, content: Any, sized: bool) -> Callable[..., Any]:
    direct = (
        f"__{name[3:]}" if name.startswith(("__r", "__i")) and name in COMPUTES else name
    )  # a str has no __radd__ of its own
    if base in _SCALARS and (hasattr(base, name) or hasattr(base, direct)):
        return _of_scalar(name, base)
    if base is tuple and name in ("__len__", "__iter__", "__contains__"):
        return _of_scalar(name, base)
    if content in _IMMUTABLE and name in ("__len__", "__iter__"):
        return _of_container(name)
    if name == "__getitem__" and (base is tuple or content in _IMMUTABLE):
        return _of_sequence
    if content and (name in COMPUTES or name == "__contains__"):
        return _of_content(name)
    if base not in _SCALARS and (name in COMPUTES or name in MEASURES or name == "__bool__"):
        return _of_object(name)
    if sized and base is None and not content and name in _OF_SIZED:
        return _OF_SIZED[name]
    return SPECIAL_METHODS[name]


def _await(self: Any) -> Any:
    return self._reproof.peer.awaited(self).__await__()


# --- making them ------------------------------------------------------------------


class Stock:
    """The stand-ins of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._classes: dict[int, StandInType] = {}
        self._by_name: dict[tuple[Any, ...], StandInType] = {}
        self._objects: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._values: dict[int, Any] = {}

    def renew(self) -> None:
        """Another process is at the other end: its numbers mean something else. Classes are known by name."""
        self._classes.clear()
        self._objects.clear()
        self._values.clear()

    def read(self, cell: list[Any], read: Reader) -> Any:
        tag = cell[0]
        if tag == "h":
            return self._object(cell, read)
        if tag == "k":
            return self._class(cell[1])
        if tag == "e":
            return self._exception(cell, read)
        raise Garbled(f"an unknown reference: {tag!r}")

    def _class(self, number: Any) -> StandInType:
        if type(number) is not int or number not in self._classes:
            raise Garbled("a class that was not described")
        return self._classes[number]

    def _object(self, cell: list[Any], read: Reader) -> Any:
        number = cell[1]
        if type(number) is not int or len(cell) not in (3, 4):
            raise Garbled("a malformed reference")
        known = self._objects.get(number)
        if known is None:
            known = self._values.get(number)
        if known is not None:
            known._reproof.named = False
            return known
        kind: Any = self._class(cell[2])
        made: Any
        base = named.value_type(kind)
        if base is None:
            made = object.__new__(kind)
        else:
            value = read.cell(cell[3])
            if type(value) is not base:
                raise Garbled("a value that is not of its own type")
            made = base.__new__(kind, value.real, value.imag) if base is complex else base.__new__(kind, value)
        object.__setattr__(made, "_reproof", Ref(self._connection, number))
        (self._objects if base is None else self._values)[number] = made
        return made

    def _exception(self, cell: list[Any], read: Reader) -> BaseException:
        _, number, kind_cell, args_cell, text_cell, attributes, notes, cause, context, suppress = cell
        kind, args, text = read.cell(kind_cell), read.cell(args_cell), exact_text(read.cell(text_cell))
        if not (isinstance(kind, type) and issubclass(kind, BaseException) and type(args) is tuple):
            raise Garbled("an exception that is none")
        made = _exception(kind, args)
        object.__setattr__(made, "_reproof", Ref(self._connection, number))
        if isinstance(made, StandIn):
            object.__setattr__(made, "_reproof_text", text)
        for base, names in named.EXCEPTION_ATTRIBUTES.items():
            for name in names:
                if name in attributes and isinstance(made, base):
                    object.__setattr__(made, name, read.cell(attributes[name]))
        if notes:
            object.__setattr__(made, "__notes__", [note for note in notes if type(note) is str])
        made.__cause__ = None if cause is None else self._chained(cause, read)
        made.__context__ = None if context is None else self._chained(context, read)
        made.__suppress_context__ = suppress is True
        return made

    def _chained(self, cell: Any, read: Reader) -> BaseException:
        chained = read.cell(cell)
        if not isinstance(chained, BaseException):
            raise Garbled("a cause that is no exception")
        return chained

    # --- classes ------------------------------------------------------------

    def describe(self, news: Any) -> None:
        """Make the classes that the candidate tells of."""
        try:
            described = dict(news)
            for number in described:
                self._describe(int(number), described)
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as exc:
            raise Garbled(f"a class is not described as we do it: {exc}") from None

    def _describe(self, number: int, news: dict[int, Any]) -> None:
        if number in self._classes:
            return
        words = news[number]
        bases: list[Any] = []
        for base in words["bases"]:
            if type(base) is int:
                self._describe(base, news)
                bases.append(self._classes[base])
            else:
                bases.append(_permitted(named.known(*base)))
        key = (words["module"], words["qualname"], tuple(words["specials"]), tuple(bases))
        made = self._by_name.get(key)
        if made is None or made._reproof.era == self._connection.era:
            made = self._by_name[key] = self._made(words, bases)
            made._reproof = Ref(self._connection, number)
        else:  # the same class, in another process: it is found where it was found before
            origin = made._reproof.origin
            made._reproof = Ref(self._connection, number)
            made._reproof.origin = origin
        self._classes[number] = made

    def _made(self, words: dict[str, Any], bases: list[Any]) -> StandInType:
        namespace: dict[str, Any] = {
            "__dict__": property(lambda self: _look_up(self, "__dict__")),  # `vars` is to see the candidate's
            "__module__": str(words["module"]),
            "__qualname__": str(words["qualname"]),
            "__doc__": words["doc"] if type(words["doc"]) is str else None,
        }
        base = next((found for found in named.VALUES if any(issubclass(parent, found) for parent in bases)), None)
        content = set if words["content"] == "view" else CONTAINERS.get(words["content"])
        namespace["_reproof_content"] = content
        specials = set(words["specials"])
        if words["content"] in CONTAINERS:
            namespace["__class__"] = property(lambda self: content)  # for `isinstance(..., list)`
            specials |= {"__len__", "__iter__", "__contains__", "__eq__", "__ne__"}
            specials |= {"__getitem__"} if content is not set else set()
        elif "__len__" in specials:
            specials.add("__bool__")
        for name in specials:
            if name in _COMPARISONS:
                namespace[name] = _COMPARISONS[name]
            elif name == "__await__":
                namespace[name] = _await
            elif name in SPECIAL_METHODS and name not in ("__repr__", "__str__", "__format__"):
                namespace[name] = _special_method(
                    name, base, content if words["content"] in CONTAINERS else None, "__len__" in specials
                )
        if content is not None or base is not None:
            namespace.update({name: compare.of_value for name, compare in _COMPARISONS.items() if name in namespace})  # type: ignore[attr-defined]
        if "__eq__" in namespace and "__hash__" not in namespace:
            namespace["__hash__"] = object.__hash__ if words["hashable"] is True else None
        if any(issubclass(base, BaseException) for base in bases):
            namespace["__str__"] = lambda self: self._reproof_text
        if type(words.get("fields")) is list:
            namespace["__dataclass_fields__"] = {str(name): _field(str(name)) for name in words["fields"]}
        kind = EnumStandInType if words["iterable"] is True else StandInType
        methods, shadows = (
            [name for name in words[told] if type(name) is str and not name.startswith(("__", *HIDDEN))]
            for told in ("methods", "shadows")
        )
        raised = next((parent for parent in bases if issubclass(parent, BaseException)), None)
        if raised is not None:  # `except*` asks a group for what it holds
            methods = [name for name in methods if not hasattr(_GROUP if issubclass(raised, _GROUP) else raised, name)]
        namespace.update({name: MethodName(name) for name in methods})
        plain = base or _IMMUTABLE.get(content)
        if plain is not None:
            own = [name for name in (*methods, *shadows) if hasattr(plain, name)]
            own += [] if base else [name for name in dir(plain) if not name.startswith("_")]
            namespace.update({name: PlainName(name, name not in shadows) for name in own})
        return _class(kind, str(words["name"]), bases, namespace)


def exact_text(told: Any) -> str:
    """A text without methods of the candidate's, which would say that it holds whatever a test looks for in it."""
    if not isinstance(told, str):
        raise Garbled("a text that is none")
    text: str = named.VALUES[str](told)
    return text


def _permitted(base: Any) -> Any:
    if not issubclass(base, (BaseException, *named.VALUES)) or base is bool:
        raise ValueError(f"{base} may not be a base")
    return base


def _class(kind: type[StandInType], name: str, bases: list[Any], namespace: dict[str, Any]) -> StandInType:
    ours = [base for base in bases if isinstance(base, StandInType)]
    others = [base for base in bases if not isinstance(base, StandInType)]
    for parents in ((*ours, *others), (*ours, StandIn, *others), (StandIn, *others), (*ours,), (StandIn,)):
        if not any(issubclass(parent, StandIn) for parent in parents):
            parents = (StandIn, *parents)
        try:
            made: StandInType = type.__new__(kind, name, parents, dict(namespace))
        except TypeError:  # bases that do not go together here; tests see fewer of them
            continue
        return made
    raise Garbled(f"a class {name} that cannot be made")


def _field(name: str) -> Any:
    import dataclasses

    field = dataclasses.field()
    field.name = name
    field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
    return field


def _exception(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    if isinstance(kind, StandInType):
        made = kind.__new__(kind, *args)
        made.args = args
        return made
    try:
        return kind(*args)
    except Exception:
        made = kind.__new__(kind)
        made.args = args
        return made
