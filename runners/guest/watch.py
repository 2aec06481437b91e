"""Notes what the candidate does that honest solutions have little use for. An audit hook cannot be removed.

Most of what is noted here decides nothing. Two things do, because they are proof: another code, class
or base for something of pytest's, and a write to the suite's files.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any

    from .failures import Describer

MOST = 12
DEEP = 12
"""Frames between what is noted and who asked for it."""

_TOLD = {
    "gc.get_objects": "listed the interpreter's objects (gc.get_objects)",
    "gc.get_referrers": "looked for what refers to an object (gc.get_referrers)",
    "gc.get_referents": "looked for what an object refers to (gc.get_referents)",
    "sys._getframe": "looked at the stack of its callers",
    "sys._current_frames": "looked at the stacks of all threads",
    "sys.settrace": "set a trace function",
    "sys.setprofile": "set a profile function",
    "sys.addaudithook": "added an audit hook",
    "sys.monitoring.register_callback": "watches the interpreter (sys.monitoring)",
    "ctypes.dlopen": "loaded a C library (ctypes)",
    "ctypes.dlsym": "called into C (ctypes)",
    "ctypes.dlsym/handle": "called into C (ctypes)",
    "ctypes.string_at": "read raw memory (ctypes)",
    "ctypes.cdata": "wrote to raw memory (ctypes)",
    "os.kill": "sent a signal",
    "os.killpg": "sent a signal",
    "signal.pthread_kill": "sent a signal",
}
_FILES = {"open": 0, "os.remove": 0, "os.rename": 0, "os.chmod": 0, "os.truncate": 0, "os.link": 0, "os.symlink": 1}
_SPECIAL = ("__code__", "__defaults__", "__kwdefaults__", "__class__", "__bases__")
_OTHERS_MEMORY = ("/mem", "/maps", "/pagemap")


rejected: Callable[[FrameType], None] | None = None
"""Told where someone has Hypothesis drop the input that it was tested with."""


dropped: Callable[[TracebackType | None], None] | None = None
"""Told from where an exception came by which Hypothesis dropped an input."""


swapped: Callable[[], None] | None = None
"""Told that Hypothesis has something else to run than it began with."""


def listen_to_rejections() -> None:
    """`reject()`, `assume()` and the like end in one of these exceptions, by whatever name they are called."""
    errors = sys.modules.get("hypothesis.errors")
    state = getattr(sys.modules.get("hypothesis.core"), "StateForActualGivenExecution", None)
    stock = getattr(state, "_execute_once_for_engine", None)
    if stock is not None and not hasattr(stock, "listens"):
        names = ("UnsatisfiedAssumption", "StopTest", "BackendCannotProceed")
        kinds = tuple(getattr(errors, name) for name in names if hasattr(errors, name))
        state._execute_once_for_engine = _telling(stock, kinds)  # type: ignore[union-attr]
    for name in ("UnsatisfiedAssumption", "StopTest"):
        found = getattr(errors, name, None)
        if found is not None and not hasattr(found.__init__, "listens"):
            found.__init__ = _listening(found.__init__)


def _telling(stock: Any, kinds: tuple[type[BaseException], ...]) -> Any:
    """An exception need not have been made as exceptions are: those that end an input are looked at, too."""

    def _execute_once_for_engine(self: Any, data: Any) -> None:
        test = self.test
        try:
            stock(self, data)
            if swapped is not None and (self.test is not test or "execute_once" in vars(self)):
                swapped()
        except kinds as exc:
            for raised in (exc, exc.__context__):
                if dropped is not None and isinstance(raised, kinds):
                    dropped(raised.__traceback__)
            raise

    _execute_once_for_engine.listens = True  # type: ignore[attr-defined]
    return _execute_once_for_engine


def _listening(stock: Any) -> Any:
    frame_of = sys._getframe

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        stock(self, *given, **named)
        if rejected is not None:
            rejected(frame_of(1))

    __init__.listens = True  # type: ignore[attr-defined]
    return __init__


class Watch:
    """Told apart by who asked: only what a file of the submission does is noted."""

    def __init__(self, describe: Describer, is_ours: Callable[[Any], bool]) -> None:
        self._describe, self._is_ours = describe, is_ours
        self.suspicions: dict[str, str] = {}
        self.findings: dict[str, str] = {}
        self.touched = False
        """Whether anything of the submission has been read, and so may have run."""
        self.raw = False
        """Whether anyone has been at raw memory."""

    def listen(self) -> None:
        sys.addaudithook(self._hook(self._describe, self._is_ours))

    def _hook(self, describe: Describer, is_ours: Callable[[Any], bool]) -> Callable[[str, tuple[Any, ...]], None]:
        frame_of, told = sys._getframe, _TOLD
        busy = False

        def hook(event: str, args: tuple[Any, ...]) -> None:
            nonlocal busy
            if event.startswith("ctypes."):
                self.raw = True
            if busy or not (event in told or event in _FILES or event == "object.__setattr__"):
                return
            busy = True
            try:
                if event in told:
                    if len(self.suspicions) < MOST:
                        self._suspect(describe, frame_of(1), event, told[event])
                elif event == "object.__setattr__":
                    if args[1] in _SPECIAL and is_ours(args[0]):
                        self._replaced(describe, frame_of(1), args)
                else:
                    self._file(describe, frame_of(1), event, args[_FILES[event]])
            except Exception:
                pass
            finally:
                busy = False

        return hook

    def _suspect(self, describe: Describer, frame: FrameType | None, event: str, what: str) -> None:
        deep = DEEP
        if event == "sys._getframe" and frame is not None:  # the standard library does it all the time
            deep = 2 if frame.f_code.co_filename.endswith("inspect.py") else 1
        place = place_of(describe, frame, deep)
        if place is not None:
            self.suspicions.setdefault(what, f"the submission {what}, {place}")

    def _replaced(self, describe: Describer, frame: FrameType | None, args: tuple[Any, ...]) -> None:
        place = place_of(describe, frame, DEEP)
        if place is not None:
            owner = args[0] if isinstance(args[0], type) or hasattr(args[0], "__qualname__") else type(args[0])
            what = f"{owner.__module__}.{owner.__qualname__}"
            self.findings.setdefault(what, f"the submission replaced {args[1]} of {what}, {place}")

    def _file(self, describe: Describer, frame: FrameType | None, event: str, given: Any) -> None:
        if isinstance(given, int):
            return
        path = os.fsdecode(given)
        inside = describe.relative(os.path.normpath(path))
        if inside is None:
            if path.startswith("/proc/") and path.endswith(_OTHERS_MEMORY):
                self.raw = True
                self._suspect(describe, frame, event, f"opened {path}")
            return
        if inside not in describe.suite:
            self.touched = True
        elif inside.endswith(".py"):
            self._suspect(describe, frame, event, f"{'opened' if event == 'open' else 'changed'} the suite's {inside}")


def place_of(describe: Describer, frame: FrameType | None, deep: int) -> str | None:
    """Where in the submission, if the nearest frame that is anyone's own is one of the submission's."""
    for _ in range(deep):
        if frame is None:
            return None
        path = describe.relative(frame.f_code.co_filename)
        if path is not None:
            return None if path in describe.suite else f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return None
