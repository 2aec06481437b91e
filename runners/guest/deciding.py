"""What is decided on the judge's side of a stand-in: to what it is equal, what it computes, how much it holds.

The candidate is asked only where that is what is being tested: about two objects of its own, and
about one that the suite has made by the name of its class.
"""

from __future__ import annotations

import operator
from _collections import deque  # type: ignore[import-not-found]
from _collections_abc import Mapping

from . import named
from .forwarding import COMPARISONS, COMPUTES, MEASURES, SPECIAL_METHODS
from .peer import Ref
from .standins import StandIn, StandInType, is_known, is_known_class, no_plain_value, plain

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


_SCALARS = (int, float, complex, str, bytes, frozenset)


def _comparison(name: str) -> Callable[..., Any]:
    decide, equality = getattr(operator, name), name in ("eq", "ne")

    def compare(self: Any, other: Any) -> Any:
        if isinstance(other, StandIn):
            peer = self._reproof.peer
            peer.comparisons += 1
            return peer.ask(name, self, other)
        return NotImplemented

    def compare_value(self: Any, other: Any) -> Any:
        if not isinstance(other, StandIn):
            return decide(plain(self), other)
        kinds = type(self), type(other)
        if all(map(named.value_type, kinds)) and not (is_known(self) or is_known(other)):
            # Whatever they say: else a `sorted` that does not sort would give numbers that are in order all the same.
            # A class that the suite knows may have an order of its own, as enumerations of texts do.
            one, another = plain(self), plain(other)
            if isinstance(one, _SCALARS) and isinstance(another, _SCALARS):
                decided = equality or not any(map(is_known_class, kinds))
            else:
                decided = equality and one == another  # or else a set of three could hold one of them three times
            if decided:
                return decide(one, another)
        return compare(self, other)

    compare.of_value = compare_value  # type: ignore[attr-defined]
    return compare


COMPARE = {f"__{name}__": _comparison(name) for name in COMPARISONS}


# --- operators --------------------------------------------------------------------
#
# `abs(solution.half(7) - 3.5) < 1e-9` shows what is expected to whoever subtracts. So for an object
# of a class that the suite does not know by name, an instance of a subclass of float is that float,
# one of a subclass of set is that set, and no other becomes a plain value by computing with one.


def _is_theirs(others: tuple[Any, ...]) -> bool:
    return any(isinstance(other, (StandIn, StandInType)) for other in others)


def _of_scalar(name: str, base: type[Any]) -> Callable[..., Any]:
    own = getattr(base, name, _unsupported)

    def compute(self: Any, *others: Any) -> Any:
        if is_known(self) or _is_theirs(others):
            return _of_their_own(name, self, *others)
        return own(plain(self), *others)

    return compute


def _of_their_own(name: str, value: Any, *others: Any) -> Any:
    """What an operator gives for an object that the suite has made is as good as made by it.

    Not what `abs` and its like give: that is to be a number, and is compared as one.
    """
    known = is_known(value) and name not in MEASURES
    result = SPECIAL_METHODS[name](value, *others)
    if known and isinstance(result, StandIn):
        result._reproof.named = True
    return result


def _of_content(name: str) -> Callable[..., Any]:
    def compute(self: Any, other: Any) -> Any:
        if is_known(self) or _is_theirs((other,)):
            return _of_their_own(name, self, other)
        content = plain(self)
        self._reproof.content = None  # `+=` changes it
        return getattr(type(content), name, _unsupported)(content, other)

    return compute


def _unsupported(content: Any, other: Any) -> Any:
    return NotImplemented


def _of_object(name: str) -> Callable[..., Any]:
    computes = name in COMPUTES

    def compute(self: Any, *others: Any) -> Any:
        known = is_known(self)
        result = _of_their_own(name, self, *others)
        told = self._reproof.told or (computes and not _is_theirs(others))
        if not told or known:
            return result
        if not isinstance(result, StandIn) or _is_plain(type(result), type(self)):
            raise no_plain_value(self)
        result._reproof.told = True
        return result

    return compute


def _of_container(name: str) -> Callable[..., Any]:
    forward = SPECIAL_METHODS[name]
    own: Any = len if name == "__len__" else iter

    def look(self: Any) -> Any:
        return forward(self) if is_known(self) else own(plain(self))

    return look


def _of_sequence(self: Any, key: Any) -> Any:
    forward = SPECIAL_METHODS["__getitem__"]
    if not is_known(self):
        try:
            return plain(self)[key]
        except (LookupError, TypeError):  # a default, or a matrix's row and column
            pass
    return forward(self, key)


# `len(found) == len(expected)`, and then a loop over both with `zip`: nothing at all is compared with an object
# that says one thing when it is asked for its length, and another when it is asked for what it holds.


def _length(self: Any) -> Any:
    length = SPECIAL_METHODS["__len__"](self)
    _count(self, length)
    return length


def _elements(name: str) -> Callable[..., Any]:
    forward = SPECIAL_METHODS[name]

    def loop(self: Any) -> Any:
        ref: Ref = self._reproof
        found = forward(self)
        ref.left = ref.size[1] if ref.size is not None and ref.size[0] == ref.peer.changes else 0  # type: ignore[attr-defined]
        return found if found is self else _counted(self, found, ref.left)

    return loop


