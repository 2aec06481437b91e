"""What a test module says of itself before it runs: which tests it holds, and what its names are bound to.

Read from the syntax tree, so that it is known without the candidate. `Blueprint` also finds the tests of
which an impossible twin can be made (see `canaries`): one whose expected value is another.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from typing import TypeGuard, Union

    Definition = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef]

LONGEST = 40
"""Statements of a test of which a twin is made: it has to be cheap."""
LOOKED_AT = 8
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_SLOW = re.compile(rb"\b(yield|await|sleep)\b")
_SAFE_CALLS = frozenset(("str", "len", "sorted", "set", "list", "tuple", "dict", "int", "float", "repr", "approx"))


class Twin:
    """A test that can be made impossible: by another literal in one of its asserts, or another parameter."""

    def __init__(self, name: str, helper: str = "", line: int = 0, parameter: str = "") -> None:
        self.name, self.helper, self.line, self.parameter = name, helper, line, parameter


class Blueprint:
    def __init__(self, tree: ast.Module, source: bytes) -> None:
        self.bound: set[str] = set()
        self.stars = False
        self.imports: list[tuple[str, str, str]] = []
        """(name here, module, name there or "")"""
        self.leading = 0
        """How many of them nothing else stands before."""
        self.functions: dict[str, ast.FunctionDef] = {}
        """Defined at the top, once."""
        self.tests: list[str] = []
        """`test_name` and `Class::test_name` that pytest collects by its own rules, whatever else happens."""
        self.rebound: set[str] = set()
        self.classes: dict[str, ast.ClassDef] = {}
        self._constants: dict[str, ast.expr] = {}
        self.source = source
        only_imports = True
        for statement in tree.body:
            only_imports = only_imports and (isinstance(statement, (ast.Import, ast.ImportFrom)) or _is_text(statement))
            self._statement(statement)
            self.leading = len(self.imports) if only_imports else self.leading
        if b"global " in source:
            self._globals(tree)
        self._gather(tree)
        marked = [(name, node) for name, node in self.parametrized() if any(self.rows(node))]
        self.expected = {name: _expected(node) for name, node in marked}
        """Parameters of each test that results are only compared with. Read off before pytest puts other
        statements in place of the asserts."""
        with_lists = [(name, node) for name, node in marked if any(map(_has_lists, self.rows(node)))]
        self.inputs = {parameter for name, node in with_lists for parameter in _parameters(node) - self.expected[name]}
        """Parameters that more is done with, in any test that has lists among them."""

    @property
    def plain(self) -> set[str]:
        """Functions that are exactly what their definition says: nothing decorates or rebinds them."""
        return {
            name
            for name, node in self.functions.items()
            if name not in self.rebound and all(_is_mark(mark) for mark in node.decorator_list)
        }

    # --- names --------------------------------------------------------------

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, DEFINITIONS):
            self._bind(node.name)
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self._bind(alias.asname or alias.name.partition(".")[0])
                if alias.asname or "." not in alias.name:
                    self.imports.append((alias.asname or alias.name, alias.name, ""))
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    self.stars = True
                else:
                    self._bind(alias.asname or alias.name)
                    if not node.level and node.module:
                        self.imports.append((alias.asname or alias.name, node.module, alias.name))
        else:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self._constants[node.targets[0].id] = node.value
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                    self._bind(inner.id)
                elif isinstance(inner, (*DEFINITIONS, ast.alias)):
                    self._bind((getattr(inner, "asname", None) or inner.name).partition(".")[0])
                    self.stars = self.stars or inner.name == "*"
                elif isinstance(inner, ast.ExceptHandler) and inner.name:
                    self._bind(inner.name)

    def _bind(self, name: str) -> None:
        (self.rebound if name in self.bound else self.bound).add(name)

    def _globals(self, tree: ast.Module) -> None:
        """Names that functions bind."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Global):
                self.bound.update(node.names)
                self.rebound.update(node.names)

    def _gather(self, tree: ast.Module) -> None:
        if "__test__" in self.bound or "pytestmark" in self.bound:
            return
        for statement in tree.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if _is_test(statement) and statement.name not in self.rebound:
                    self.tests.append(statement.name)
            elif isinstance(statement, ast.ClassDef) and _collects(statement) and statement.name not in self.rebound:
                own = [inner for inner in statement.body if isinstance(inner, ast.FunctionDef) and _is_test(inner)]
                self.tests += [f"{statement.name}::{inner.name}" for inner in own]

    def takes(self, kind: type) -> bool:
        """Whether the module imports this very class, anywhere, or has it from a module that it imports."""
        nodes = list(ast.walk(ast.parse(self.source)))
        imported: dict[str, object] = {}
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    imported.update(_imports(node, alias))
        attributes = (node for node in nodes if isinstance(node, ast.Attribute) and node.attr == kind.__name__)
        return any(found is kind for found in (*imported.values(), *(_meant(node, imported) for node in attributes)))

    # --- data ---------------------------------------------------------------

    def hands_out(self, name: str) -> bool:
        """Whether a class is given to some function: that may add to it, or wrap what it has."""
        call = rb"\b(?!isinstance|issubclass|raises|super)\w+\((?:[^()]*,)?\s*%b\s*[,)]" % name.encode()
        return bool(re.search(call, self.source))

    @property
    def literals(self) -> dict[str, ast.expr]:
        """Names at the top that are a literal, and stay it: nothing else can change a number, a text or a tuple."""
        return {name: node for name, node in self._constants.items() if is_literal(node) and _is_fixed(node)}

    def parametrized(self) -> Iterator[tuple[str, ast.FunctionDef]]:
        for name, node in self.functions.items():
            if name not in self.rebound:
                yield name, node
        for name, cls in self.classes.items():
            for inner in cls.body:
                if isinstance(inner, ast.FunctionDef) and name not in self.rebound:
                    yield f"{name}::{inner.name}", inner

    def rows(self, node: ast.FunctionDef) -> Iterator[tuple[list[str], list[ast.expr]]]:
        """The names of parameters, and the rows of their values, for each list of them that stands in the source."""
        for mark in node.decorator_list:
            names = _parameter_names(mark)
            if not names or not isinstance(mark, ast.Call) or len(mark.args) < 2:
                continue
            given: ast.expr | None = mark.args[1]
            if isinstance(given, ast.Name):
                given = self._constants.get(given.id) if self._only_decorates(given.id) else None
            if isinstance(given, (ast.List, ast.Tuple)) and not any(isinstance(row, ast.Starred) for row in given.elts):
                yield names, given.elts

    def _only_decorates(self, name: str) -> bool:
        """Whether a name is bound once and used for nothing but parameters: then it is what it was bound to."""
        word = rb"\b" + name.encode() + rb"\b"
        used = len(re.findall(word, self.source))
        marks = len(re.findall(rb"parametrize\([^()]*?,\s*" + word, self.source))
        return name not in self.rebound and used == marks + 1

    # --- twins --------------------------------------------------------------

    def twins(self, chance: random.Random) -> Iterator[Twin]:
        """In no order that could be foreseen."""
        names = [name for name in self.plain if name.startswith("test")]
        chance.shuffle(names)
        for name in names[:LOOKED_AT]:
            node = self.functions[name]
            if self._is_cheap(node):
                last = _last_asserts(node)
                others = [part for part in node.body if isinstance(part, ast.Assert) and part not in last]
                for parameter in sorted(_parameters(node)):
                    if _only_expected(node, parameter) and not any(_mentions(part, parameter) for part in others):
                        yield Twin(name, parameter=parameter)
                yield from (Twin(name, line=line) for line in _impossible(node))
                for helper in self._helpers(node):
                    yield from (Twin(name, helper, line) for line in _impossible(self.functions[helper]))

    def _helpers(self, node: ast.FunctionDef) -> Iterator[str]:
        """Functions beside it that a test does nothing but call."""
        for statement in node.body:
            call = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in self.plain:
                helper = self.functions[call.func.id]
                if helper is not node and self._is_cheap(helper):
                    yield helper.name

    def _is_cheap(self, node: ast.FunctionDef) -> bool:
        """Straight through: what stands at its top is reached, once, and soon."""
        if any(isinstance(part, ast.Return) for part in node.body):
            return False
        inner = list(itertools.islice(_statements(node), LONGEST + 1))
        if len(inner) > LONGEST or any(isinstance(part, (ast.For, ast.While, ast.Global)) for part in inner):
            return False
        return not _SLOW.search(self.source) or not any(map(_is_slow, ast.walk(node)))


