"""Makes the stand-ins of a connection, from what the candidate's process says of its classes and objects."""

from __future__ import annotations

import builtins
import weakref

from . import named
from .crossing import Garbled
from .deciding import COMPARE, CONTAINERS, IMMUTABLE, special_method
from .forwarding import COMPUTES, SPECIAL_METHODS
from .peer import Ref
from .standins import HIDDEN, Doc, EnumStandInType, MethodName, PlainName, StandIn, StandInType, look_up

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .crossing import Reader
    from .judging import Connection

_GROUP: Any = getattr(builtins, "BaseExceptionGroup", BaseException)  # 3.11


def _await(self: Any) -> Any:
    return self._reproof.peer.awaited(self).__await__()


def _step(name: str) -> Callable[..., Any]:
    """An event loop of the suite's, as in `asyncio.run(solution.main())`, takes the steps of what awaits it here."""

    def step(self: Any, *given: Any) -> Any:
        ref: Ref = self._reproof
        if ref.running is None:
            ref.running = ref.peer.awaited(self)  # type: ignore[attr-defined]
        return getattr(ref.running, name)(*given)

    return step


STEPS = {name: _step(name) for name in ("send", "throw", "close")}


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
        standard = named.standard_exception(words["module"], words["qualname"])
        if standard is not None:
            bases = [*[base for base in bases if not issubclass(standard, base)], standard]
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
            "__dict__": property(lambda self: look_up(self, "__dict__")),  # `vars` is to see the candidate's
            "__module__": str(words["module"]),
            "__qualname__": str(words["qualname"]),
            "__doc__": Doc(words["doc"] if type(words["doc"]) is str else None),
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
            if name in COMPARE:
                namespace[name] = COMPARE[name]
            elif name == "__await__":
                namespace[name] = _await
            elif name in SPECIAL_METHODS and name not in ("__repr__", "__str__", "__format__"):
                namespace[name] = special_method(
                    name,
                    base,
                    content if words["content"] in CONTAINERS or name in COMPUTES else None,
                    "__len__" in specials,
                )
        if content is not None or base is not None:
            namespace.update({name: compare.of_value for name, compare in COMPARE.items() if name in namespace})  # type: ignore[attr-defined]
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
        if named.COROUTINE in words["abstract"]:
            namespace.update(STEPS)
        plain = base or IMMUTABLE.get(content)
        if plain is not None:
            own = [name for name in (*methods, *shadows) if hasattr(plain, name)]
            own += [] if base else [name for name in dir(plain) if not name.startswith("_")]
            namespace.update({name: PlainName(name, name not in shadows) for name in own})
        made = _class(kind, str(words["name"]), bases, namespace)
        for abstract in named.ABSTRACT:
            if abstract.__name__ in words["abstract"]:
                abstract.register(made)
        return made


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
        BaseException.args.__set__(made, args)  # type: ignore[attr-defined]  # `made.args =` is asked of the candidate
        return made
    try:
        return kind(*args)
    except Exception:
        made = kind.__new__(kind)
        made.args = args
        return made
