"""A model's reply → files.

What is understood: one fenced block; several, each with its path; a unified diff, fenced or not;
a file without any fence. Prose may stand around all of it. What cannot be understood is
an `Unreadable` whose text is written for the model: it is told, and asked again.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness import Submission

from .patches import Misfit, apply, is_patch

__all__ = ["DEFAULT_PATH", "Unreadable", "blocks_of", "read_reply"]

DEFAULT_PATH = "solution.py"
"""What a block without a path is, if the submission so far leaves it open."""

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]*)$", re.MULTILINE)
_PATH = r"(?:[\w.+-]+/)*[\w.+-]*\w\.[A-Za-z]\w{0,9}"
_IN_INFO = re.compile(rf"(?:^|[\s:=\"'(])({_PATH})(?=$|[\s\"')])")
_BEFORE = re.compile(
    rf"^\W*(?:\d+[.)]\W+)?(?:(?:file|path|filename|datei)\W+)?({_PATH})\W*(?:\((?:new|updated)\b.*)?$", re.IGNORECASE
)
_FIRST_LINE = re.compile(rf"^(?:#|//|--|/\*|<!--)\s*(?:(?:file|path|filename)\s*:\s*)?({_PATH})\s*(?:\*/|-->)?$", re.I)
_PYTHON = ("", "python", "py", "python3", "py3")
# Of a file without a fence: lines that prose does not begin with, and those that may come after one.
_STARTS = re.compile(
    r"(?:async )?def \w|class \w+[(:]|import [\w.]+(?: as \w+)?(?:, ?[\w.]+)*\s*$|from [\w.]+ import |@\w+|[A-Z_]+ = "
)
_GOES_ON = re.compile(r"\s|$|[)\]}#]")
_TESTS = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")


class Unreadable(Exception):
    """No code could be taken from a reply; says why, to the one who wrote it."""


@dataclass(frozen=True)
class Block:
    """A fenced block and the path that it is said to be of."""

    language: str
    path: str | None
    text: str
    closed: bool = True
    above: str = ""
    """The line before it."""


def read_reply(text: str, before: Submission | None = None) -> Submission:
    """The submission that the reply makes of the one before it.

    Files that the reply does not speak of stay as they were.

    Raises:
        Unreadable: there is no code in it, or none that can be placed.
    """
    text = text.replace("\r\n", "\n")
    files = dict(before.files) if before is not None else {}
    blocks = list(blocks_of(text))
    patches = [block for block in blocks if block.language in ("diff", "patch") or is_patch(block.text)]
    if not blocks and is_patch(text):
        patches = [Block("diff", None, text)]
    try:
        changed = _patched(patches, files) if patches else {**files, **_whole_files(text, blocks, files)}
        return Submission.from_files(changed)
    except Misfit as exc:
        raise Unreadable(str(exc)) from None
    except ValueError as exc:  # a path that leaves the workspace, or text that is none
        raise Unreadable(f"The files of your reply cannot be taken: {exc}") from None


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks. One that is not closed reaches to the end: the reply was cut off."""
    position = 0
    while (opening := _FENCE.search(text, position)) is not None:
        start = min(opening.end() + 1, len(text))
        fence = opening["fence"]
        # One that is indented further is of a docstring, or of a list inside: it ends nothing, as in CommonMark.
        most = len(opening["indent"]) + 3
        closing = re.compile(rf"^[ \t]{{0,{most}}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$", re.MULTILINE).search(
            text, start
        )
        end = closing.start() if closing is not None else len(text)
        body = text[start:end]
        if opening["indent"]:
            body = textwrap.dedent(body)
        info = opening["info"].strip()
        above = _line_above(text[: opening.start()])
        yield Block(
            language=re.split(r"[\s:={]", info, maxsplit=1)[0].lower(),
            path=_path_of(info, above, body),
            text=body,
            closed=closing is not None,
            above=above,
        )
        position = closing.end() if closing is not None else len(text)


def _line_above(text: str) -> str:
    return next((line for line in reversed(text[-500:].splitlines()[-2:]) if line.strip()), "")


def _path_of(info: str, above: str, body: str) -> str | None:
    if found := _IN_INFO.search(info):
        return _relative(found[1])
    if found := _BEFORE.match(above):
        return _relative(found[1])
    if found := _FIRST_LINE.match(body.partition("\n")[0].strip()):
        return _relative(found[1])
    return None


def _relative(path: str) -> str:
    return path.removeprefix("./")


def _patched(patches: Sequence[Block], files: dict[str, bytes]) -> dict[str, bytes]:
    for block in patches:
        _check_closed(block)
    return apply("\n".join(block.text for block in patches), files)


def _whole_files(text: str, blocks: Sequence[Block], files: dict[str, bytes]) -> dict[str, bytes]:
    blocks = blocks or [Block("", None, _unfenced(text))]
    named = {block.path: block for block in blocks if block.path is not None}
    if not named and len(files) > 1:
        named = {path: block for block in blocks if (path := _mentioned(block.above, files)) is not None}
    others = [path for path in named if not _TESTS.search(path)]
    if not others or not any(path.endswith(".py") for path in (*files, *others)):  # tests or notes, and no code
        unnamed = [block for block in blocks if block not in named.values()]
        if chosen := _longest(block for block in unnamed if block.language in _PYTHON and block.text.strip()):
            named = {**named, _only_path(files): chosen}
    if not named:
        raise Unreadable(
            "There is no code in your reply. Answer with the complete file in one fenced block; "
            "for several files put the path of each on the line before its block."
        )
    for block in named.values():
        _check_closed(block)
    return {path: _encoded(block.text) for path, block in named.items()}


def _mentioned(line: str, files: Iterable[str]) -> str | None:
    """The one of these files that a line of prose speaks of."""
    found = set(re.findall(_PATH, line)) & set(files)
    return found.pop() if len(found) == 1 else None


def _longest(blocks: Iterable[Block]) -> Block | None:
    """A fragment or an example of use may stand beside the file: that is the longest."""
    return max(blocks, key=lambda block: len(block.text), default=None)


def _unfenced(text: str) -> str:
    """All of it if that is a program, else from the first line that prose would not begin with to the last."""
    if _is_program(text):
        return text
    lines = text.split("\n")
    starts = [index for index, line in enumerate(lines) if _STARTS.match(line)]
    if not starts:
        return ""
    end = starts[-1] + 1
    while end < len(lines) and _GOES_ON.match(lines[end]):
        end += 1
    return "\n".join(lines[starts[0] : end]).rstrip() + "\n"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _check_closed(block: Block) -> None:
    if not block.closed:
        raise Unreadable(
            "Your reply ends in the middle of a fenced block: it was cut off, and nothing of it was run. "
            "Answer again, with the code alone and no explanation."
        )


def _only_path(files: dict[str, bytes]) -> str:
    if not files or DEFAULT_PATH in files:
        return DEFAULT_PATH
    if len(files) == 1:
        return next(iter(files))
    modules = [path for path in files if path.endswith(".py")]
    if len(modules) == 1:
        return modules[0]
    shown = ", ".join(sorted(modules or files)[:10])
    raise Unreadable(
        "Your reply does not say which file its code is. Put the path on the line before the block; "
        f"the files are {shown}."
    )


def _is_program(text: str) -> bool:
    """Whether all of it is Python, and more than an expression, which a single word is as well."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(statement, ast.Expr | ast.AnnAssign) for statement in tree.body)
