"""A conversation of two processes over two pipes: each asks, and may be asked back before it gets its answer.

    ["?", operation, [cells], {name: cell}, rows, forgotten, extras]     a question
    ["=", cell, rows, forgotten, extras]                                 its answer
    ["!", exception cell, rows, forgotten, extras]                       or what it raised
    ["o", [[stream, text], ...]]                                         meanwhile, what was printed

Cells and rows are those of `crossing.py`. Both sides **lend** objects under numbers that the
other side uses to speak of them, until it says that it does not need them any more.

The two sides are not equals. The judge believes nothing: a message that is malformed, too
large or out of turn is `Garbled` and ends the conversation.
"""

from __future__ import annotations

import os

from .crossing import Garbled, Reader, Side, Writer, to_json, unpack

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

LARGEST = 64 * 1024 * 1024
ENVELOPE = 1024 * 1024  # what may come on top of a message's values
CHUNK = 1 << 16  # what a pipe holds; a larger buffer would be mapped and unmapped for each read


class Gone(Exception):
    """The other side has closed its end."""


class Ref:
    """What one side knows of an object that the other side has lent it."""

    __slots__ = (
        *("content", "entered", "era", "left", "named", "number", "origin", "peer", "running", "size", "told"),
    )

    def __init__(self, peer: Peer, number: int) -> None:
        self.peer = peer
        self.number = number
        self.era = peer.era
        self.origin: tuple[str, ...] | None = None
        """The module and the attributes by which it can be found again."""
        self.told = False
        """Whether it was computed from a value that may be what a test expects."""
        self.named = False
        """Whether it was, when it was last heard of, what the suite has found or made by a name."""
        self.size: tuple[int, int] | None = None
        """How many elements it has told of, and by when."""
        self.left = 0
        """How many elements a loop over it has yet to give."""
        self.entered = 0
        """When a test's `with` has entered it, in what was asked for by then."""
        self.content: tuple[int, Any] | None = None
        """What it holds, and by when."""
        self.running: Any = None
        """What runs it here, if it is a coroutine."""
        peer.borrowed[number] = peer.borrowed.get(number, 0) + 1
        peer.released.discard(number)

    def __del__(self) -> None:
        peer = self.peer
        if self.era == peer.era:
            peer.borrowed[self.number] -= 1
            if not peer.borrowed[self.number]:
                del peer.borrowed[self.number]
                peer.released.add(self.number)


