"""The candidate's process in the seat `separate`: imports the submission and does what the judge asks.

Candidate code runs in here, so nothing in here is trusted, and nothing worth reading is: no
test, no expected value, no other descriptor than the two pipes. Whatever this process sends,
the judge reads as data.
"""

from __future__ import annotations

import _thread
import faulthandler
import importlib
import io
import os
import sys
import types
import warnings
import weakref
from _collections import deque  # type: ignore[import-not-found]
from _collections_abc import ItemsView, KeysView

from . import failures, importer, named, signatures
from .crossing import Writer, to_json
from .forwarding import COMPARISONS, OPERATIONS, SPECIAL_METHODS, binary, special_methods
from .peer import Gone, Peer, Ref

TYPE_CHECKING = False

if TYPE_CHECKING:
    import asyncio
    import threading
    from collections.abc import Callable
    from typing import Any

    from .crossing import Reader

CAUSES = 4
KEPT_OUTPUT = 1 << 16
MOST_TOLD = 1000
CONTENT_KINDS: tuple[Any, ...] = (list, dict, set, bytearray, deque)
VIEWS: tuple[Any, ...] = (KeysView, ItemsView)


def serve(job: dict[str, Any], workspace: str, requests: int, answers: int) -> None:
    """Until the judge closes its end."""
    for folder in (os.path.join(workspace, "src"), workspace):
        if os.path.isdir(folder):
            sys.path.insert(0, folder)
    server = Server(requests, answers, failures.Describer(workspace, ()))
    sys.stdout = server.output("o")
    sys.stderr = server.output("e")
    faulthandler.enable(file=2)  # a crash is told past all of this
    importer.when_imported("logging", lambda: _hear_logs(server))
    warnings.simplefilter("default")
    warnings.showwarning = server.warned  # type: ignore[assignment]
    try:
        server.run()
    except Gone:
        pass


