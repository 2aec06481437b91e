"""A model's reply → files.

What is understood: one fenced block; several, each with its path; a unified diff, fenced or not;
a reply that is nothing but the file. Prose may stand around all of it. What cannot be understood is
an `Unreadable` whose text is written for the model: it is told, and asked again.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness import Submission

from .patches import Misfit, apply, is_patch

__all__ = ["DEFAULT_PATH", "Unreadable", "blocks_of", "read_reply"]

DEFAULT_PATH = "solution.py"
"""What a block without a path is, if the submission so far leaves it open."""

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]*)$", re.MULTILINE)
_PATH = r"(?:[\w.+-]+/)*[\w.+-]*\w\.[A-Za-z]\w{0,9}"
_IN_INFO = re.compile(rf"(?:^|[\s:=\"'(])({_PATH})(?=$|[\s\"')])")
_BEFORE = re.compile(rf"^\W*(?:(?:file|path|filename|datei)\W+)?({_PATH})\W*$", re.IGNORECASE)
_FIRST_LINE = re.compile(rf"^(?:#|//|--|/\*|<!--)\s*(?:(?:file|path|filename)\s*:\s*)?({_PATH})\s*(?:\*/|-->)?$", re.I)
_PYTHON = ("", "python", "py", "python3", "py3")


class Unreadable(Exception):
    """No code could be taken from a reply; says why, to the one who wrote it."""


@dataclass(frozen=True)
class Block:
    """A fenced block and the path that it is said to be of."""

    language: str
    path: str | None
    text: str
    closed: bool = True


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
        closing = re.compile(rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$", re.MULTILINE).search(text, start)
        end = closing.start() if closing is not None else len(text)
        body = text[start:end]
        if opening["indent"]:
            body = textwrap.dedent(body)
        info = opening["info"].strip()
        yield Block(
            language=re.split(r"[\s:={]", info, maxsplit=1)[0].lower(),
            path=_path_of(info, text[: opening.start()], body),
            text=body,
            closed=closing is not None,
        )
        position = closing.end() if closing is not None else len(text)


def _path_of(info: str, above: str, body: str) -> str | None:
    if found := _IN_INFO.search(info):
        return _relative(found[1])
    lines = [line for line in above[-500:].splitlines()[-2:] if line.strip()]
    if lines and (found := _BEFORE.match(lines[-1])):
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
    named = {block.path: block for block in blocks if block.path is not None}
    if named:
        for block in named.values():
            _check_closed(block)
        return {str(path): _encoded(block.text) for path, block in named.items()}
    candidates = [block for block in blocks if block.language in _PYTHON and block.text.strip()]
    if not candidates:
        candidates = [Block("", None, text)] if _is_program(text) else []
    if not candidates:
        raise Unreadable(
            "There is no code in your reply. Answer with the complete file in one fenced block; "
            "for several files put the path of each on the line before its block."
        )
    # A fragment or an example of use may stand beside the file: the file is the longest.
    chosen = max(candidates, key=lambda block: len(block.text))
    _check_closed(chosen)
    return {_only_path(files): _encoded(chosen.text)}


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