class Peer(Side):
    def __init__(self, reading: int, writing: int, first_number: int) -> None:
        super().__init__(first_number)
        self._reading, self._writing = reading, writing
        self._received = b""
        self._read = Reader(self)
        self._quick = Writer(self)
        self.era = 0
        """Counts the processes that were at the other end."""
        self.lent: dict[int, Any] = {}
        self._lent_as: dict[int, int] = {}  # id of a lent object → its number
        self._last_lent = 0
        self.borrowed: dict[int, int] = {}
        """How many of our objects speak of each that the other side has lent us."""
        self.released: set[int] = set()
        self.extras_waiting = False

    # --- lending ------------------------------------------------------------

    def lend_as(self, value: Any) -> int:
        number = self._lent_as.get(id(value))
        if number is None:
            self._last_lent += 1
            number = self._lent_as[id(value)] = self._last_lent
            self.lent[number] = value
        return number

    def lent_value(self, number: Any) -> Any:
        if type(number) is not int or number not in self.lent:
            raise Garbled("a reference to what was never lent")
        return self.lent[number]

    # --- asking -------------------------------------------------------------

    def ask(self, operation: str, /, *operands: Any, **named: Any) -> Any:
        """The result of an operation on the other side, or the exception that it raised there."""
        return self.asked(operation, operands, named)

    def asked(self, operation: str, operands: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The same, for callers that have their arguments together: a call through several hands costs with each."""
        return self._converse(operation, operands, named)

    def _converse(self, operation: str, operands: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self.shares:
            self.let_go()
        try:
            body = self._question(self._quick, operation, operands, named)
        except ValueError:  # lone surrogates, or a number with too many digits
            body = self._question(Writer(self, careful=True), operation, operands, named)
        self._send(body)
        while True:
            message = self._hear()
            kind = message[0]
            if kind == "=":
                return self._taken(message)
            if kind == "!":
                raise self._taken(message)
            if kind == "?":
                self.answer(message)
            elif kind == "o" and len(message) == 2:
                self.read_extras({"o": message[1]})
            else:
                raise Garbled(f"a message of an unknown kind: {kind!r}")

    def _question(self, write: Writer, operation: str, operands: tuple[Any, ...], named: dict[str, Any]) -> bytes:
        cell = write.cell
        cells = to_json([cell(operand) for operand in operands])
        keywords = to_json({name: cell(value) for name, value in named.items()}) if named else "{}"
        if self.shares:
            return self._with_rows(write, f'["?","{operation}",{cells},{keywords}')
        return f'["?","{operation}",{cells},{keywords},[]'.encode()

    def _with_rows(self, write: Writer, head: str) -> bytes:
        write.begin()
        try:
            return f"{head},{write.rows()}".encode()
        except BaseException:
            write.undo()
            raise

    def _taken(self, message: list[Any]) -> Any:
        if len(message) != 5:
            raise Garbled("an answer of a wrong length")
        kind, cell, rows, forgotten, extras = message
        if extras:
            self.read_extras(extras)
        if rows:
            self._read.rows(rows)
        value = self._read.cell(cell)
        if forgotten or extras:
            self._done_with(forgotten, extras)
        if kind == "!" and not isinstance(value, BaseException):
            raise Garbled("what was raised is not an exception")
        return value

    def _done_with(self, forgotten: Any, extras: Any) -> None:
        """What the other side does not share or need any more; the message itself may still speak of it."""
        released = extras.get("r", [])
        if type(forgotten) is not list or type(released) is not list:
            raise Garbled("a list of numbers is none")
        for number in forgotten:
            self.forget(number)
        for number in released:
            if type(number) is int and number in self.lent:
                del self._lent_as[id(self.lent.pop(number))]

    # --- being asked --------------------------------------------------------

    def answer(self, message: list[Any]) -> None:
        """Carry out what was asked for, and say what came of it."""
        if len(message) != 7:
            raise Garbled("a question of a wrong length")
        _, operation, cells, named, rows, forgotten, extras = message
        if type(operation) is not str or type(cells) is not list or type(named) is not dict:
            raise Garbled("a question that names no operation or no operands")
        if extras:
            self.read_extras(extras)
        if rows:
            self._read.rows(rows)
        operands = [self._read.cell(cell) for cell in cells]
        keywords = {name: self._read.cell(cell) for name, cell in named.items()} if named else named
        if forgotten or extras:
            self._done_with(forgotten, extras)
        kind = "="
        box: list[Any] = [None]
        try:
            box[0] = self.carry_out(operation, operands, keywords)
        except Garbled:
            raise
        except BaseException as exc:
            kind, box[0] = "!", self.raised(exc)
        operands.clear()  # what only the question or the answer held is not shared any longer than this
        keywords.clear()
        try:
            body = self._in_words(kind, box)
        except Exception as exc:  # it cannot be told, and that can
            body = self._in_words("!", [TypeError(f"the result cannot be handed over: {exc}")])
        box.clear()
        if self.shares:
            self.let_go()
        self._send(body)

    def _in_words(self, kind: str, box: list[Any]) -> bytes:
        try:
            return self._reply(self._quick, kind, box)
        except ValueError:
            return self._reply(Writer(self, careful=True), kind, box)

    def _reply(self, write: Writer, kind: str, box: list[Any]) -> bytes:
        cell = to_json(write.cell(box[0]))
        head = f'["{kind}",{cell}'
        body = self._with_rows(write, head) if self.shares else f"{head},[]".encode()
        if len(body) > LARGEST:
            raise OverflowError(f"a value of {len(body)} bytes is over the {LARGEST} that may cross")
        return body

    def carry_out(self, operation: str, operands: list[Any], keywords: dict[str, Any]) -> Any:
        raise NotImplementedError

    def raised(self, exc: BaseException) -> BaseException:
        """What to tell of an exception that an operation raised here."""
        return exc

    def extras(self) -> dict[str, Any]:
        """What else there is to say; asked for if `extras_waiting`."""
        return {}

    def read_extras(self, extras: Any) -> None:
        if type(extras) is not dict:
            raise Garbled("extras that are no object")

    # --- bytes --------------------------------------------------------------

    def _send(self, body: bytes) -> None:
        quiet = not self.forgotten and not self.released and not self.extras_waiting
        self._write(body + (b",[],{}]" if quiet else self._rest()))

    def _write(self, body: bytes) -> None:
        data = len(body).to_bytes(4, "big") + body
        try:
            sent = os.write(self._writing, data)
            while sent < len(data):
                sent += os.write(self._writing, data[sent : sent + CHUNK])
        except OSError as exc:
            raise Gone from exc

    def _rest(self) -> bytes:
        """The end of a message, which is the same for most: what is not needed any more, and extras."""
        extras = self.extras()
        forgotten, self.forgotten = self.forgotten, []
        if self.released:
            released, self.released = self.released, set()
            extras["r"] = list(released)
        return f",{to_json(forgotten)},{to_json(extras)}]".encode()

    def _hear(self) -> list[Any]:
        received = self._received or self._more()
        while len(received) < 4:
            received += self._more()
        size = int.from_bytes(received[:4], "big") + 4
        if size > LARGEST + ENVELOPE:
            raise Garbled(f"a message of {size} bytes is over the {LARGEST + ENVELOPE} that may cross")
        if len(received) < size:
            pieces, length = [received], len(received)
            while length < size:
                pieces.append(self._more())
                length += len(pieces[-1])
            received = b"".join(pieces)
        self._received = received[size:]
        return unpack(received[4:size])

    def _more(self) -> bytes:
        try:
            more = os.read(self._reading, CHUNK)
        except OSError as exc:
            raise Gone from exc
        if not more:
            raise Gone
        return more
