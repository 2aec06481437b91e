"""Which test modules are simple: functions that pytest would do nothing with but call them.

A simple module could not tell whether pytest's session, its fixtures, hooks, captures and
reports are around it or not: it has no fixtures, marks, parameters or classes that are tests,
imports nothing that is about its own process, and of pytest it uses what works without a
session. Its tests may be called directly (`guest/direct.py`). The reading is conservative:
what is not understood is not simple, and pytest's session will run it as ever.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

__all__ = ["imports_of_simple"]

SAFE_MODULES = frozenset(
    (
        *("__future__", "array", "base64", "bisect", "cmath", "collections", "copy", "datetime", "decimal"),
        *("fractions", "functools", "heapq", "itertools", "json", "math", "numbers", "operator"),
        *("pprint", "random", "re", "statistics", "string", "struct", "textwrap", "time", "typing", "unicodedata"),
    )
)
"""Modules of the standard library that have nothing to do with the process that they are used in."""
OF_PYTEST = frozenset(("approx", "fail", "raises"))
"""What works without a session, and leaves none of its own behind."""
BUILTINS = frozenset(
    (
        *("__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "getattr", "globals", "help"),
        *("input", "locals", "memoryview", "open", "setattr", "vars"),
    )
)
FRAMES = frozenset(("f_back", "f_builtins", "f_globals", "f_locals", "gi_frame", "tb_frame", "tb_next", "traceback"))
DUNDERS = frozenset(("__class__", "__doc__", "__len__", "__name__", "__qualname__"))
DECORATORS = frozenset(("classmethod", "property", "staticmethod"))


def imports_of_simple(tree: ast.Module) -> frozenset[str] | None:
    """The modules that it imports from elsewhere, the submission that is; None if it is not simple."""
    reading = _Reading()
    try:
        reading.visit(tree)
    except (_NotSimple, RecursionError):
        return None
    return frozenset(reading.foreign)


class _NotSimple(Exception):
    pass


class _Reading(ast.NodeVisitor):
    def __init__(self) -> None:
        self.foreign: set[str] = set()
        self._pytest: set[str] = set()

    def visit_Module(self, node: ast.Module) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Import):
                self._pytest |= {alias.asname or alias.name for alias in part.names if alias.name == "pytest"}
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._module(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            raise _NotSimple
        self._module(node.module)
        if node.module == "pytest" and any(alias.name not in OF_PYTEST for alias in node.names):
            raise _NotSimple

    def _module(self, name: str) -> None:
        top = name.partition(".")[0]
        if name in ("pytest", "collections.abc") or name in SAFE_MODULES:
            return
        if top in sys.stdlib_module_names:
            raise _NotSimple
        self.foreign.add(top)

    def visit_Name(self, node: ast.Name) -> None:
        dunder = node.id.startswith("__") and node.id != "__name__"
        if dunder or node.id in BUILTINS or node.id in self._pytest:
            raise _NotSimple

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if (node.attr.startswith("__") and node.attr not in DUNDERS) or node.attr in FRAMES:
            raise _NotSimple
        if isinstance(node.value, ast.Name) and node.value.id in self._pytest and node.attr in OF_PYTEST:
            return
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            raise _NotSimple
        if node.name.startswith("test") and (_has_parameters(node.args) or not _only_runs(node)):
            raise _NotSimple
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """One that tests use: without bases it is none that pytest collects."""
        if node.decorator_list or node.bases or node.keywords:
            raise _NotSimple
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                self._method(part)
            else:
                self.visit(part)

    def _method(self, node: ast.FunctionDef) -> None:
        decorated = any(not (isinstance(each, ast.Name) and each.id in DECORATORS) for each in node.decorator_list)
        if decorated or node.name in ("__del__", "__getattr__", "__getattribute__"):
            raise _NotSimple
        self.generic_visit(node)

    def _refuse(self, node: ast.AST) -> None:
        raise _NotSimple

    visit_AsyncFunctionDef = visit_AsyncFor = visit_AsyncWith = visit_Await = _refuse


def _has_parameters(arguments: ast.arguments) -> bool:
    return bool(arguments.posonlyargs or arguments.args or arguments.kwonlyargs or arguments.vararg or arguments.kwarg)


def _only_runs(test: ast.FunctionDef) -> bool:
    """Whether it returns nothing: pytest has something to say of tests that do."""
    return not any(
        isinstance(part, (ast.Yield, ast.YieldFrom)) or (isinstance(part, ast.Return) and part.value is not None)
        for part in _own(test)
    )


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What is in a function, and not in functions inside of it."""
    for part in ast.iter_child_nodes(function):
        if not isinstance(part, (ast.FunctionDef, ast.Lambda)):
            yield part
            yield from _own(part)