class Server(Peer):
    def __init__(self, requests: int, answers: int, describe: failures.Describer) -> None:
        super().__init__(requests, answers, first_number=2)
        self._describe = describe
        self._news: list[Any] = []  # classes that the judge has not been told of
        self._told: set[int] = set()
        self._printed: list[list[str]] = []
        self._unsaid = 0
        self.logged: list[list[Any]] = []
        self._warned: list[list[Any]] = []
        self._known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._kinds: dict[tuple[str, tuple[str, ...]], type[Any]] = {}
        self._lock = _thread.RLock()
        self._turn: threading.Condition | None = None
        self._waiting = 0
        self._listening = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, asyncio.Future[Any]] = {}
        self._own: dict[str, Callable[..., Any]] = {
            "import": self._import,
            "describe": self._description,
            "content": _content,
            "static": lambda kind, name: _attributes(kind)[name],
            "pin": lambda cpu: os.sched_setaffinity(0, {cpu}),
            "unpin": lambda: os.sched_setaffinity(0, range(os.cpu_count() or 1)),
            "task": self._start,
            "pump": self._pump,
            "cancel": lambda number: self._tasks[number].cancel(),
            "outcome": lambda number: self._tasks.pop(number).result(),
        }

    def run(self) -> None:
        while True:
            self.answer(self._hear())

    def answer(self, message: list[Any]) -> None:
        self._listening = True
        if self._waiting:
            with self._lock:
                if self._turn is not None:
                    self._turn.notify_all()
        super().answer(message)

    def asked(self, operation: str, operands: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """From whatever thread: the judge hears us only while it waits for an answer of ours."""
        with self._lock:
            self._waiting += 1
            while not self._listening:
                self._wait()
            self._waiting -= 1
            try:
                return self._converse(operation, operands, named)
            finally:
                self._listening = True

    def _wait(self) -> None:
        """Until the judge may listen again; only a thread of the candidate's own ever has to."""
        if self._turn is not None:
            self._turn.wait()
        else:
            import threading

            self._turn = threading.Condition(self._lock)

    def _send(self, body: bytes) -> None:
        with self._lock:
            if body[2:3] != b"?":
                self._listening = False
            super()._send(body)

    def carry_out(self, operation: str, operands: list[Any], keywords: dict[str, Any]) -> Any:
        return (self._own.get(operation) or OPERATIONS[operation])(*operands, **keywords)

    # --- operations of this side only ---------------------------------------

    def _import(self, name: str) -> tuple[types.ModuleType, bool]:
        module = importlib.import_module(name)
        return module, hasattr(module, "__path__")

    def _description(self, exc: BaseException) -> Any:
        return self._describe(exc, exc.__traceback__)

    def _start(self, awaitable: Any) -> int:
        """Begin to run something that can be awaited; the judge then comes again and again until it is done."""
        import asyncio  # it takes longer than all the rest of a start, and few candidates need it

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)

        async def run() -> Any:
            return await awaitable

        number = len(self._tasks) + 1
        while number in self._tasks:
            number += 1
        self._tasks[number] = self._loop.create_task(run())
        return number

    def _pump(self, number: int, seconds: float) -> bool:
        import asyncio

        assert self._loop is not None
        self._loop.run_until_complete(asyncio.wait({self._tasks[number]}, timeout=seconds))
        return self._tasks[number].done()

    # --- output -------------------------------------------------------------

    def output(self, stream: str) -> io.TextIOWrapper:
        raw: Any = Printed(self, stream)
        return io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)

    def printed(self, stream: str, text: str) -> None:
        """It travels with the next answer; if it is much, right away, while the judge listens."""
        with self._lock:
            self._printed.append([stream, text])
            self.extras_waiting = True
            self._unsaid += len(text)
            if self._unsaid > KEPT_OUTPUT and self._listening:
                self._send_printed()

    def _send_printed(self) -> None:
        said, self._printed, self._unsaid = self._printed, [], 0
        self._write(to_json(["o", said]).encode())

    def extras(self) -> dict[str, Any]:
        self.extras_waiting = False
        extras: dict[str, Any] = {}
        if self._news:
            extras["k"], self._news = self._news, []
        if self._printed:
            extras["o"], self._printed, self._unsaid = self._printed, [], 0
        if self.logged or self._warned:
            extras["l"], extras["w"] = self.logged[:MOST_TOLD], self._warned[:MOST_TOLD]
            self.logged.clear()
            self._warned.clear()
        return extras

    def warned(self, message: Any, category: type[Warning], filename: str, line: int, *_: Any) -> None:
        path = self._describe.relative(filename)
        self.extras_waiting = True
        self._warned.append([category.__name__, _clean(message), path or filename, path is not None, line])

    # --- lending: what the judge gets instead of an object --------------------

    def lend(self, value: Any) -> list[Any]:
        kind = type(value)
        if issubclass(kind, Borrowed):
            return ["y", value._reproof.number]
        if issubclass(kind, type):
            name = named.of_class(value)
            return ["T", *name] if name else ["k", self._class(value)]
        if issubclass(kind, BaseException):
            return self._exception(value, CAUSES)
        cell = ["h", self.lend_as(value), self._class(kind)]
        base = named.value_type(kind)
        return cell if base is None else [*cell, Writer(self, careful=True).cell(named.VALUES[base](value))]

    def _exception(self, exc: BaseException, depth: int) -> list[Any]:
        original = getattr(exc, "_reproof_original", None)
        if isinstance(original, Ref):
            return ["y", original.number]
        kind = type(exc)
        name = named.of_class(kind)
        write = Writer(self, careful=True)
        attributes = {
            attribute: write.cell(getattr(exc, attribute))
            for base, attributes in named.EXCEPTION_ATTRIBUTES.items()
            if isinstance(exc, base)
            for attribute in attributes
            if getattr(exc, attribute, None) is not None
        }
        return [
            "e",
            self.lend_as(exc),
            ["T", *name] if name else ["k", self._class(kind)],
            write.cell(exc.args),
            write.cell(failures.safe_str(exc)),
            attributes,
            [str(note) for note in getattr(exc, "__notes__", ()) if type(note) is str],
            self._exception(exc.__cause__, depth - 1) if exc.__cause__ is not None and depth else None,
            self._exception(exc.__context__, depth - 1) if exc.__context__ is not None and depth else None,
            bool(exc.__suppress_context__),
        ]

    def _class(self, kind: type[Any]) -> int:
        """The number of a class; the judge is told what it needs to know to make one that looks like it."""
        number = self.lend_as(kind)
        if number not in self._told:
            self._told.add(number)
            self._news.append([number, self._class_in_words(kind)])
            self.extras_waiting = True
        return number

    def _class_in_words(self, kind: type[Any]) -> dict[str, Any]:
        value = named.value_type(kind)
        bases: list[Any] = []
        for base in kind.__bases__:
            name = named.of_class(base)
            if name is None and base.__flags__ & HEAP_TYPE:
                bases.append(self._class(base))
            elif name is not None and (issubclass(base, BaseException) or base is value):
                bases.append(list(name))

        def own(base: type[Any]) -> bool:
            if issubclass(base, BaseException):
                return named.of_class(base) is None
            return base is not object and (value is None or not issubclass(value, base))

        words = {
            "name": kind.__name__,
            "module": str(getattr(kind, "__module__", "")),
            "qualname": kind.__qualname__,
            "doc": kind.__doc__ if type(kind.__doc__) is str else None,
            "bases": bases,
            "specials": special_methods(kind, own),
            "methods": [name for name, found in _attributes(kind).items() if type(found) in PLAIN_METHODS],
            "shadows": _shadows(kind, value),
            "hashable": kind.__hash__ is not None,
            "content": "view"
            if issubclass(kind, VIEWS)
            else next((b.__name__ for b in CONTENT_KINDS if issubclass(kind, b)), None),
            "abstract": [abstract.__name__ for abstract in named.ABSTRACT if issubclass(kind, abstract)],
            "iterable": isinstance(kind, getattr(sys.modules.get("enum"), "EnumMeta", ())),
        }
        fields = getattr(kind, "__dataclass_fields__", None)
        if isinstance(fields, dict):
            words["fields"] = [name for name in fields if type(name) is str]
        return words

    # --- borrowing: what the candidate gets instead of the judge's objects ----

    def borrow(self, cell: list[Any], read: Reader) -> Any:
        tag = cell[0]
        if tag == "y":
            return self.lent_value(cell[1])
        if tag == "ym":
            return getattr(self.lent_value(cell[1]), cell[2])
        if tag == "T":
            return named.found(cell[1], cell[2])
        if tag == "M":
            return importlib.import_module(cell[1])
        if tag == "x":
            return self._borrowed(cell[1], self._kind(cell[2], tuple(cell[3])))
        if tag == "e":
            return self._borrowed_exception(cell, read)
        raise ValueError(f"an unknown reference: {tag!r}")

    def _borrowed(self, number: int, kind: type[Any]) -> Any:
        """The same for the same object, as long as anyone here has it: `node is goal` is to be true."""
        made = self._known.get(number)
        if made is None:
            made = self._known[number] = object.__new__(kind)
            object.__setattr__(made, "_reproof", Ref(self, number))
        return made

    def _kind(self, name: str, specials: tuple[str, ...]) -> type[Any]:
        kind = self._kinds.get((name, specials))
        if kind is None:
            methods: dict[str, Any] = {
                special: SPECIAL_METHODS.get(special) or COMPARE[special] for special in specials
            }
            if name == "function":  # as an attribute of a class it becomes a method
                methods["__get__"] = lambda self, owner, kind=None: types.MethodType(self, owner) if owner else self
            if name in ("function", "method"):
                methods.update(CALLED)
            kind = self._kinds[(name, specials)] = type(name, (Borrowed,), {"__slots__": (), **TEXTS, **methods})
        return kind

    def _borrowed_exception(self, cell: list[Any], read: Reader) -> BaseException:
        _, number, name, known, args, text, held = cell
        if isinstance(known, str):
            kind = type(name, (named.found("builtins", known),), {"__str__": lambda self: text})
        else:
            kind = named.found(*known)
        made = _made(kind, read.cell(args))
        for attribute, value in held.items():
            try:
                setattr(made, attribute, read.cell(value))
            except AttributeError:  # a property of its own
                pass
        made._reproof_original = Ref(self, number)  # type: ignore[attr-defined]
        return made


