"""Unified diffs as models write them: wrong line numbers and counts are normal, wrong lines are not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Misfit", "apply", "is_patch"]

_HUNK = re.compile(r"^@@(?: -(?P<old>\d+)(?:,(?P<count>\d+))? \+\d+(?:,\d+)? )?(?:@@.*)?$")
_NOWHERE = "/dev/null"


class Misfit(Exception):
    """A diff does not apply; says which part, and what was looked for, to the one who wrote it."""


@dataclass
class _Hunk:
    near: int
    """The line, from 0, where it says that it belongs."""
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


@dataclass
class _FilePatch:
    source: str
    target: str
    hunks: list[_Hunk] = field(default_factory=list)


def is_patch(text: str) -> bool:
    lines = text.split("\n")
    return any(_HUNK.match(line) for line in lines) and any(line.startswith("--- ") for line in lines)


def apply(patch: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files after the patch. All of it applies, or none.

    A hunk is looked for by its lines, nearest to where it says that it belongs; white space at the ends
    of lines does not matter.

    Raises:
        Misfit: something does not apply.
    """
    changed = dict(files)
    found = list(_parse(patch))
    if not any(part.hunks or _NOWHERE in (part.source, part.target) for part in found):
        raise Misfit(
            "Your diff holds no change: every hunk starts with an @@ line, under the ---/+++ lines of its file."
        )
    for part in found:
        if part.target == _NOWHERE:
            if changed.pop(_resolve(part.source, changed), None) is None:
                raise Misfit(
                    f"Your diff does not apply: it removes {_stripped(part.source)}, and there is no such file."
                )
            continue
        source = _resolve(part.source, changed) if part.source != _NOWHERE else None
        if source is not None and source not in changed and any(hunk.before for hunk in part.hunks):
            shown = ", ".join(sorted(changed)[:10]) or "none"
            raise Misfit(
                f"Your diff does not apply: it changes {source}, and there is no such file; the files are {shown}."
            )
        old = changed.get(source, b"") if source is not None else b""
        target = _resolve(part.target, changed)
        changed[target] = _patched(old, part, target)
    return changed


def _parse(patch: str) -> Iterator[_FilePatch]:
    lines = patch.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    part: _FilePatch | None = None
    hunk: _Hunk | None = None
    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if line.startswith("--- ") and following.startswith("+++ "):
            if part is not None:
                yield part
            part, hunk = _FilePatch(_name(line), _name(following)), None
        elif part is not None and _HUNK.match(line):
            found = _HUNK.match(line)
            assert found is not None
            # Of a hunk that only adds, the number is that of the line before it.
            hunk = _Hunk(near=max(0, int(found["old"] or 1) - (found["count"] != "0")))
            part.hunks.append(hunk)
        elif hunk is not None:
            hunk = _add(hunk, line)
    if part is not None:
        yield part


def _name(line: str) -> str:
    return line[4:].partition("\t")[0].strip().strip('"')


def _add(hunk: _Hunk, line: str) -> _Hunk | None:
    """The hunk goes on, or has ended with this line."""
    if line.startswith("+") and not line.startswith("+++ "):
        hunk.after.append(line[1:])
    elif line.startswith("-") and not line.startswith("--- "):
        hunk.before.append(line[1:])
    elif line.startswith(" ") or not line:
        hunk.before.append(line[1:])
        hunk.after.append(line[1:])
    elif not line.startswith("\\"):  # "\ No newline at end of file"
        return None
    return hunk


def _stripped(name: str) -> str:
    return name[2:] if name[:2] in ("a/", "b/") else name.removeprefix("./")


def _resolve(name: str, files: Mapping[str, bytes]) -> str:
    """git writes a/ and b/ before paths; a folder may have such a name, too."""
    if name in files:
        return name
    short = _stripped(name)
    if short not in files and len(files) == 1 and next(iter(files)).rpartition("/")[2] == short.rpartition("/")[2]:
        return next(iter(files))
    return short


def _patched(old: bytes, part: _FilePatch, path: str) -> bytes:
    text = old.decode("utf-8", "surrogateescape")
    crlf = "\r\n" in text
    lines = text.replace("\r\n", "\n").split("\n")
    ended = lines[-1] == ""
    if ended:
        lines.pop()
    moved = 0
    for number, hunk in enumerate(part.hunks, 1):
        _trim(hunk, lines)
        at = _place(hunk.before, lines, hunk.near + moved)
        if at is None:
            looked_for = "\n".join(hunk.before[:6])
            raise Misfit(
                f"Your diff does not apply: the lines that hunk {number} of {path} removes or keeps are not in "
                f"the file as it is:\n{looked_for}\nNothing was run. Answer with the complete file instead."
            )
        lines[at : at + len(hunk.before)] = hunk.after
        moved += len(hunk.after) - len(hunk.before)
    result = "\n".join(lines) + ("\n" if (ended or not old) and lines else "")
    return (result.replace("\n", "\r\n") if crlf else result).encode("utf-8", "surrogateescape")


def _trim(hunk: _Hunk, lines: Sequence[str]) -> None:
    """Blank lines behind a hunk are the reply's own, if the file does not have them there."""
    while hunk.before and hunk.after and not hunk.before[-1].strip() and not hunk.after[-1].strip():
        if _place(hunk.before, lines, hunk.near) is not None:
            return
        hunk.before.pop()
        hunk.after.pop()


def _place(wanted: Sequence[str], lines: Sequence[str], near: int) -> int | None:
    """Where these lines stand, nearest to a line; for no lines at all, that line."""
    if not wanted:
        return min(near, len(lines))
    plain = [line.rstrip() for line in lines]
    looked_for = [line.rstrip() for line in wanted]
    last = len(plain) - len(looked_for)
    starts = [start for start in range(last + 1) if plain[start : start + len(looked_for)] == looked_for]
    return min(starts, key=lambda start: abs(start - near), default=None)
