"""What the guest sent of one failure → a `Failure`. Nothing in it is trusted to be well-formed."""

from __future__ import annotations

from typing import Any

from .models import Assertion, ErrorInfo, Failure, Frame, HypothesisInfo

__all__ = ["describe_failure", "number"]

Event = dict[str, Any]
DEEPEST = 8


def describe_failure(nodeid: str, phase: str, event: Event) -> Failure:
    raw = event.get("failure")
    error = _error(raw) if isinstance(raw, dict) else None
    kind = _kind(raw, error) if isinstance(raw, dict) and error is not None else "lost"
    message = _headline(error, event)
    data = raw if isinstance(raw, dict) else {}
    syntax = data.get("syntax") or {}
    frames = error.frames if error is not None else ()
    place = _last_place(frames, "submission")
    test_place = _last_place(frames, "suite")
    if syntax.get("path") and syntax.get("line"):
        where = f"{syntax['path']}:{syntax['line']}"
        place, test_place = (where, test_place) if syntax.get("owner") == "submission" else (place, where)
    return Failure.model_validate(
        {
            "nodeid": nodeid,
            "phase": phase,
            "kind": kind,
            "message": message,
            "exception": error,
            "assertion": _assertion(data, error),
            "frames": frames,
            "frames_cut": error.frames_cut if error is not None else 0,
            "place": place,
            "test_place": test_place,
            "hypothesis": HypothesisInfo(**data["hypothesis"]) if data.get("hypothesis") else None,
            "subtest": event.get("subtest"),
            "stdout": str(event.get("stdout", "")),
            "stderr": str(event.get("stderr", "")),
            "log": str(event.get("log", "")),
            "seconds": number(event.get("seconds")),
        }
    )


def _error(raw: dict[str, Any], depth: int = 0) -> ErrorInfo:
    cause = raw.get("cause") if depth < DEEPEST else None
    return ErrorInfo(
        type=str(raw["type"]),
        module=str(raw.get("module", "")),
        message=str(raw.get("message", "")),
        notes=tuple(str(note) for note in raw.get("notes", ())),
        missing=raw.get("missing"),
        cause=_error(cause, depth + 1) if isinstance(cause, dict) else None,
        explicit_cause=bool(isinstance(cause, dict) and cause.get("explicit")),
        group=tuple(_error(inner, depth + 1) for inner in raw.get("group", ()) if depth < DEEPEST),
        frames=tuple(Frame(**frame) for frame in raw.get("frames", ())),
        frames_cut=int(raw.get("frames_cut", 0)),
    )


def _kind(raw: dict[str, Any], error: ErrorInfo) -> str:
    if error.type == "OutOfTime" and error.module.startswith("reproof_guest"):
        return "timeout"
    if error.type == "CandidateLost" and error.module.startswith("reproof_guest"):
        return "lost"
    lineage = [error.type, *[str(base) for base in raw.get("bases", ())]]
    for name, kind in (
        ("SyntaxError", "syntax"),
        ("ImportError", "import"),
        ("AssertionError", "assertion"),
        ("Failed", "assertion"),
        ("MemoryError", "memory"),
        ("RecursionError", "recursion"),
        ("SystemExit", "exit"),
        ("Exit", "exit"),
        ("KeyboardInterrupt", "exit"),
    ):
        if name in lineage:
            return kind
    return "exception"


def _headline(error: ErrorInfo | None, event: Event) -> str:
    if error is None:
        return str(event.get("lost", "the test's process died")).strip().splitlines()[0][:500]
    first = next((line for line in error.message.splitlines() if line.strip()), "")
    if error.type in ("AssertionError", "OutOfTime", "Failed", "CandidateLost"):
        return first[:500] or "assertion failed"
    return f"{error.type}: {first}"[:500] if first else error.type


def _assertion(data: dict[str, Any], error: ErrorInfo | None) -> Assertion | None:
    found = data.get("assertion")
    if not isinstance(found, dict) or error is None:
        return None
    told = {name: str(found[name]) for name in ("operator", "left", "right", "diff")}
    return Assertion(**told, explanation=error.message)


def _last_place(frames: tuple[Frame, ...], owner: str) -> str | None:
    for frame in reversed(frames):
        if frame.owner == owner:
            return f"{frame.path}:{frame.line}"
    return None


def number(value: Any) -> float:
    """A finite number, whatever was sent."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e9 else 0.0
