"""The trusted process of the seat `separate`: runs pytest on the suite, and reaches the candidate by calls.

The suite imports the submission's modules as it always does, and gets stand-ins
(`standins.py`). The candidate's process can neither see nor signal this one; all that it can
do is to answer, and to use the objects that a test hands to it: callbacks, test doubles, files
in memory. Of those it may call what can be called and use what is public; everything else here
is out of its reach.

Whatever goes wrong on the way fails closed: a candidate that dies, hangs or sends what our
own code does not send fails the test that was running. The next test gets a new process.
"""

from __future__ import annotations

import _thread
import builtins
import importlib.machinery
import io
import operator
import os
import sys
import types
import warnings
import weakref

from . import direct, failures, light, named
from .child import NOT_FOR_SUBMISSIONS, OutOfTime
from .crossing import Garbled, Reader, Writer
from .forwarding import COMPARISONS, OPERATIONS, special_methods
from .peer import Gone, Peer, Ref
from .standins import Method, StandIn, StandInModule, StandInType
from .stock import Stock, exact_text

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    import pytest

    from .child import Channel

LOOKS = frozenset(
    (
        *("bool", "content", "contains", "describe", "dir", "format", "get", "getitem", "hash", "iter"),
        *("len", "length_hint", "next", "repr", "reversed", "str", *COMPARISONS),
    )
)
"""Operations that change nothing, but in objects that are made to do so."""
CHATTY = 300
"""Calls in one test after which both processes stay on one CPU: they take turns anyway, and it is four times faster."""
SLICE = 0.01


class CandidateLost(BaseException):
    """The candidate's process ended, or its answer could not be read.

    Not an Exception: `pytest.raises(Exception)` must not take it for what the candidate raised.
    """


class Line:
    """To the supervisor, who sees how a candidate's process ends, and has another one started."""

    def __init__(self, channel: Channel, control: int) -> None:
        self._channel = channel
        self._control = light.adopt(control)

    def lost(self) -> None:
        """Return when it is known how the candidate has ended: in this test, and not in the next."""
        self._ask("lost_candidate", b"ended")

    def renew(self) -> tuple[int, int] | None:
        """The ends of pipes to a new one; None if there have been too many."""
        fds = self._ask("new_candidate", b"new")
        return (fds[0], fds[1]) if len(fds) == 2 else None

    def _ask(self, event: str, expected: bytes) -> list[int]:
        self._channel.send({"e": event})
        while True:  # one who ran out of time while it waited has left an answer here
            answer, fds = light.receive(self._control, 16, 2)
            if answer in (expected, b"none", b""):
                return fds


