"""Which lines have a say in what a line does, or in what a function returns: a rough slice backwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .scope import functions_of

__all__ = ["behind_the_result", "leading_to"]

DECIDES, FEEDS, FEEDS_THAT, SAME_FUNCTION = 2.5, 2.0, 1.6, 1.3
"""How suspicious a line is that decides whether another runs, sets what it reads, sets what that reads; and others."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def leading_to(tree: ast.Module, line: int) -> Iterator[tuple[int, float]]:
    """Lines that may have led to a failure at this one."""
    around = [node for node in functions_of(tree) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    function = max(around, key=lambda node: node.lineno, default=None)
    if function is None:
        return
    yield from _every_line(function)
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.While | ast.For) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield node.lineno, DECIDES
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and node.lineno == line}
    yield from ((line, DECIDES) for line in _feeding(function, read))


def behind_the_result(tree: ast.Module, names: set[str]) -> Iterator[tuple[int, float]]:
    """Lines that may have led to a wrong result of these functions; of all that no other calls, if none is there."""
    functions = list(functions_of(tree))
    chosen = [function for function in functions if function.name in names] or _entrances(functions)
    for function in chosen:
        yield from _every_line(function)
        returned: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
                yield from ((line, FEEDS) for line in _extent(node))
                if node.value is not None:
                    returned |= _names(node.value)
        once = _feeding(function, returned)
        twice = _feeding(function, returned | _read_on(function, once))
        yield from ((line, FEEDS) for line in once)
        yield from ((line, FEEDS_THAT) for line in twice)
        for node in ast.walk(function):
            if isinstance(node, ast.If | ast.While | ast.For) and once & set(_extent(node)):
                yield node.lineno, FEEDS


def _entrances(functions: list[_Function]) -> list[_Function]:
    called = {
        node.func.id
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != function.name
    }
    return [function for function in functions if function.name not in called]


def _every_line(function: _Function) -> Iterator[tuple[int, float]]:
    return ((line, SAME_FUNCTION) for line in range(function.lineno, (function.end_lineno or function.lineno) + 1))


def _feeding(function: _Function, names: set[str]) -> set[int]:
    """The lines of the statements that set one of these names, or hand it to something that may change it."""
    return {
        line
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr) and _changed_by(node) & names
        for line in _extent(node)
    }


def _changed_by(node: ast.Assign | ast.AugAssign | ast.Expr) -> set[str]:
    if isinstance(node, ast.Assign):
        return {name for target in node.targets for name in _names(target)}
    if isinstance(node, ast.AugAssign):
        return _names(node.target)
    if not isinstance(node.value, ast.Call):
        return set()
    receiver = _names(node.value.func.value) if isinstance(node.value.func, ast.Attribute) else set()
    return receiver | {argument.id for argument in node.value.args if isinstance(argument, ast.Name)}


def _read_on(function: _Function, lines: set[int]) -> set[str]:
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and node.lineno in lines}


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _extent(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)
