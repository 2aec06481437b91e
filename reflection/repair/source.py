"""A program as text and tree, and edits of the text: what an edit does not touch keeps its form and comments."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Mutation", "Source", "parsed"]


@dataclass(frozen=True)
class Mutation:
    """One edit of a program, and how likely it is, before anything is known, that such an edit is the repair."""

    operator: str
    line: int
    start: int
    end: int
    text: str
    prior: float


def parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a mutant's odd escapes and comparisons
            tree = ast.parse(text)
            ast.dump(tree)  # what cannot be walked cannot be compared
            return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Source:
    """The text of one file, by the offsets that its syntax tree speaks of."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self.text, self.tree = text, tree
        self._data = text.encode("utf-8")

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self._data.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        return starts

    @cached_property
    def key(self) -> str:
        """The same for programs that differ in form only."""
        return ast.dump(self.tree)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def segment(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self._data[start:end].decode("utf-8")

    def indentation(self, statement: ast.stmt) -> str | None:
        """What stands before it on its line; None if that is another statement."""
        start = self._starts[statement.lineno - 1]
        before = self._data[start : start + statement.col_offset].decode("utf-8")
        return before if not before.strip() else None

    def edited(self, mutation: Mutation) -> Source | None:
        """The mutated program; None if it is none."""
        before, after = self._data[: mutation.start], self._data[mutation.end :]
        text = (before + mutation.text.encode("utf-8") + after).decode("utf-8")
        tree = parsed(text)
        return Source(text, tree) if tree is not None else None