class Connection(Peer):
    """The candidate, as the judge has it."""

    def __init__(
        self,
        requests: int,
        answers: int,
        line: Line,
        channel: Channel,
        suite_folder: str,
        most_output: int,
    ) -> None:
        super().__init__(answers, requests, first_number=1)
        self._line = line
        self._channel = channel
        self._suite_folder = suite_folder
        self._most_output = most_output
        self._stock = Stock(self)
        self._turn = _thread.RLock()
        self._depth = 0
        self.calls = 0
        """What was asked of the candidate in this test."""
        self._pinned = False
        self.unit = ""
        """What is being collected or run: a candidate that was lost in it stays lost until the next."""
        self.lost: tuple[str, str] | None = None
        """In which unit the candidate was lost, and how."""
        self.changes = 0
        """Counts what may have changed something in the candidate's process."""
        self.unnamed: set[tuple[str, ...]] = set()
        """What a star import has brought that the suite does not speak of."""
        self.stopped: list[StopIteration] = []
        """Raised by the candidate in this test, other than by one of its iterators."""
        self._bound: weakref.WeakValueDictionary[tuple[int, str], Any] = weakref.WeakValueDictionary()
        """Bound methods that were lent: each time that one is looked up, it is another object."""
        self.comparisons = 0
        """Comparisons that the candidate decided, between objects of its own."""
        self._printed = 0

    def _heard(self, characters: int) -> None:
        """Past the limit the supervisor is told at once, and not when the test has ended."""
        self._printed += characters
        if self._printed > self._most_output:
            self._channel.send({"e": "flood", "out": self._printed})
            self._printed = 0

    def suspect(self, what: str) -> None:
        """Say in the report what honest code might do, too."""
        self._channel.send({"e": "integrity", "suspicions": [what]})

    def begin(self, unit: str) -> None:
        self.unit, self.calls = unit, 0
        self.stopped.clear()
        if self._pinned:
            self._pinned = False
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
            if self.lost is None:
                try:
                    self.ask("unpin")
                except BaseException:  # whatever it says or does now, no test has asked for it
                    pass

    def asked(self, operation: str, operands: tuple[Any, ...], named: dict[str, Any]) -> Any:
        with self._turn:
            if self.lost is not None:
                self._replace()
            self.calls += 1
            if operation not in LOOKS:
                self.changes += 1
            if self.calls == CHATTY and not self._pinned:
                self._pin()
            self._depth += 1
            try:
                result = self._converse(operation, operands, named)
                if operation == "call" and isinstance(type(result), StandInType) and _is_class(operands[0]):
                    result._reproof.named = True
                return result
            except Gone:
                raise self._lose("its process ended") from None
            except Garbled as exc:
                raise self._lose(f"what it sent cannot be read: {exc}") from None
            except OutOfTime:
                self._lose("it ran out of time")
                raise
            except StopIteration as exc:
                if self._depth == 1 and operation not in ("next", "anext"):
                    self.stopped.append(exc)
                raise
            finally:
                self._depth -= 1

    def shortened(self, value: list[Any]) -> None:
        """A list that the candidate has given gets shorter: the test's own loop over it must not end by that."""
        import gc  # few candidates do so

        if any(type(holder) in LIST_ITERATORS for holder in gc.get_referrers(value)):
            raise Garbled("a list that is being looped over got shorter")

    def cut_short(self) -> bool:
        """Whether a StopIteration of the candidate's has ended an iteration of the test's own, as in `map(f, xs)`.

        `zip(map(f, xs), expected)` would have nothing to compare. Whoever else catches it is in its traceback.
        """
        ours = __name__.rpartition(".")[0]
        outermost = (exc.__traceback__ for exc in self.stopped)
        return any(at is None or at.tb_frame.f_globals.get("__package__") == ours for at in outermost)

    def _lose(self, how: str) -> CandidateLost:
        self.lost = (self.unit, how)
        for fd in (self._reading, self._writing):
            os.close(fd)
        self._line.lost()
        return CandidateLost(f"the candidate was lost: {how}")

    def _replace(self) -> None:
        assert self.lost is not None
        unit, how = self.lost
        if unit == self.unit:
            raise CandidateLost(f"the candidate was lost: {how}")
        ends = self._line.renew()
        if ends is None:
            raise CandidateLost(f"the candidate was lost in {unit or 'the collection'}: {how}")
        self._writing, self._reading = ends
        self.lost = None
        self.era += 1
        self._received = b""
        for table in (self.shares, self.numbers, self.lent, self._lent_as, self.borrowed):
            table.clear()
        self.forgotten.clear()
        self.released.clear()
        self._stock.renew()

    def _pin(self) -> None:
        try:
            cpu = light.call_c("sched_getcpu")
            os.sched_setaffinity(0, {cpu})
        except (AttributeError, OSError):
            return
        self._pinned = True
        self.ask("pin", cpu)

    def in_words(self, operation: str, value: Any, *more: Any) -> str:
        """Its repr or str. A candidate that is gone cannot tell, and that must not keep a failure from being told."""
        try:
            told = self.ask(operation, value, *more)
        except CandidateLost:
            return f"<{type(value).__name__} object of a candidate that is gone>"
        try:
            return exact_text(told)
        except Garbled as exc:
            raise self._lose(f"what it sent cannot be read: {exc}") from None

    async def awaited(self, awaitable: Any) -> Any:
        """The result of something of the candidate's that can be awaited. Its event loop runs while ours is here."""
        import asyncio  # whoever awaits something has it, and nobody else has to pay for it

        task = self.ask("task", awaitable)
        try:
            while not self.ask("pump", task, SLICE):  # noqa: ASYNC110  # nothing on this side could wake us
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.ask("cancel", task)
            self.ask("pump", task, SLICE)
            raise
        return self.ask("outcome", task)

    def module(self, name: str) -> StandInModule:
        found, is_package = self.ask("import", name)
        if not isinstance(found, StandIn):
            raise self._lose("it imported something that is no module")
        made = StandInModule(name)
        made._reproof = found._reproof
        made._reproof.origin = (name,)
        if is_package is True:
            made.__path__ = []
        return made

    def read_extras(self, extras: Any) -> None:
        super().read_extras(extras)
        if "k" in extras:
            self._stock.describe(extras["k"])
        for stream, text in _rows(extras.get("o", []), (str, str)):
            (sys.stderr if stream == "e" else sys.stdout).write(text)
            self._heard(len(text))
        for name, level, text in _rows(extras.get("l", []), (str, int, str)):
            _log(name, level, text)
        for category, text, path, own, line in _rows(extras.get("w", []), (str, str, str, bool, int)):
            kind = getattr(builtins, category, UserWarning)
            kind = kind if isinstance(kind, type) and issubclass(kind, Warning) else UserWarning
            warnings.warn_explicit(text, kind, os.path.join(self._suite_folder, path) if own else path, line)

    # --- handing things to the candidate --------------------------------------

    def lend(self, value: Any) -> list[Any]:
        kind = type(value)
        if issubclass(kind, (StandIn, StandInType, StandInModule)):
            ref: Ref = value._reproof
            return ["y", ref.number if ref.era == self.era else self._found_again(value)]
        if kind is Method:
            owner, name = value.words()
            return ["ym", self.lend(owner)[1], name]
        if issubclass(kind, BaseException):
            return self._exception(value)
        if kind is types.ModuleType:
            if value.__name__.partition(".")[0] in named.STANDARD:
                return ["M", value.__name__]
            raise TypeError(f"the module {value.__name__} cannot be handed to the candidate's process")
        name = _standard_name(value)
        if name is not None:
            return ["T", *name]
        if not self._may_be_lent(value, kind):
            raise TypeError(f"a {kind.__module__}.{kind.__qualname__} cannot be handed to the candidate's process")
        if kind in BOUND:
            value = self._known_method(value)
        return ["x", self.lend_as(value), kind.__name__, _offered(kind)]

    def _known_method(self, value: Any) -> Any:
        """The same for the same method: `off("click", self.handle)` is to find what `on` was given."""
        key = id(value.__self__), getattr(value, "__name__", "")
        known = self._bound.get(key)
        if known != value:
            known = self._bound[key] = value
        return known

    def _found_again(self, value: Any) -> int:
        """What a new process of the candidate's knows it by: what was found by its name has that name there, too."""
        ref: Ref = value._reproof
        if ref.origin is None:
            raise CandidateLost("this object belongs to a process of the candidate's that has ended")
        found: Any = self.module(ref.origin[0])
        for name in ref.origin[1:]:
            found = getattr(found, name)
        if not isinstance(found, (StandIn, StandInType, StandInModule)):
            raise CandidateLost(f"{'.'.join(ref.origin)} is not what it was, in the candidate's new process")
        if isinstance(value, type):
            value._reproof = found._reproof  # type: ignore[attr-defined]
        else:
            object.__setattr__(value, "_reproof", found._reproof)
        number: int = found._reproof.number
        return number

    def _exception(self, exc: BaseException) -> list[Any]:
        own = getattr(exc, "_reproof", None)
        if isinstance(own, Ref) and own.era == self.era:
            return ["y", own.number]
        kind = type(exc)
        known = named.of_class(kind) or _standard_name(kind)
        builtin = next(base for base in kind.__mro__ if named.of_class(base))
        write = Writer(self, careful=True)
        args = write.cell(tuple(arg if _is_simple(arg) else str(arg) for arg in exc.args))
        held = {name: write.cell(value) for name, value in _attributes(exc) if _is_simple(value)}
        text = str(exc).encode("utf-8", "replace").decode()
        return ["e", self.lend_as(exc), kind.__name__, known or builtin.__name__, args, text, held]

    def _may_be_lent(self, value: Any, kind: type[Any]) -> bool:
        if _is_closed(kind) or _is_tool(kind) or _is_double(kind):
            return True
        module = sys.modules.get((value if isinstance(value, type) else kind).__module__)
        return str(getattr(module, "__file__", None) or "").startswith(self._suite_folder + os.sep) and not any(
            base.__module__.partition(".")[0] in ("unittest", "pytest", "_pytest", "hypothesis")
            for base in (value if isinstance(value, type) else kind).__mro__
        )

    # --- being asked by the candidate ------------------------------------------

    def borrow(self, cell: list[Any], read: Reader) -> Any:
        if cell[0] == "y":
            return self.lent_value(cell[1])
        if cell[0] == "T":
            return named.known(cell[1], cell[2])
        return self._stock.read(cell, read)

    def carry_out(self, operation: str, operands: list[Any], keywords: dict[str, Any]) -> Any:
        if not self._depth or operation not in OPERATIONS or not operands or id(operands[0]) not in self._lent_as:
            raise Garbled(f"it asked for {operation!r} out of turn, or of something that was not handed to it")
        if operation in ("get", "set", "del", "method"):
            self._check_name(operation, operands)
        if operation in COMPARISONS and id(operands[-1]) not in self._lent_as:
            return NotImplemented
        return OPERATIONS[operation](*operands, **keywords)

    def _check_name(self, operation: str, operands: list[Any]) -> None:
        name = operands[1] if len(operands) > 1 else None
        if operation == "get" and name in NAMES:
            return
        given = operands[0]
        if type(name) is not str or name.startswith("_") or _is_closed(type(given)):
            raise AttributeError(f"{name!r} of what the test has handed in is not for the candidate")
        of_mock = _is_double(type(given))
        if of_mock:  # what takes the place of a double's own doubles could say that it was called
            theirs = isinstance(operands[-1], (StandIn, StandInType))
            fixed = theirs or name == "method_calls" or hasattr(sys.modules["unittest.mock"].Mock, name)
        else:
            fixed = callable(getattr(given if isinstance(given, type) else type(given), name, None))
        if operation in ("set", "del") and fixed:
            raise AttributeError(f"{name!r} of what the test has handed in is not to be replaced")
        if of_mock and name in RECORDERS:
            raise AttributeError(f"{name!r} of what the test has handed in is for the test")

    def raised(self, exc: BaseException) -> BaseException:
        if isinstance(exc, (OutOfTime, CandidateLost, KeyboardInterrupt)):
            raise exc
        return exc


