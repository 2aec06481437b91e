"""The mutants that have another expression somewhere: the classic slips of one line."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .scope import Scope, kind_of
from .source import Mutation, Source

__all__ = ["Place", "expression_mutations"]

_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.Gt, ast.GtE),
    ast.LtE: (ast.GtE, ast.Gt),
    ast.Gt: (ast.Lt, ast.LtE),
    ast.GtE: (ast.LtE, ast.Lt),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq, ast.Lt, ast.Gt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add, ast.Mod),
    ast.Mult: (ast.Pow, ast.Add, ast.FloorDiv),
    ast.Div: (ast.FloorDiv, ast.Mult),
    ast.FloorDiv: (ast.Div, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr, ast.BitXor),
    ast.BitOr: (ast.BitAnd, ast.BitXor),
    ast.BitXor: (ast.BitAnd, ast.BitOr),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
_COMMUTATIVE = (ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
_SIBLINGS = (
    ("any", "all"),
    ("min", "max"),
    ("sorted", "reversed", "list"),
    ("append", "extend", "add"),
    ("add", "update"),
    ("remove", "discard"),
    ("pop", "popleft"),
    ("appendleft", "append"),
    ("find", "rfind", "index"),
    ("lower", "upper"),
    ("strip", "lstrip", "rstrip"),
    ("startswith", "endswith"),
    ("keys", "values", "items"),
    ("ceil", "floor"),
    ("isdigit", "isalpha", "isalnum"),
    ("heappush", "heappop"),
    ("int", "float", "round"),
)


@dataclass(frozen=True)
class Place:
    """Where an expression stands."""

    scope: Scope
    ingredients: tuple[ast.expr, ...]
    """The other expressions of the function: what is missing in one line often stands in another."""
    role: str = ""
    """test, argument, recursive (an argument of a call to the function itself), index, bound, range, operand,
    value, returned, element, target."""
    inside: frozenset[str] = frozenset()
    """The names of the comprehensions around it."""
    line: int = 0


def expression_mutations(source: Source, node: ast.expr, place: Place) -> Iterator[Mutation]:
    """Everything that this expression could have been meant to be."""
    original = ast.dump(node)
    place = replace(place, line=place.line or node.lineno)
    start, end = source.span(node)
    for operator, prior, new in _variants(node, place):
        if ast.dump(new) == original:
            continue
        yield Mutation(operator, node.lineno, start, end, _text(new, place), prior)


def _text(node: ast.expr, place: Place) -> str:
    text = ast.unparse(node)
    atom = isinstance(
        node, ast.Name | ast.Constant | ast.Call | ast.Subscript | ast.Attribute | ast.List | ast.ListComp
    )
    # Alone in its place an expression needs no parentheses; as a part of another it may.
    alone = place.role in ("test", "argument", "recursive", "range", "value", "returned", "index", "bound", "element")
    return text if atom or (alone and not isinstance(node, ast.Tuple)) or text[:1] in "([{" else f"({text})"


_Variant = tuple[str, float, ast.expr]


def _variants(node: ast.expr, place: Place) -> Iterator[_Variant]:
    if place.role == "target":
        yield from _targets(node, place)
        return
    if isinstance(node, ast.Compare):
        yield from _compare(node)
    elif isinstance(node, ast.BinOp):
        yield from _binary(node, place)
    elif isinstance(node, ast.BoolOp):
        yield from _boolean(node)
    elif isinstance(node, ast.UnaryOp):
        yield "drop-unary", 4, node.operand
    elif isinstance(node, ast.Constant):
        yield from _constant(node, place)
    elif isinstance(node, ast.Name):
        yield from _name(node, place)
    elif isinstance(node, ast.Call):
        yield from _call(node, place)
    elif isinstance(node, ast.Attribute):
        yield from _attribute(node)
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        yield from _swapped_elements(node)
    elif isinstance(node, ast.List):
        yield from _list(node, place)
    elif isinstance(node, ast.IfExp):
        yield "swap-branches", 4, ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Yield) and node.value is not None:
        yield "yield-from", 7, ast.YieldFrom(node.value)
        if isinstance(node.value, ast.Call) and node.value.args:
            yield "yield-from", 4, ast.Yield(node.value.args[0])
    elif isinstance(node, ast.YieldFrom):
        yield "yield-from", 6, ast.Yield(node.value)
    if place.role == "test":
        yield from _test(node, place)
    yield from _offsets(node, place)
    yield from _from_elsewhere(node, place)
    yield from _missing_term(node, place)
    yield from _wrapped(node, place)


def _one(value: int) -> ast.Constant:
    return ast.Constant(value)


def _plus(node: ast.expr, other: ast.expr, minus: bool = False) -> ast.BinOp:
    return ast.BinOp(node, ast.Sub() if minus else ast.Add(), other)


def _is_load(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


# --- operators ----------------------------------------------------------------


def _compare(node: ast.Compare) -> Iterator[_Variant]:
    for index, operator in enumerate(node.ops):
        kind = type(operator)
        if kind in _BOUNDARY:
            yield "boundary", 9, _with_operator(node, index, _BOUNDARY[kind])
        for rank, other in enumerate(_OPPOSITE.get(kind, ())):
            yield "opposite", 6 - rank, _with_operator(node, index, other)
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq) and isinstance(node.comparators[0], ast.Constant):
        value = node.comparators[0].value
        if isinstance(value, int):  # a base that is too narrow
            yield "opposite", 4, ast.Compare(node.left, [ast.LtE()], [_one(value + 1)])


def _with_operator(node: ast.Compare, index: int, operator: type[ast.cmpop]) -> ast.Compare:
    changed = copy.copy(node)
    changed.ops = [*node.ops[:index], operator(), *node.ops[index + 1 :]]
    return changed


def _binary(node: ast.BinOp, place: Place) -> Iterator[_Variant]:
    for rank, operator in enumerate(_OPERATORS.get(type(node.op), ())):
        yield "operator", 6 - 1.5 * rank, ast.BinOp(node.left, operator(), node.right)
    numbers = kind_of(node.left) == "number" or kind_of(node.right) == "number"
    if not isinstance(node.op, _COMMUTATIVE) and not (isinstance(node.op, ast.Add) and numbers):
        yield "swap-operands", 5, ast.BinOp(node.right, node.op, node.left)
    yield "drop-term", 4, node.left
    yield "drop-term", 3.5, node.right


def _boolean(node: ast.BoolOp) -> Iterator[_Variant]:
    other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    yield "and-or", 6, ast.BoolOp(other, node.values)
    for index in range(len(node.values)):
        rest = [*node.values[:index], *node.values[index + 1 :]]
        yield "drop-condition", 4, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


# --- constants and names ------------------------------------------------------


def _constant(node: ast.Constant, place: Place) -> Iterator[_Variant]:
    value = node.value
    if isinstance(value, bool):
        if place.role == "test":
            for name in _usable(place):
                known = place.scope.is_known_as(name, "sequence", "set", "mapping", "text")
                yield "condition", 7 if known else 4, _load(name)
        yield "constant", 5, ast.Constant(not value)
        if place.role == "returned":
            for name in _usable(place):
                if place.scope.is_known_as(name, "number"):
                    yield "returned-condition", 3.5, ast.Compare(_load(name), [ast.Eq()], [_one(0)])
                else:
                    yield "returned-condition", 2.5, ast.UnaryOp(ast.Not(), _load(name))
    elif isinstance(value, int):
        yield "off-by-one", 7, ast.Constant(value + 1)
        yield "off-by-one", 7, ast.Constant(value - 1)
        for other in (0, 1, 2, -1):
            yield "constant", 3, ast.Constant(other)
    elif value is None:
        for name in _usable(place):
            yield "constant", 3, _load(name)
    elif isinstance(value, str) and place.role not in ("", "element"):
        yield "constant", 1.5, ast.Constant("" if value else " ")
    if place.role in ("returned", "value", "argument", "recursive", "index", "bound", "range") and not isinstance(
        value, bool | str
    ):
        for name in _usable(place):
            yield "constant-to-name", 2.5, _load(name)


def _usable(place: Place) -> Iterator[str]:
    for name in place.scope.names:
        known = place.scope.is_bound(name, place.line) and name not in place.scope.comprehended
        if known or name in place.inside:
            yield name
    yield from (name for name in sorted(place.inside) if name not in place.scope.names)


def _neglected(name: str, place: Place) -> float:
    return 1.6 if place.scope.is_rarely_read(name) else 1.0


def _name(node: ast.Name, place: Place) -> Iterator[_Variant]:
    if not _is_load(node) or node.id in place.scope.functions:
        for function, parameters in place.scope.functions.items() if _is_load(node) else ():
            if place.scope.functions.get(node.id) == parameters:
                yield "wrong-function", 3, _load(function)
        return
    if place.role == "function":
        yield from _siblings(node.id, lambda other: _load(other))
        return
    known = place.scope.kinds.get(node.id)
    for name in _usable(place):
        if place.scope.alike(node.id, name):
            sure = known and place.scope.kinds.get(name)
            yield "wrong-name", (5 if sure or name in place.inside else 4) * _neglected(name, place), _load(name)


def _siblings(name: str, make: object) -> Iterator[_Variant]:
    assert callable(make)
    for family in _SIBLINGS:
        if name in family:
            for other in family:
                if other != name:
                    yield "sibling", 7 if len(family) == 2 else 4, make(other)


def _attribute(node: ast.Attribute) -> Iterator[_Variant]:
    if _is_load(node):
        yield from _siblings(node.attr, lambda other: ast.Attribute(node.value, other, ast.Load()))


# --- calls and displays -------------------------------------------------------


def _call(node: ast.Call, place: Place) -> Iterator[_Variant]:
    arguments = node.args
    plain = [index for index, argument in enumerate(arguments) if not isinstance(argument, ast.Starred)]
    for first, second in itertools.pairwise(plain):
        yield "swap-arguments", 6, _with_arguments(node, _swapped(arguments, first, second))
    if len(plain) > 2:
        yield "swap-arguments", 4, _with_arguments(node, _swapped(arguments, plain[0], plain[-1]))
    if len(arguments) == 1 and not node.keywords and not isinstance(arguments[0], ast.Starred):
        yield "drop-call", 3, arguments[0]
    if isinstance(node.func, ast.Attribute) and not arguments:
        yield "drop-call", 1.5, node.func.value
    if isinstance(node.func, ast.Name) and node.func.id == "range" and len(arguments) == 1:
        yield "off-by-one", 4, _with_arguments(node, [_one(1), arguments[0]])
    if place.scope.functions and isinstance(node.func, ast.Name):
        parameters = place.scope.functions.get(node.func.id, 0)
        if parameters > len(arguments):
            for name in _usable(place):
                yield "missing-argument", 3, _with_arguments(node, [*arguments, _load(name)])


def _with_arguments(node: ast.Call, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(node.func, arguments, node.keywords)


def _swapped(items: list[ast.expr], one: int, other: int) -> list[ast.expr]:
    changed = list(items)
    changed[one], changed[other] = changed[other], changed[one]
    return changed


def _swapped_elements(node: ast.Tuple) -> Iterator[_Variant]:
    for index in range(len(node.elts) - 1):
        yield "swap-elements", 4.5, ast.Tuple(_swapped(node.elts, index, index + 1), ast.Load())


def _list(node: ast.List, place: Place) -> Iterator[_Variant]:
    if not node.elts and place.role in ("returned", "value", "argument", "recursive"):
        yield "display", 3.5, ast.List([ast.List([], ast.Load())], ast.Load())
        for name in _usable(place):
            yield "display", 3.5, ast.List([_load(name)], ast.Load())
            if place.scope.may_be(name, "sequence"):
                yield "wrong-name", 2.5, _load(name)


# --- conditions ---------------------------------------------------------------


def _test(node: ast.expr, place: Place) -> Iterator[_Variant]:
    if not isinstance(node, ast.Constant | ast.Compare):
        yield "negate", 4, ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.Constant):
        return
    mentioned = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    for name in _usable(place):
        guard = 2.5 if name in mentioned else 1.5
        empty = ast.UnaryOp(ast.Not(), _load(name))
        if place.scope.may_be(name, "sequence", "set", "mapping", "text", "other"):
            yield "guard", guard, ast.BoolOp(ast.Or(), [empty, node])
            yield "guard", guard, ast.BoolOp(ast.And(), [_load(name), node])
            yield "guard", guard * 0.8, ast.BoolOp(ast.Or(), [_is_none(name), node])
        if place.scope.is_known_as(name, "number"):
            negative = ast.Compare(_load(name), [ast.Lt()], [_one(0)])
            yield "guard", guard * 0.6, ast.BoolOp(ast.Or(), [negative, node])
    for attribute in _attributes(node):
        missing = ast.Compare(attribute, [ast.Is()], [ast.Constant(None)])
        yield "guard", 2.5, ast.BoolOp(ast.Or(), [missing, node])


def _is_none(name: str) -> ast.Compare:
    return ast.Compare(_load(name), [ast.Is()], [ast.Constant(None)])


def _attributes(node: ast.expr) -> Iterator[ast.Attribute]:
    return (part for part in ast.walk(node) if isinstance(part, ast.Attribute))


# --- terms that are too few ---------------------------------------------------

_COUNTED = ("argument", "recursive", "index", "bound", "range", "operand", "value", "returned", "compared", "element")


def _could_be_number(node: ast.expr, place: Place) -> bool:
    if isinstance(node, ast.Name):
        return node.id not in place.scope.functions and place.scope.may_be(node.id, "number")
    return kind_of(node) == "number" and not isinstance(node, ast.Constant)


def _offsets(node: ast.expr, place: Place) -> Iterator[_Variant]:
    if not _is_load(node) or place.role not in _COUNTED or not _could_be_number(node, place):
        return
    sure = not isinstance(node, ast.Name) or place.scope.is_known_as(node.id, "number")
    likely = place.role in ("recursive", "index", "bound", "range")
    prior = (6 if likely else 4) if sure else (4 if likely else 2)
    yield "off-by-one", prior, _plus(node, _one(1))
    yield "off-by-one", prior, _plus(node, _one(1), minus=True)
    if isinstance(node, ast.Name):
        known = 4.0 if place.role == "recursive" else 1.5
        for name in _usable(place):
            if name != node.id and place.scope.is_known_as(name, "number"):
                yield "term", known * _neglected(name, place), _plus(node, _load(name), minus=True)
                yield "term", known * 0.8 * _neglected(name, place), _plus(node, _load(name))


def _missing_term(node: ast.expr, place: Place) -> Iterator[_Variant]:
    """Something that should be joined to what is returned or assigned."""
    if place.role not in ("returned", "value") or not _is_load(node) or isinstance(node, ast.Constant | ast.Tuple):
        return
    if kind_of(node) in ("number", "mapping", "set"):
        return
    sure = kind_of(node) is not None
    for name in _usable(place):
        joins = place.scope.is_known_as(name, "sequence", "text") or (sure and place.scope.may_be(name, "sequence"))
        if joins and not (isinstance(node, ast.Name) and node.id == name):
            yield "missing-term", 3, _plus(_load(name), node)
            yield "missing-term", 3, _plus(node, _load(name))


def _wrapped(node: ast.expr, place: Place) -> Iterator[_Variant]:
    if not _is_load(node) or place.role in ("", "test", "function", "receiver"):
        return
    if isinstance(node, ast.Name) and node.id not in place.scope.functions:
        if place.scope.may_be(node.id, "number"):
            sure = 1.5 if place.scope.is_known_as(node.id, "number") else 0.8
            yield "power", sure, ast.BinOp(node, ast.Pow(), _one(2))
            yield "wrap", 0.6 * sure, ast.Call(_load("abs"), [node], [])
            yield "wrap", 0.8 * sure, ast.Call(_load("max"), [_one(0), node], [])
            yield "wrap", 0.5 * sure, ast.BinOp(node, ast.Mult(), _one(2))
        if place.scope.may_be(node.id, "sequence", "text"):
            sure = 1.8 if place.scope.is_known_as(node.id, "sequence", "text") else 0.8
            yield "slice", sure, _sliced(node, _one(1), None)
            yield "slice", sure, _sliced(node, None, ast.UnaryOp(ast.USub(), _one(1)))
            for name in _usable(place):
                if place.scope.is_known_as(name, "number"):
                    yield "slice", 0.9 * sure, _sliced(node, _load(name), None)
                    yield "slice", 0.6 * sure, _sliced(node, None, _load(name))
            yield "wrap", 0.4 * sure, ast.Call(_load("len"), [node], [])
            yield "wrap", 0.4 * sure, ast.Call(_load("sorted"), [node], [])
    elif isinstance(node, ast.BinOp) and place.role in ("value", "returned", "argument", "element", "recursive"):
        yield "wrap", 2, ast.Call(_load("max"), [_one(0), node], [])
        yield "wrap", 0.5, ast.Call(_load("abs"), [node], [])


def _sliced(node: ast.expr, lower: ast.expr | None, upper: ast.expr | None) -> ast.Subscript:
    return ast.Subscript(node, ast.Slice(lower, upper), ast.Load())


# --- expressions from elsewhere in the function -------------------------------


def _from_elsewhere(node: ast.expr, place: Place) -> Iterator[_Variant]:
    if not _is_load(node) or place.role in ("", "function", "receiver", "test"):
        return
    if isinstance(node, ast.Name):
        for other in place.ingredients:
            if isinstance(other, ast.Subscript | ast.Attribute) and _mentions(other, node.id):
                yield "ingredient", 4 if place.role in ("argument", "recursive") else 2.5, other
    elif isinstance(node, ast.Subscript | ast.Call | ast.Attribute):
        for other in place.ingredients:
            if type(other) is type(node):
                yield "ingredient", 2.5, other
        for name in _usable(place):
            yield "simplify", 2.5 * _neglected(name, place), _load(name)


def _mentions(node: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def _targets(node: ast.expr, place: Place) -> Iterator[_Variant]:
    for other in place.ingredients:
        if isinstance(other, ast.Subscript | ast.Attribute) and type(other) is type(node):
            yield "wrong-target", 4, other
    if isinstance(node, ast.Name):
        for name in _usable(place):
            if place.scope.alike(node.id, name) and name not in place.inside:
                yield "wrong-target", 2.5, _load(name)
