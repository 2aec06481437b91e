"""The mutants that have another statement: one too few, one too many, one in the wrong place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .scope import Scope
from .source import Mutation, Source

__all__ = ["block_mutations"]

_AUGMENTED: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-=",),
    ast.Sub: ("+=",),
    ast.Mult: ("//=", "+="),
    ast.FloorDiv: ("*=", "-="),
    ast.BitXor: ("&=", "|="),
    ast.BitAnd: ("^=", "|="),
    ast.BitOr: ("&=", "^="),
    ast.LShift: (">>=",),
    ast.RShift: ("<<=",),
}


def block_mutations(
    source: Source, block: Sequence[ast.stmt], scope: Scope, calls: Sequence[ast.Expr], in_loop: bool, is_body: bool
) -> Iterator[Mutation]:
    """What this block could have been meant to be.

    `calls` are the statements of the function that only call something, `is_body` says that the block
    is all of a function.
    """
    if any(source.indentation(statement) is None for statement in block):
        return  # `if x: return y` on one line
    yield from _inserted(source, block, scope, calls, in_loop)
    for index, statement in enumerate(block):
        yield from _changed(source, statement)
        if len(block) > 1 and not isinstance(statement, ast.FunctionDef | ast.Import | ast.ImportFrom):
            yield _replaced(source, "delete", 2, statement, "pass")
        if index:
            yield from _swapped(source, block[index - 1], statement)
    if in_loop and block:
        yield from _moved_out(source, block)
    if is_body and block and not isinstance(block[-1], ast.Return | ast.Raise):
        for name in scope.names:
            yield _after(source, "insert-return", 4, block[-1], f"return {name}")


def _replaced(source: Source, operator: str, prior: float, statement: ast.stmt, text: str) -> Mutation:
    start, end = source.span(statement)
    return Mutation(operator, statement.lineno, start, end, text, prior)


def _before(source: Source, operator: str, prior: float, statement: ast.stmt, text: str) -> Mutation:
    start, _ = source.span(statement)
    indent = source.indentation(statement) or ""
    return Mutation(operator, statement.lineno, start, start, f"{text}\n{indent}", prior)


def _after(source: Source, operator: str, prior: float, statement: ast.stmt, text: str) -> Mutation:
    _, end = source.span(statement)
    indent = source.indentation(statement) or ""
    return Mutation(operator, statement.end_lineno or statement.lineno, end, end, f"\n{indent}{text}", prior)


@dataclass(frozen=True)
class _New:
    """A statement that may be missing."""

    operator: str
    prior: float
    text: str
    needs: frozenset[str]

    @classmethod
    def read(cls, given: tuple[str, float, str]) -> _New:
        names = [node for node in ast.walk(ast.parse(given[2])) if isinstance(node, ast.Name)]
        return cls(*given, frozenset(name.id for name in names if isinstance(name.ctx, ast.Load)))

    def fits(self, scope: Scope, line: int) -> bool:
        return all(scope.is_bound(name, line) for name in self.needs)


def _inserted(
    source: Source, block: Sequence[ast.stmt], scope: Scope, calls: Sequence[ast.Expr], in_loop: bool
) -> Iterator[Mutation]:
    new = list(map(_New.read, [*_copied_calls(calls, scope), *_assignments(scope, in_loop)]))
    ends = (ast.Return, ast.Raise, ast.Continue, ast.Break)
    for index, statement in enumerate(block):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        # What is forgotten is most often the last thing of a block.
        likely = 1.3 if isinstance(statement, ends) else 1.0 if index else 0.6
        for one in new:
            if one.fits(scope, statement.lineno):
                yield _before(source, one.operator, one.prior * likely, statement, one.text)
    last = block[-1]
    if not isinstance(last, ends):
        for one in new:
            if one.fits(scope, (last.end_lineno or last.lineno) + 1):
                yield _after(source, one.operator, one.prior * 1.3, last, one.text)


def _copied_calls(calls: Sequence[ast.Expr], scope: Scope) -> Iterator[tuple[str, float, str]]:
    """A call that stands elsewhere, as it is or with another name in it."""
    seen: set[str] = set()
    for call in calls:
        for prior, text in ((1.0, ast.unparse(call)), *_renamed(call, scope)):
            if text not in seen:
                seen.add(text)
                yield "insert-call", prior, text
    # A container that nothing is ever put into is as good as a sign.
    for name in filter(scope.is_left_empty, scope.names):
        method = "add" if scope.is_known_as(name, "set") else "append"
        for item in scope.names:
            text = f"{name}.{method}({item})"
            if item != name and scope.is_known_as(name, "set", "sequence"):
                yield "insert-fill", 3.0, text


def _renamed(call: ast.Expr, scope: Scope) -> Iterator[tuple[float, str]]:
    if not isinstance(call.value, ast.Call) or any(isinstance(part, ast.Call) for part in call.value.args):
        return
    names = [part for part in ast.walk(call) if isinstance(part, ast.Name) and part.id in scope.names]
    others = {part.id for part in names}
    for part in names:
        original = part.id
        is_receiver = isinstance(call.value.func, ast.Attribute) and call.value.func.value is part
        for other in scope.names:
            if other in others or other in scope.comprehended or (is_receiver and not scope.alike(original, other)):
                continue
            part.id = other
            text = ast.unparse(call)
            part.id = original
            if is_receiver:
                yield (2.0 if scope.kinds.get(other) else 1.0), text
            else:
                yield 2.0, text


def _assignments(scope: Scope, in_loop: bool) -> Iterator[tuple[str, float, str]]:
    names = [name for name in scope.names if name not in scope.comprehended]
    for target in names:
        likely = (2.0 if in_loop else 0.8) * (2.0 if scope.is_left_empty(target) else 1.0)
        for value in names:
            if target != value and scope.alike(target, value):
                yield "insert-assignment", likely, f"{target} = {value}"
    if in_loop:
        for name, beginning in scope.beginnings.items():
            yield "insert-reset", 2.5, f"{name} = {beginning}"


def _changed(source: Source, statement: ast.stmt) -> Iterator[Mutation]:
    if isinstance(statement, ast.AugAssign):
        target, value = ast.unparse(statement.target), ast.unparse(statement.value)
        for operator in _AUGMENTED.get(type(statement.op), ()):
            yield _replaced(source, "operator", 5, statement, f"{target} {operator} {value}")
        yield _replaced(source, "assign", 3, statement, f"{target} = {value}")
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = ast.unparse(statement.targets[0]), ast.unparse(statement.value)
        yield _replaced(source, "assign", 2, statement, f"{target} += {value}")
        if not isinstance(statement.targets[0], ast.Tuple):
            yield _replaced(source, "wrap", 1.2, statement, f"{target} = max({target}, {value})")
            yield _replaced(source, "wrap", 1, statement, f"{target} = min({target}, {value})")
    elif isinstance(statement, ast.Break):
        yield _replaced(source, "jump", 4, statement, "continue")
    elif isinstance(statement, ast.Continue):
        yield _replaced(source, "jump", 4, statement, "break")
    elif isinstance(statement, ast.Return) and statement.value is not None:
        value = ast.unparse(statement.value)
        yield _replaced(source, "yield-from", 1.5, statement, f"yield {value}")
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield _replaced(source, "insert-return", 2, statement, f"return {ast.unparse(statement)}")
    elif isinstance(statement, ast.If) and not statement.orelse and not source.segment(statement).startswith("elif"):
        yield _keyword(source, statement, "if", "while")
    elif isinstance(statement, ast.While) and not statement.orelse:
        yield _keyword(source, statement, "while", "if")


def _keyword(source: Source, statement: ast.If | ast.While, old: str, new: str) -> Mutation:
    start, _ = source.span(statement)
    return Mutation("jump", statement.lineno, start, start + len(old), new, 1.5)


def _swapped(source: Source, first: ast.stmt, second: ast.stmt) -> Iterator[Mutation]:
    simple = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)
    if isinstance(first, simple) and isinstance(second, simple) and not isinstance(first, ast.Return):
        start, _ = source.span(first)
        _, end = source.span(second)
        indent = source.indentation(first) or ""
        text = f"{source.segment(second)}\n{indent}{source.segment(first)}"
        yield Mutation("swap-statements", first.lineno, start, end, text, 2.5)


def _moved_out(source: Source, block: Sequence[ast.stmt]) -> Iterator[Mutation]:
    """The last statement, behind the loop instead of in it."""
    last = block[-1]
    indent = source.indentation(last)
    if len(block) < 2 or indent is None or last.lineno != last.end_lineno or len(indent) < 4:
        return
    start, end = source.span(last)
    yield Mutation("move-out", last.lineno, start - 4, end, source.segment(last), 2.5)