BOUND = (types.MethodType, types.BuiltinMethodType)
CALLABLES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    operator.itemgetter,
    operator.attrgetter,
    operator.methodcaller,
)
LIST_ITERATORS: tuple[Any, ...] = (type(iter([])), type(reversed([])))
VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
TOOLS = (io.IOBase, memoryview, _thread.LockType, _thread.RLock)
"""Objects of the standard library that tests hand in to be used, and that lead nowhere else."""
OTHERS = {
    "functools": ("partial",),
    "array": ("array",),
    "queue": ("Queue",),
    "random": ("Random",),
    "re": ("Pattern", "Match"),
    "threading": ("Event", "Condition"),
}
"""More of them, of modules that only those import who use them. The first is a callable, too."""


NAMES = ("__name__", "__qualname__", "__doc__", "__module__")
"""What `functools.wraps` takes from a function, which is only text."""


RECORDERS = ("reset_mock", "configure_mock", "mock_add_spec", "attach_mock")
"""By these a test double forgets what was done with it, or learns what to say of it."""


def _offered(kind: type[Any]) -> list[str]:
    """Which special methods the candidate may use on a test's object. What it compares one with is another of them."""
    found = special_methods(kind, lambda base: base is not object)
    withheld = {"__await__", "__dir__"}
    if _is_closed(kind) or _is_tool(kind) or _is_double(kind) or issubclass(kind, type):
        withheld |= {f"__{name}__" for name in COMPARISONS} | {"__hash__"}
    return [name for name in found if (name not in withheld and not name.startswith("__r")) or name == "__repr__"]


