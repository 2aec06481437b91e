"""Values on their way between the judge and the candidate: two processes that do not trust each other.

A value of a plain kind crosses as a copy of exactly its type. A mutable one is **shared**
for as long as both sides hold it: each has its own copy, and each message brings along what
has changed in it since the last, so that `sort_in_place(xs)` changes the caller's `xs`.
Everything else crosses as a **reference**, whose meaning is the business of `Side.lend`
(sender) and `Side.borrow` (receiver).

A message's values are JSON. A *cell* is a JSON scalar for itself, `[3]` for the shared
container number 3, and `["tag", ...]` for all else. What the other side does not know yet of
a shared container stands in a *row* of the message. As rows are flat, containers that are
cyclic or deeply nested need no special treatment:

    [1, (2.5, "x"), []]   →   cell [1], rows [[1, "l", [1, ["t", [2.5, "x"]], [3]]], [3, "l", []]]

Nothing here unpickles or evaluates: what is read is rebuilt from data, by exact type, and
whatever our own writer would not have written is `Garbled`.
"""

from __future__ import annotations

import sys

# All of `collections` takes longer to import than what is used of it here.
from _collections import OrderedDict, defaultdict, deque  # type: ignore[import-not-found]

from . import named, scalars
from .light import json_reader, json_writer, to_base64

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

LARGEST_NUMBER = 1 << 256  # beyond it a number is written in hexadecimal, which has no limit of digits
LARGEST_SHARED = 10_000  # elements of a container that is shared for longer than a call
MOST_SHARED = 1_000  # containers at once; each of them is looked at with each message


to_json = json_writer(ascii_only=False, nan=True)
_read = json_reader()


class Garbled(Exception):
    """The other side sent what our own writer does not write."""


def unpack(data: bytes) -> list[Any]:
    try:
        message = _read(data)
    except (ValueError, RecursionError) as exc:
        raise Garbled(f"a message is not JSON: {exc}") from None
    if type(message) is not list or not message:
        raise Garbled("a message is not one list")
    return message


# --- plain kinds --------------------------------------------------------------

_ATOMS = frozenset((type(None), bool, int, float, str))
_MUTABLE: dict[Any, str] = {
    list: "l",
    dict: "d",
    set: "s",
    bytearray: "B",
    deque: "q",
    OrderedDict: "o",
    defaultdict: "D",
}
_COUNTER = "c"
"""The one kind more whose class is there only where someone has imported it."""
_IMMUTABLE: dict[Any, str] = {tuple: "t", frozenset: "f"}


# --- sharing ------------------------------------------------------------------