def _counted(sized: Any, elements: Any, told: int) -> Iterator[Any]:
    count = 0
    for element in elements:
        yield element
        count += 1
    _check_count(sized, count, count < told and told)  # whatever the test has called meanwhile
    _count(sized, count)


def _next(self: Any) -> Any:
    """An object that is its own iterator may tell how many are left."""
    ref: Ref = self._reproof
    try:
        element = SPECIAL_METHODS["__next__"](self)
    except StopIteration:
        _check_count(self, 0, ref.left > 0 and ref.left)
        raise
    ref.left -= 1
    ref.size = None
    return element


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
    _check_count(sized, count, before is not None and before[0] == changes and before[1])


def _check_count(sized: Any, count: Any, told: Any) -> None:
    if told is not False and told != count and not is_known(sized):
        kind = type(sized).__name__
        raise TypeError(f"an object of the candidate's class {kind} has {told} elements, and {count}")


_OF_SIZED: dict[str, Callable[..., Any]] = {
    "__len__": _length,
    "__iter__": _elements("__iter__"),
    "__reversed__": _elements("__reversed__"),
    "__next__": _next,
    "__getitem__": _element,
}


# --- `with` -----------------------------------------------------------------------
#
# `with solution.connect() as found: assert found.get("a") == 1` compares nothing if the candidate may keep from the
# test what goes wrong in there. It may keep an exception that the suite raises on purpose: one of whose class it
# speaks where it comes from, or that comes without the candidate's having been asked for anything since.


def _entering(name: str) -> Callable[..., Any]:
    def enter(self: Any) -> Any:
        entered = SPECIAL_METHODS[name](self)
        self._reproof.entered = self._reproof.peer.calls
        return entered

    return enter


def _leave(self: Any, kind: Any, exc: Any, traceback: Any) -> Any:
    may_be_kept = exc is not None and _may_be_kept(self, exc)
    return SPECIAL_METHODS["__exit__"](self, kind, exc, traceback) and may_be_kept


async def _leave_later(self: Any, kind: Any, exc: Any, traceback: Any) -> Any:
    may_be_kept = exc is not None and _may_be_kept(self, exc)
    return await SPECIAL_METHODS["__aexit__"](self, kind, exc, traceback) and may_be_kept


def _may_be_kept(manager: Any, exc: BaseException) -> bool:
    if isinstance(exc, AssertionError):
        return False
    if isinstance(exc, Exception) and manager._reproof.entered == manager._reproof.peer.calls:
        return True
    return not _spoken_of(type(exc)).isdisjoint(_names_on_the_way(exc))


def _spoken_of(kind: type[BaseException]) -> set[str]:
    """The names by which a suite may speak of such an exception: the candidate's classes have those of their origin."""
    names = set()
    for base in kind.__mro__[:-1]:
        ref = vars(base).get("_reproof")
        if not isinstance(base, StandInType):
            names.add(base.__name__)
        elif isinstance(ref, Ref) and ref.origin is not None:
            names.add(ref.origin[-1])
    return names


def _names_on_the_way(exc: BaseException) -> Iterator[str]:
    traceback = exc.__traceback__
    while traceback is not None:
        frame, traceback = traceback.tb_frame, traceback.tb_next
        if frame.f_globals.get("__package__") != __package__:
            yield from frame.f_code.co_names


_WITH: dict[str, Callable[..., Any]] = {
    "__enter__": _entering("__enter__"),
    "__aenter__": _entering("__aenter__"),
    "__exit__": _leave,
    "__aexit__": _leave_later,
}


def _is_plain(kind: type[Any], computed_from: type[Any]) -> bool:
    """Whether its objects are equal to plain values. A named tuple may well compute others of its kind."""
    if issubclass(kind, tuple) and issubclass(computed_from, tuple):
        return False
    return named.value_type(kind) is not None or getattr(kind, "_reproof_content", False)


CONTAINERS: dict[Any, type[Any]] = {kind.__name__: kind for kind in (list, dict, set, bytearray, deque)}


IMMUTABLE: dict[Any, Any] = {list: tuple, deque: tuple, set: frozenset, bytearray: bytes, dict: Mapping}
"""Kinds that have of a container's methods those which do not change it."""


def special_method(name: str, base: Any, content: Any, sized: bool) -> Callable[..., Any]:
    direct = (
        f"__{name[3:]}" if name.startswith(("__r", "__i")) and name in COMPUTES else name
    )  # a str has no __radd__ of its own
    if base in _SCALARS and (hasattr(base, name) or hasattr(base, direct)):
        return _of_scalar(name, base)
    if base is tuple and name in ("__len__", "__iter__", "__contains__"):
        return _of_scalar(name, base)
    if content in IMMUTABLE and name in ("__len__", "__iter__"):
        return _of_container(name)
    if name == "__getitem__" and (base is tuple or content in IMMUTABLE):
        return _of_sequence
    if content and (name in COMPUTES or name == "__contains__"):
        return _of_content(name)
    if base not in _SCALARS and (name in COMPUTES or name in MEASURES or name == "__bool__"):
        return _of_object(name)
    if sized and base is None and not content and name in _OF_SIZED:
        return _OF_SIZED[name]
    return _WITH.get(name) or SPECIAL_METHODS[name]