def _is_class(called: Any) -> bool:
    """Whether what the suite calls is a class, or something of a class that it has found by its name."""
    origin = called._reproof.origin if isinstance(called, StandIn) else None
    return isinstance(called, StandInType) or any(name[:1].isupper() for name in (origin or ())[1:])


def _standard_name(value: Any) -> tuple[str, str] | None:
    """Module and name of a function or class of the standard library: the candidate has its own of that name."""
    of = getattr(value, "__objclass__", value)  # `str.upper` says only of which class it is
    module, name = getattr(of, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(name) is not str or module.partition(".")[0] not in named.STANDARD:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is value else None


def _of(*modules: str) -> tuple[Any, ...]:
    """What these hold of the above, as far as they are imported: no value can be of anything else."""
    here = [module for module in modules if module in sys.modules]
    return tuple(getattr(sys.modules[module], name) for module in here for name in OTHERS[module])


def _is_closed(kind: type[Any]) -> bool:
    """Whether it is called or iterated over, and none of its attributes is anyone's business."""
    iterates = kind.__module__ in ("builtins", "itertools") and "__next__" in vars(kind)
    return iterates or kind in CALLABLES or kind in VIEWS or kind in _of("functools")


def _is_tool(kind: type[Any]) -> bool:
    return issubclass(kind, (*TOOLS, *_of(*OTHERS)))


def _is_double(kind: type[Any]) -> bool:
    mock = sys.modules.get("unittest.mock")  # where there are doubles, it is there
    return mock is not None and issubclass(kind, mock.NonCallableMock)


def _is_simple(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str, bytes)


def _attributes(exc: BaseException) -> Iterator[tuple[str, Any]]:
    """What a test's exception holds beside its arguments, as far as it is public."""
    for base, names in named.EXCEPTION_ATTRIBUTES.items():
        if isinstance(exc, base):
            yield from ((name, getattr(exc, name)) for name in names)
    if not isinstance(exc, StandIn):  # left over from a process of the candidate's that has ended
        yield from ((name, value) for name, value in vars(exc).items() if not name.startswith("_"))


def _log(name: str, level: int, text: str) -> None:
    import logging

    logger = logging.getLogger(name)
    logger.handle(logger.makeRecord(name, level, "candidate", 0, text, (), None))


def _rows(rows: Any, kinds: tuple[type[Any], ...]) -> Any:
    if type(rows) is not list:
        raise Garbled("a list is none")
    for row in rows:
        if type(row) is not list or tuple(map(type, row)) != kinds:
            raise Garbled("a row of other things than there should be")
    return rows


# --- importing ------------------------------------------------------------------


class Importer:
    """Finds the submission's modules: as stand-ins, and before anything else does."""

    def __init__(self, connection: Connection, tops: Iterable[str]) -> None:
        self._connection = connection
        self._tops = frozenset(tops)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in self._tops:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=name)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = self._connection.module(spec.name)
        spec.submodule_search_locations = getattr(module, "__path__", None)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