def _imports(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> dict[str, object]:
    """What such a statement binds, if all of that is here already."""
    if isinstance(node, ast.Import):
        name = alias.name if alias.asname else alias.name.partition(".")[0]
        return {alias.asname or name: sys.modules.get(name)}
    module = sys.modules.get(node.module or "")
    if alias.name == "*":
        return dict(vars(module)) if module is not None else {}
    return {alias.asname or alias.name: getattr(module, alias.name, None)}


def _meant(node: ast.expr, known: dict[str, object]) -> object:
    if isinstance(node, ast.Attribute):
        return getattr(_meant(node.value, known), node.attr, None)
    return known.get(node.id) if isinstance(node, ast.Name) else None


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_any_mark(node: ast.expr) -> bool:
    """`@pytest.mark.anything`: it leaves the function as it is."""
    found = node.func if isinstance(node, ast.Call) else node
    return (
        isinstance(found, ast.Attribute)
        and isinstance(found.value, ast.Attribute)
        and found.value.attr == "mark"
        and isinstance(found.value.value, ast.Name)
        and found.value.value.id == "pytest"
    )


def _is_mark(node: ast.expr) -> bool:
    """One that does not decide whether the test is run."""
    found = node.func if isinstance(node, ast.Call) else node
    return is_any_mark(node) and getattr(found, "attr", "") not in ("skip", "skipif", "xfail", "usefixtures")


def _is_test(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return node.name.startswith("test") and all(_is_mark(mark) for mark in node.decorator_list)


def _collects(node: ast.ClassDef) -> bool:
    """A class of pytest's own kind. What its bases and decorators make of it we do not know."""
    names = {inner.name for inner in node.body if isinstance(inner, DEFINITIONS)}
    assigned = any(isinstance(inner, (ast.Assign, ast.AnnAssign, ast.Delete)) for inner in node.body)
    plain = not (node.bases or node.keywords or node.decorator_list or assigned)
    return node.name.startswith("Test") and plain and names.isdisjoint(("__init__", "__new__"))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """It, if it is one, and all inside of it; to walk through every expression, too, takes ten times as long."""
    if isinstance(node, ast.stmt):
        yield node
    for name in _BLOCKS:
        for part in getattr(node, name, ()):
            yield from _statements(part)


def _is_slow(node: ast.AST) -> bool:
    return isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) or getattr(node, "attr", "") == "sleep"


def _impossible(node: ast.FunctionDef) -> Iterator[int]:
    """Lines of asserts at the end of a function that compare something with a literal."""
    asserts = _last_asserts(node)
    lines = [part.lineno for part in asserts if literal_side(part) is not None]
    given = {name.arg for name in node.args.args}
    idle = {part.lineno for part in asserts if isinstance(part.test, ast.Compare) and _is_of(part.test, given)}
    once = [line for line in lines if lines.count(line) == 1]
    yield from [line for line in once if line not in idle] or once


def _last_asserts(node: ast.FunctionDef) -> list[ast.Assert]:
    """Behind which there is nothing that a test would leave undone by failing there."""
    last = itertools.takewhile(lambda part: isinstance(part, ast.Assert), reversed(node.body))
    return [part for part in last if isinstance(part, ast.Assert)][::-1]


def _is_of(test: ast.Compare, given: set[str]) -> bool:
    """Whether only what the test was given is compared: that says more about the test than about a result."""
    return any(isinstance(side, ast.Name) and side.id in given for side in (test.left, *test.comparators))


def literal_side(node: ast.Assert) -> ast.expr | None:
    """The literal of `assert something == literal`, which no right solution can equal if it is another.

    The same for a number in `something == approx(number)` and `abs(something - number) < number`.
    """
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right = test.left, test.comparators[0]
    if isinstance(test.ops[0], (ast.Lt, ast.LtE)) and is_literal(right):
        inner = left.args[0] if _calls(left, "abs") else None
        if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub):
            return None
        return _the_literal(*(part if _is_number(part) else None for part in (inner.left, inner.right)))
    if not isinstance(test.ops[0], ast.Eq):
        return None
    about = [part.args[0] if _calls(part, "approx") and _is_number(part.args[0]) else None for part in (left, right)]
    return _the_literal(*about) or _the_literal(*(part if is_literal(part) else None for part in (left, right)))


