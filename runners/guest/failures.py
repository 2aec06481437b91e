"""An exception as data: type, message, causes, frames, locals. Bounded, and marked where cut.

Everything here touches the candidate's objects, whose `__repr__` and `__str__`
may raise, hang or lie; the supervisor's clock is running meanwhile.
"""

from __future__ import annotations

import os

from .light import from_base64

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import FrameType, TracebackType
    from typing import Any

MESSAGE = 8_000
FRAMES = 40
LOCALS = 20
LOCAL = 300
CAUSES = 5
OPERAND = 4_000

_compile = compile


def cut(text: str, most: int) -> str:
    """The text's head and tail, with a mark between that says how much is missing."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return "%s\n[... %d characters cut ...]\n%s" % (text[:head], len(text) - head - tail, text[-tail:])


def safe_repr(value: object, most: int) -> str:
    try:
        text = repr(value)
    except Exception as exc:
        text = "<%s object whose repr raised %s>" % (type(value).__name__, type(exc).__name__)
    if len(text) > most:
        text = "%s… [%d characters cut]" % (text[:most], len(text) - most)
    return text


def safe_str(value: object) -> str:
    try:
        return str(value)
    except Exception as exc:
        return "<%s object whose str raised %s>" % (type(value).__name__, type(exc).__name__)


def _of_type(kind: type[Any], value: Any) -> Any:
    """What an exception holds is what whoever raised it has put there; only what belongs there is told."""
    return value if isinstance(value, kind) else None


def texts(suite: Sequence[Any]) -> dict[str, str]:
    """The suite's own Python, as it was sent and not as it may stand on disk by now."""
    return {path: from_base64(data).decode("utf-8", "replace") for path, data in suite if path.endswith(".py")}


class Describer:
    """Knows which file is whose: the suite's, the submission's, or a library's."""

    def __init__(self, workspace: str, suite: Iterable[str], texts: Mapping[str, str] | None = None) -> None:
        self.workspace = os.path.realpath(workspace)
        self.suite = frozenset(suite)
        self.texts = texts or {}
        """The suite's own Python, as it was sent and not as it may stand on disk by now."""

    def owner(self, filename: str) -> str:
        path = self.relative(filename)
        if path is None:
            return "library"
        return "suite" if path in self.suite else "submission"

    def relative(self, filename: str) -> str | None:
        """The path inside the workspace, or None for a file from elsewhere."""
        if filename.startswith("<"):
            return None
        path = filename if os.path.isabs(filename) else os.path.join(self.workspace, filename)
        prefix = self.workspace + os.sep
        return path[len(prefix) :] if path.startswith(prefix) else None

    def __call__(self, exc: BaseException, traceback: TracebackType | None, depth: int = 0) -> dict[str, Any]:
        frames, missing = self._frames(traceback)
        described: dict[str, Any] = {
            "type": type(exc).__name__,
            "module": getattr(type(exc), "__module__", None) or "",
            "bases": [base.__name__ for base in type(exc).__mro__[1:-1]][:8],
            "message": cut(safe_str(exc), MESSAGE),
            "frames": frames,
            "frames_cut": missing,
        }
        notes = getattr(exc, "__notes__", None)
        if isinstance(notes, list) and notes:
            described["notes"] = [cut(str(note), MESSAGE) for note in notes[:10]]
        described.update(self._particulars(exc))
        if depth < CAUSES:
            self._add_causes(described, exc, depth)
        return described

    def _particulars(self, exc: BaseException) -> dict[str, Any]:
        if isinstance(exc, SyntaxError):
            filename = _of_type(str, exc.filename)
            path, owner = self.relative(filename or "<unknown>"), self.owner(filename or "<unknown>")
            if owner == "suite" and self._compiles(path):
                owner = "submission"  # whoever raised it was not the compiler
            return {
                "syntax": {
                    "path": path or filename,
                    "owner": owner,
                    "line": _of_type(int, exc.lineno),
                    "column": _of_type(int, exc.offset),
                    "text": cut((_of_type(str, exc.text) or "").rstrip("\n"), LOCAL),
                }
            }
        if isinstance(exc, ImportError):
            return {"missing": _of_type(str, getattr(exc, "name", None))}
        if isinstance(exc, OSError) and isinstance(exc.errno, int):
            return {"errno": exc.errno}
        return {}

    def _add_causes(self, described: dict[str, Any], exc: BaseException, depth: int) -> None:
        cause = exc.__cause__
        if cause is None and not exc.__suppress_context__:
            cause = exc.__context__
        if cause is not None and cause is not exc:
            described["cause"] = self(cause, cause.__traceback__, depth + 1)
            described["cause"]["explicit"] = exc.__cause__ is not None
        group = getattr(exc, "exceptions", None)
        if isinstance(group, tuple):
            described["group"] = [
                self(inner, inner.__traceback__, depth + 1)
                for inner in group[:CAUSES]
                if isinstance(inner, BaseException)
            ]

    def _frames(self, traceback: TracebackType | None) -> tuple[list[dict[str, Any]], int]:
        chain = []
        while traceback is not None:
            filename = traceback.tb_frame.f_code.co_filename
            if not _is_machinery(filename):
                chain.append(traceback)
            traceback = traceback.tb_next
        missing = max(0, len(chain) - FRAMES)
        if missing:  # the ends tell where a recursion came from and where it died
            chain = chain[: FRAMES // 2] + chain[-FRAMES // 2 :]
        return [self._frame(entry) for entry in chain], missing

    def _frame(self, entry: TracebackType) -> dict[str, Any]:
        code = entry.tb_frame.f_code
        owner = self.owner(code.co_filename)
        path = self.relative(code.co_filename)
        frame: dict[str, Any] = {
            "path": path or _outside(code.co_filename),
            "line": entry.tb_lineno,
            "function": code.co_name,
            "source": cut(self._line(path, code.co_filename, entry.tb_lineno).strip(), LOCAL),
            "owner": owner,
        }
        if owner == "submission":
            frame["locals"], frame["locals_cut"] = _locals(entry.tb_frame)
        return frame

    def _compiles(self, path: str | None) -> bool:
        try:
            _compile(self.texts.get(path or "", ""), "<suite>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True

    def _line(self, path: str | None, filename: str, number: int) -> str:
        if path is not None and path in self.texts:
            lines = self.texts[path].splitlines()
            return lines[number - 1] if 0 < number <= len(lines) else ""
        import linecache

        return linecache.getline(filename, number)


def _locals(frame: FrameType) -> tuple[dict[str, str], int]:
    names = [name for name in frame.f_locals if not name.startswith(("__", "@"))]
    if frame.f_code.co_name == "<module>":
        return {}, 0  # a module's globals are its source, not its state
    return {name: safe_repr(frame.f_locals[name], LOCAL) for name in names[:LOCALS]}, max(0, len(names) - LOCALS)


_MACHINERY = tuple(
    os.sep + part for part in ("_pytest" + os.sep, "pluggy" + os.sep, "importlib" + os.sep + "__init__.py")
)


def _is_machinery(filename: str) -> bool:
    return (
        filename.startswith(("<frozen importlib", "<reproof_guest"))
        or any(part in filename for part in _MACHINERY)
        or filename.endswith(os.sep + "runpy.py")
        or filename == "<frozen runpy>"
    )


def _outside(filename: str) -> str:
    """A library's file without the machine's own path before it."""
    for mark in ("site-packages", "dist-packages"):
        _, found, after = filename.rpartition(os.sep + mark + os.sep)
        if found:
            return after
    _, found, after = filename.rpartition(os.sep + "lib" + os.sep)
    return after if found else filename