# --- telling --------------------------------------------------------------------


class Describer(failures.Describer):
    """Describes a failure with what happened on both sides."""

    def __init__(self, workspace: str, suite: Iterable[str], texts: Mapping[str, str], connection: Connection) -> None:
        super().__init__(workspace, suite, texts)
        self._connection = connection

    def __call__(self, exc: BaseException, traceback: types.TracebackType | None, depth: int = 0) -> dict[str, Any]:
        described = super().__call__(exc, traceback, depth)
        described["bases"] = [name for name in described["bases"] if name != StandIn.__name__]
        if isinstance(getattr(exc, "_reproof", None), Ref):
            self._add_candidate(described, exc)
        return described

    def _add_candidate(self, described: dict[str, Any], exc: BaseException) -> None:
        try:
            told = self._connection.ask("describe", exc)
            frames = [_frame(frame) for frame in told["frames"][: failures.FRAMES]]
            described["frames"] += frames
            described["frames_cut"] += int(told["frames_cut"])
            if isinstance(exc, SyntaxError) and "syntax" in told:
                syntax = told["syntax"]
                described["syntax"] = {
                    "path": str(syntax["path"]),
                    "owner": "submission",
                    "line": syntax["line"] if type(syntax["line"]) is int else None,
                    "column": syntax["column"] if type(syntax["column"]) is int else None,
                    "text": str(syntax["text"]),
                }
        except BaseException:  # a SystemExit of the candidate's, too: then there is less to tell
            pass