def _made(kind: Any, args: Any) -> BaseException:
    try:
        made: BaseException = kind(*args)
    except Exception:
        made = kind.__new__(kind)
        made.args = tuple(args)
    return made


HEAP_TYPE = 1 << 9
PLAIN_METHODS = (type(serve), classmethod, staticmethod)


def _attributes(kind: type[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found.update(vars(base))
    return found


def _shadows(kind: type[Any], base: Any) -> list[str]:
    """Names that a plain kind has, too, but for something else: the field `count` of a named tuple."""
    if base is None:
        return []
    own = _attributes(base)
    return [
        name
        for name, found in _attributes(kind).items()
        if name in own and found is not own[name] and type(found) not in PLAIN_METHODS and not name.startswith("_")
    ]


def _content(value: Any) -> Any:
    """What it holds, as the plain type that it is made of."""
    if isinstance(value, VIEWS):
        return set(value)
    for base in CONTENT_KINDS:
        if isinstance(value, base):
            return dict(dict.items(value)) if base is dict else base(base.__iter__(value))
    raise TypeError("it has no content of a plain kind")


class Borrowed:
    """Something of the judge's that a test has handed in: it can be called and used, from afar."""

    __slots__ = ("__weakref__", "_reproof")

    if TYPE_CHECKING:  # `functools.wraps` would take over the annotation
        _reproof: Ref

    def __getattr__(self, name: str) -> Any:
        return self._reproof.peer.ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._reproof.peer.ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._reproof.peer.ask("del", self, name)


def _text(name: str) -> property:
    return property(lambda self: self._reproof.peer.ask("get", self, name))


COMPARE = {f"__{name}__": binary(name) for name in COMPARISONS}
TEXTS = {name: _text(name) for name in ("__doc__", "__module__")}
"""What an object would else have from its class here."""


def _told(function: Any) -> Any:
    return function._reproof.peer.ask("signature", function)


CALLED = {
    "__signature__": property(lambda self: signatures.signature(_told(self))),
    "__code__": property(lambda self: signatures.Code(self.__name__, _told(self))),
}
"""How a function of the test's is called, for those who ask."""


def _hear_logs(server: Server) -> None:
    """What the candidate logs is logged again on the judge's side, where pytest listens."""
    import logging

    class Logged(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            server.extras_waiting = True
            server.logged.append([_clean(record.name), record.levelno, _clean(record.getMessage())])

    logging.root.addHandler(Logged())


def _clean(text: object) -> str:
    return failures.safe_str(text).encode("utf-8", "backslashreplace").decode()


class Printed(io.RawIOBase):
    """What the candidate prints travels with its answers, so that each test has its own."""

    def __init__(self, server: Server, stream: str) -> None:
        self._server, self._stream = server, stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._server.printed(self._stream, bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)