def _the_literal(left: ast.expr | None, right: ast.expr | None) -> ast.expr | None:
    return None if left is not None and right is not None else left or right


def _calls(node: ast.expr, name: str) -> TypeGuard[ast.Call]:
    named = (getattr(node.func, "id", ""), getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ()
    return name in named and bool(getattr(node, "args", ()))


def _is_number(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is not Ellipsis
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and is_literal(node.operand)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return all(map(is_literal, node.elts))
    if isinstance(node, ast.Dict):
        return all(key is not None and is_literal(key) for key in node.keys) and all(map(is_literal, node.values))
    return False


def _parameters(node: ast.FunctionDef) -> set[str]:
    return {name for mark in node.decorator_list for name in _parameter_names(mark)}


def _parameter_names(mark: ast.expr) -> list[str]:
    """Of `@pytest.mark.parametrize("a, b", ...)`."""
    if not (isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "parametrize"):
        return []
    named = mark.args[0] if mark.args else None
    if isinstance(named, ast.Constant) and isinstance(named.value, str):
        return [name.strip() for name in named.value.split(",") if name.strip()]
    if isinstance(named, (ast.Tuple, ast.List)):
        return [str(part.value) for part in named.elts if isinstance(part, ast.Constant)]
    return []


def _is_fixed(node: ast.expr) -> bool:
    """Whether a literal is of a kind that nobody can change in place."""
    if isinstance(node, ast.Tuple):
        return all(map(_is_fixed, node.elts))
    return not isinstance(node, (ast.List, ast.Set, ast.Dict))


def _only_expected(node: ast.FunctionDef, parameter: str) -> bool:
    """Whether a parameter is only what results are compared with: nothing the candidate is given depends on it."""
    decided = False
    allowed: set[int] = set()
    for statement in node.body:
        if not isinstance(statement, ast.Assert):
            continue
        test = statement.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            sides = (test.left, test.comparators[0])
            for side, other in (sides, sides[::-1]):
                if isinstance(side, ast.Name) and side.id == parameter and not _mentions(other, parameter):
                    allowed.add(id(side))
                    decided = True
        allowed |= set(map(id, _harmless_uses(test, parameter)))
    used = [part for part in ast.walk(node) if isinstance(part, ast.Name) and part.id == parameter]
    return decided and all(id(part) in allowed for part in used)


def _has_lists(given: tuple[list[str], list[ast.expr]]) -> bool:
    return any(isinstance(part, (ast.List, ast.Dict, ast.Set)) for row in given[1] for part in _cells(row))


def _cells(row: ast.expr) -> list[ast.expr]:
    return [row, *getattr(row, "elts", ()), *getattr(row, "args", ())]


def _expected(node: ast.FunctionDef) -> set[str]:
    return {name for name in _parameters(node) if _only_expected(node, name)}


def _harmless_uses(test: ast.expr, parameter: str) -> Iterator[ast.expr | None]:
    """`expected.split()`, `str(expected)`: the test's own business, seen by no candidate."""
    for part in ast.walk(test):
        if not isinstance(part, ast.Call):
            continue
        function = part.func
        owner = function.value if isinstance(function, ast.Attribute) else None
        own = isinstance(owner, ast.Name) and owner.id == parameter
        if own and not any(_mentions(given, parameter) for given in part.args):
            yield owner
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        first = part.args[0] if name in _SAFE_CALLS and len(part.args) == 1 else None
        if isinstance(first, ast.Name) and first.id == parameter:
            yield first


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))