def _frame(told: Any) -> dict[str, Any]:
    """A frame of the candidate's, in its own words; whatever it says, it is not the suite's."""
    frame: dict[str, Any] = {
        "path": str(told["path"]),
        "line": int(told["line"]),
        "function": str(told["function"]),
        "source": str(told["source"]),
        "owner": "submission" if told["owner"] == "submission" else "library",
    }
    if type(told.get("locals")) is dict:
        frame["locals"] = {str(name): str(value) for name, value in told["locals"].items()}
        frame["locals_cut"] = int(told.get("locals_cut", 0))
    return frame


class Watch:
    """Says to the connection what is being run, and fails a test that has lost the candidate."""

    def __init__(self, connection: Connection, channel: Channel) -> None:
        self._connection, self._channel = connection, channel

    def begin(self, unit: str) -> None:
        self._connection.begin(unit)

    def check(self, unit: str) -> None:
        lost = self._connection.lost
        if lost is not None and lost[0] == unit:  # a test may have caught what it was told
            raise CandidateLost(f"the candidate was lost: {lost[1]}")
        if self._connection.cut_short():
            raise RuntimeError("the submission raised StopIteration, and a loop over its results ended early")

    def end(self) -> None:
        self._channel.send({"e": "asked", "count": self._connection.comparisons})


def run(
    job: dict[str, Any],
    workspace: str,
    channel: Channel,
    ready: pytest.Session | None,
    requests: int,
    answers: int,
    control: int,
) -> None:
    """Run the suite, with the candidate at the other end of the two pipes."""
    most_output = job["limits"]["output_kb"] * 1024
    connection = Connection(
        requests, answers, Line(channel, control), channel, os.path.realpath(workspace), most_output
    )
    sys.meta_path.insert(0, Importer(connection, tops(job)))
    suite = [path for path, _ in job["suite"]]
    describe = Describer(workspace, suite, failures.texts(job["suite"]), connection)
    watch = Watch(connection, channel)
    if job["direct"]:
        direct.DirectRun(job, workspace, channel, ready, describe, watch).to_the_end()
        return
    from . import testing

    testing.run(job, workspace, channel, ready, describe, watch)


def tops(job: dict[str, Any]) -> set[str]:
    """The names by which the submission's modules are imported, but for those that the suite or Python has itself.

    Nor does `pytest` mean the submission's, whether it has been imported by then or not.
    """
    own = {path.removeprefix("src/").partition("/")[0].removesuffix(".py") for path in job["submitted"]}
    suite = {path.partition("/")[0].removesuffix(".py") for path, _ in job["suite"]}
    others = named.STANDARD | NOT_FOR_SUBMISSIONS
    return {name for name in own - suite if name.isidentifier() and name not in others}