class Share:
    """A mutable container of which each side has a copy."""

    __slots__ = ("content", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.content = ""
        """What the other side knows it to hold, as JSON."""


class Side:
    """One end: what it shares, and how it lends and borrows what does not cross as a copy.

    Numbers are odd if the judge gave them and even if the candidate did, so that both can give some.
    """

    def __init__(self, first_number: int) -> None:
        self.shares: dict[int, Share] = {}
        self.numbers: dict[int, int] = {}  # id of a shared value → its number
        self.next_number = first_number
        self.fresh: list[int] = []
        self.forgotten: list[int] = []

    def lend(self, value: Any) -> list[Any]:
        """A cell that stands for something that cannot be copied."""
        raise NotImplementedError

    def borrow(self, cell: list[Any], read: Reader) -> Any:
        """What stands here for something of the other side's. Raises Garbled for a cell that it does not know."""
        raise NotImplementedError

    def shortened(self, value: list[Any]) -> None:
        """Told of a list that the other side has given, and that holds less now."""

    def share(self, value: Any) -> int:
        number = self.numbers.get(id(value))
        if number is None:
            number = self.next_number
            self.next_number += 2
            self.keep(number, value)
            self.fresh.append(number)
        return number

    def keep(self, number: int, value: Any) -> Share:
        share = self.shares[number] = Share(value)
        self.numbers[id(value)] = number
        return share

    def forget(self, number: Any) -> None:
        share = self.shares.pop(number, None) if type(number) is int else None
        if share is not None:
            del self.numbers[id(share.value)]

    def let_go(self) -> None:
        """Stop sharing what nobody here holds any more but this table; the next message says so."""
        excess = len(self.shares) - MOST_SHARED
        for number in list(self.shares):  # outer ones first: what only they hold is free after them
            share = self.shares[number]
            if _unheld(share) or excess > 0:
                self.forget(number)
                self.forgotten.append(number)
                excess -= 1


def _tag_of(share: Share) -> str:
    return _MUTABLE.get(type(share.value), _COUNTER)


def _holders(share: Share) -> int:
    return sys.getrefcount(share.value)


_ONE = _holders(Share([]))


def _unheld(share: Share) -> bool:
    return _holders(share) <= _ONE or len(share.value) > LARGEST_SHARED


# --- writing ------------------------------------------------------------------


class Writer:
    """Values → cells and rows of one message.

    `careful` is slower, and also writes what JSON as such would not bring across unchanged.
    """

    def __init__(self, side: Side, careful: bool = False) -> None:
        self.side = side
        self.careful = careful
        self._told: list[Share] = []

    def begin(self) -> None:
        self._told = []

    def undo(self) -> None:
        """The message was not sent: the other side does not know what it would have said."""
        for share in self._told:
            share.content = ""

    def cell(self, value: Any) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            return self._atom(value, kind) if self.careful else value
        if kind in _MUTABLE:
            return [self.side.share(value)]
        if kind in _IMMUTABLE:
            return [_IMMUTABLE[kind], self._cells(value)]
        encode = scalars.encoder_of(kind)
        encoded = encode(value) if encode is not None else None
        if encoded is not None:
            return encoded
        if kind is getattr(sys.modules.get("collections"), "Counter", None):
            return [self.side.share(value)]
        if kind is slice:
            return ["slice", self.cell(value.start), self.cell(value.stop), self.cell(value.step)]
        return self.side.lend(value)

    def _atom(self, value: Any, kind: type[Any]) -> Any:
        if kind is int and not -LARGEST_NUMBER < value < LARGEST_NUMBER:
            return ["i", hex(value)]
        if kind is str and not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:  # JSON would join two halves of a pair into one character
                return ["u", value.encode("utf-8", "surrogatepass").hex()]
        return value

    def rows(self) -> str:
        """What the other side does not know of all that is shared, by now or through this message; as JSON."""
        shares = self.side.shares
        if not shares:
            return "[]"
        rows = []
        waiting, self.side.fresh = list(shares), []
        while waiting:
            for number in waiting:
                share = shares[number]
                written = to_json(self.content(share.value))
                if written != share.content:
                    share.content = written
                    self._told.append(share)
                    rows.append(f'[{number},"{_tag_of(share)}",{written}]')
            waiting, self.side.fresh = self.side.fresh, []  # writing one can bring up more
        return f"[{','.join(rows)}]"

    def content(self, value: Any) -> Any:
        kind = type(value)
        if kind is list or kind is set:
            return self._cells(value)
        if kind is bytearray:
            return to_base64(bytes(value))
        if kind is deque:
            return [value.maxlen, self._cells(value)]
        pair = [self._cells(value.keys()), self._cells(value.values())]
        return [*pair, self.cell(value.default_factory)] if kind is defaultdict else pair

    def _cells(self, values: Iterable[Any]) -> list[Any]:
        if not self.careful and _ATOMS.issuperset(map(type, values)):
            return list(values)
        return [self.cell(value) for value in values]


# --- reading ------------------------------------------------------------------

_EMPTY: dict[str, Callable[[], Any]] = {
    "l": list,
    "d": dict,
    "s": set,
    "B": bytearray,
    "o": OrderedDict,
    _COUNTER: lambda: named.known("collections", "Counter")(),
}


class Reader:
    """Cells and rows of one message → values."""

    def __init__(self, side: Side) -> None:
        self.side = side

    def rows(self, rows: Any) -> None:
        """Take over what the other side says of shared containers: first make them, for they refer to each other."""
        filling = []
        for row in _checked(rows, list):
            number, tag, content = _checked(row, list, 3)
            filling.append((self._share(_checked(number, int), tag, content), tag, content))
        for share, tag, content in filling:
            try:
                self._fill(share.value, tag, content)
            except (TypeError, ValueError, LookupError) as exc:
                raise Garbled(f"a container cannot be rebuilt: {exc}") from None
        for share, _, _ in filling:
            # As we would write it ourselves: a reference is "mine" to one side and "yours" to the other.
            share.content = self._written(share.value)

    def _written(self, value: Any) -> str:
        try:
            written = to_json(Writer(self.side).content(value))
            written.encode("utf-8")
        except ValueError:
            written = to_json(Writer(self.side, careful=True).content(value))
        return written

    def _share(self, number: int, tag: Any, content: Any) -> Share:
        share = self.side.shares.get(number)
        if share is not None:
            if _tag_of(share) != tag:
                raise Garbled(f"the shared container {number} is not of kind {tag!r}")
            return share
        if number % 2 == self.side.next_number % 2:
            raise Garbled(f"there is no shared container {number}")
        if tag == "q":
            most = _checked(content, list, 2)[0]
            return self.side.keep(number, deque(maxlen=None if most is None else _checked(most, int)))
        if tag == "D":
            return self.side.keep(number, defaultdict(self._factory(_checked(content, list, 3)[2])))
        if type(tag) is not str or tag not in _EMPTY:
            raise Garbled(f"an unknown kind of container: {tag!r}")
        return self.side.keep(number, _EMPTY[tag]())

    def _factory(self, cell: Any) -> Any:
        factory = self.cell(cell)
        if factory is not None and not callable(factory):
            raise Garbled("a default factory that cannot be called")
        return factory

    def _fill(self, value: Any, tag: str, content: Any) -> None:
        if tag == "l":
            items = self._cells(content)
            if len(items) < len(value) and self.side.numbers[id(value)] % 2 != self.side.next_number % 2:
                self.side.shortened(value)
            value[:] = items
        elif tag == "B":
            value[:] = scalars.data(content)
        elif tag in ("s", "q"):
            items = self._cells(content if tag == "s" else content[1])
            value.clear()
            value.update(items) if tag == "s" else value.extend(items)
        else:
            keys, items = self._cells(content[0]), self._cells(content[1])
            if len(keys) != len(items):
                raise Garbled("a mapping has more keys than values, or fewer")
            value.clear()
            for key, item in zip(keys, items):  # noqa: B905  # 3.9
                value[key] = item

    def _cells(self, cells: Any) -> list[Any]:
        kinds = set(map(type, _checked(cells, list)))
        if list not in kinds and dict not in kinds:
            return cells  # type: ignore[no-any-return]
        return [self.cell(cell) for cell in cells]

    def cell(self, cell: Any) -> Any:
        kind = type(cell)
        if kind is not list:
            if kind is dict:
                raise Garbled("an object where a value was expected")
            return cell
        if len(cell) == 1 and type(cell[0]) is int:
            share = self.side.shares.get(cell[0])
            if share is None:
                raise Garbled(f"there is no shared container {cell[0]}")
            return share.value
        try:
            return self._tagged(cell)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError) as exc:
            raise Garbled(f"a value cannot be rebuilt: {exc}") from None

    def _tagged(self, cell: list[Any]) -> Any:
        tag = scalars.text(cell[0])
        if tag == "t":
            return tuple(self._cells(cell[1]))
        if tag == "f":
            return frozenset(self._cells(cell[1]))
        if tag == "slice":
            return slice(*[self.cell(part) for part in _checked(cell, list, 4)[1:]])
        read = scalars.READERS.get(tag)
        return read(*cell[1:]) if read is not None else self.side.borrow(cell, self)


def _checked(value: Any, kind: type[Any], length: int | None = None) -> Any:
    if type(value) is not kind or (length is not None and len(value) != length):
        raise Garbled(f"{type(value).__name__} where {kind.__name__} was expected")
    return value
