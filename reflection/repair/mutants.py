"""All mutants of a program: walks its tree and asks at every place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from .expressions import Place, expression_mutations
from .scope import Kind, Scope
from .source import Mutation, Source
from .statements import block_mutations

__all__ = ["mutations"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BLOCKS = ("body", "orelse", "finalbody")


def mutations(source: Source, kinds: Mapping[str, Kind]) -> Iterator[Mutation]:
    """Every mutant, some of them more than once; `kinds` is what is known of values by name."""
    yield from _Walk(source, kinds).owner(source.tree, ())


@dataclass(frozen=True)
class _Function:
    """What the mutants of one function have in common."""

    owners: tuple[ast.AST, ...]
    scope: Scope
    ingredients: tuple[ast.expr, ...]
    calls: tuple[ast.Expr, ...]

    @property
    def names(self) -> set[str]:
        return {owner.name for owner in self.owners if isinstance(owner, _FUNCTIONS)}


class _Walk:
    def __init__(self, source: Source, kinds: Mapping[str, Kind]) -> None:
        self._source, self._kinds = source, kinds

    def owner(
        self, owner: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, around: tuple[ast.AST, ...]
    ) -> Iterator[Mutation]:
        """A module, a class or a function with all that is in it."""
        owners = (*around, owner) if not isinstance(owner, ast.ClassDef) else around
        scope = Scope(owners[1:] or owners)  # inside of a function, a module's variables are rarely meant
        scope.functions |= Scope(owners).functions
        scope.learn(self._kinds)
        function = _Function(owners, scope, tuple(_ingredients(owner)), tuple(_calls(owner)))
        yield from self._block(owner.body, function, in_loop=False, is_body=isinstance(owner, _FUNCTIONS))

    def _block(
        self, block: list[ast.stmt], function: _Function, in_loop: bool, is_body: bool = False
    ) -> Iterator[Mutation]:
        if len(function.owners) > 1:  # in a module itself stand definitions, and few mistakes
            yield from block_mutations(self._source, block, function.scope, function.calls, in_loop, is_body)
        for statement in block:
            yield from self._statement(statement, function, in_loop)

    def _statement(self, statement: ast.stmt, function: _Function, in_loop: bool) -> Iterator[Mutation]:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self.owner(statement, function.owners)
            return
        loops = in_loop or isinstance(statement, ast.For | ast.While | ast.AsyncFor)
        for name in _BLOCKS:
            if block := getattr(statement, name, None):
                yield from self._block(block, function, loops)
        for handler in getattr(statement, "handlers", ()):
            yield from self._block(handler.body, function, in_loop)
        place = Place(function.scope, function.ingredients, line=statement.lineno)
        for role, node in _expressions_of(statement):
            yield from self._expression(node, replace(place, role=role), function)

    def _expression(self, node: ast.expr, place: Place, function: _Function) -> Iterator[Mutation]:
        yield from expression_mutations(self._source, node, place)
        if isinstance(node, _COMPREHENSIONS):
            targets = [part for loop in node.generators for part in ast.walk(loop.target)]
            place = replace(place, inside=place.inside | {part.id for part in targets if isinstance(part, ast.Name)})
        elif isinstance(node, ast.Lambda):
            place = replace(place, inside=place.inside | {argument.arg for argument in node.args.args})
        for role, part in _parts_of(node, function.names):
            yield from self._expression(part, replace(place, role=role), function)


def _expressions_of(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        yield "test", statement.test
    elif isinstance(statement, ast.For | ast.AsyncFor):
        yield "iterated", statement.iter
    elif isinstance(statement, ast.Return) and statement.value is not None:
        yield "returned", statement.value
    elif isinstance(statement, ast.Assign):
        yield from (("target", target) for target in statement.targets)
        yield "value", statement.value
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign) and statement.value is not None:
        yield "target", statement.target
        yield "value", statement.value
    elif isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant):
        yield "statement", statement.value
    elif isinstance(statement, ast.With):
        yield from (("value", item.context_expr) for item in statement.items)


def _parts_of(node: ast.expr, functions: set[str]) -> Iterator[tuple[str, ast.expr]]:
    """The expressions inside of an expression, each with its role."""
    if isinstance(node, ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        role = "recursive" if called in functions else "range" if called == "range" else "argument"
        yield "function", node.func
        yield from ((role, argument) for argument in node.args)
        yield from (("argument", keyword.value) for keyword in node.keywords)
    elif isinstance(node, ast.Attribute):
        yield "receiver", node.value
    elif isinstance(node, ast.Subscript):
        yield "receiver", node.value
        yield "index", node.slice
    elif isinstance(node, ast.Slice):
        yield from (("bound", bound) for bound in (node.lower, node.upper, node.step) if bound is not None)
    elif isinstance(node, ast.BinOp):
        yield "operand", node.left
        yield "operand", node.right
    elif isinstance(node, ast.Compare):
        yield from (("compared", part) for part in (node.left, *node.comparators))
    elif isinstance(node, ast.BoolOp):
        yield from (("condition", part) for part in node.values)
    elif isinstance(node, ast.UnaryOp):
        yield "operand", node.operand
    elif isinstance(node, ast.IfExp):
        yield from (("test", node.test), ("value", node.body), ("value", node.orelse))
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        role = "element" if isinstance(getattr(node, "ctx", ast.Load()), ast.Load) else "target"
        yield from ((role, element) for element in node.elts)
    elif isinstance(node, ast.Dict):
        yield from (("element", value) for value in node.values)
    elif isinstance(node, ast.DictComp):
        yield from (("element", node.key), ("element", node.value))
        yield from _loops_of(node)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        yield "element", node.elt
        yield from _loops_of(node)
    elif isinstance(node, ast.Lambda):
        yield "returned", node.body
    elif (
        isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.Starred | ast.NamedExpr) and node.value is not None
    ):
        yield "value", node.value


def _loops_of(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[tuple[str, ast.expr]]:
    for loop in node.generators:
        yield "iterated", loop.iter
        yield from (("test", test) for test in loop.ifs)


def _ingredients(owner: ast.AST) -> Iterator[ast.expr]:
    """Small expressions of a function, each once."""
    seen: set[str] = set()
    for node in ast.walk(owner):
        if isinstance(node, ast.Subscript | ast.Attribute | ast.Call) and isinstance(
            getattr(node, "ctx", ast.Load()), ast.Load
        ):
            key = ast.dump(node)
            if key not in seen and len(key) < 400:
                seen.add(key)
                yield node


def _calls(owner: ast.AST) -> Iterator[ast.Expr]:
    return (node for node in ast.walk(owner) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
