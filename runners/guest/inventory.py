"""What a module of the suite is made of: what its source says, and what it was before the first test ran.

A candidate beside the tests can reach their module's names, classes, parameters and settings, and make
each of them agree with its wrong answers. `amiss` compares them with the source when all is collected;
`keep` remembers them, and `changes` says later which are others.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections import Counter

import pytest
from _pytest import fixtures
from _pytest.mark.structures import ParameterSet

from . import blueprint, canaries, pristine

TYPE_CHECKING = False

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType
    from typing import Any

    from .blueprint import Blueprint, Definition

    Amiss = tuple[str, str, Any]
    """The name by which a suite could have changed it itself, a description, and what it is now."""

XUNIT = {
    *("setup", "teardown", "setup_module", "teardown_module", "setup_function", "teardown_function"),
    *("setUpModule", "tearDownModule", "load_tests"),
}
"""Names of a module by which pytest and unittest do something before and after its tests."""
OF_TESTS = ("callspec", "funcargs", "obj", "inner_test", "settings", "func", "items")
"""What plugins may change of a test."""
_FIXTURE: Any = getattr(fixtures, "FixtureFunctionDefinition", ())
_UNITTEST = ("__unittest_skip__", "__unittest_expecting_failure__")
_WRAPPERS = ("given", "settings", "example", "seed")
_MEMBERS = (types.FunctionType, classmethod, staticmethod, property)
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_built_in = vars(builtins)
_compile, _eval = compile, eval


class Inventory:
    """One module. `submitted` says where in the submission a value was made, if it was made there."""

    def __init__(
        self,
        path: str,
        space: dict[str, Any],
        found: Blueprint,
        code: CodeType | None,
        submitted: Callable[[Any], str | None],
    ) -> None:
        self._path, self._space, self._found, self._submitted = path, space, found, submitted
        self._codes, self._compiled = _inside(code), code is not None
        self._kept: dict[str, Any] = {}
        self._members: list[tuple[type[Any], dict[str, Any], frozenset[str]]] = []
        self._tests: dict[int, tuple[pytest.Function, Any, tuple[Any, ...], list[tuple[int, str]]]] = {}
        self._answers: list[tuple[Any, str, Any]] = []
        self._fixtures: dict[int, tuple[Any, Any]] = {}
        self._settings: list[tuple[Any, Any, Any, tuple[Any, ...]]] = []

    # --- as the source says -------------------------------------------------

    def amiss(self, items: Sequence[pytest.Item], complete: bool) -> Iterator[Amiss]:
        """What is not as the source says; `complete` if no test of the source may be missing."""
        if not any(self._space.get("__builtins__") is known for known in (_built_in, builtins)):
            yield "__builtins__", f"`__builtins__` of the suite's {self._path}", None
        for name, node in self._found.functions.items():
            if name not in self._found.rebound:
                yield from self._function(name, node, self._space.get(name), self._codes.get(name))
        for name, cls in self._found.classes.items():
            if name not in self._found.rebound and not cls.decorator_list and not self._found.hands_out(name):
                yield from self._class(cls, self._space.get(name))
        for name, literal in self._found.literals.items():
            if name not in self._found.rebound and not _same(self._space.get(name), _value(literal)):
                yield self._named(name, self._space.get(name))
        if not self._found.stars:
            yield from self._strangers()
        yield from self._parameters(items, complete)

    def _function(self, name: str, node: Definition, now: Any, code: CodeType | None) -> Iterator[Amiss]:
        kinds = {_name(mark) for mark in node.decorator_list}
        if all(map(blueprint.is_any_mark, node.decorator_list)):
            if not self._is_made_of(now, code) or len(vars(now).get("pytestmark", ())) != len(node.decorator_list):
                yield self._named(name, now)
        elif kinds.issubset(_WRAPPERS) and "given" in kinds:
            handle = getattr(now, "hypothesis", None)
            if not self._is_made_of(getattr(handle, "inner_test", None), code):
                yield self._named(name, now)
            most = getattr(getattr(now, "_hypothesis_internal_use_settings", None), "max_examples", None)
            said = [_value(key.value) for mark in node.decorator_list for key in _keywords(mark, "max_examples")]
            if said and most != said[0]:
                yield "settings", f"the settings of {name} in {self._path}", None

    def _is_made_of(self, now: Any, code: CodeType | None) -> bool:
        """What Python has compiled itself, without us, is at least not of the submission's making."""
        if not isinstance(now, types.FunctionType) or _builtins_of(now) is not _built_in:
            return False
        return now.__code__ is code if self._compiled else self._submitted(now) is None

    def _named(self, name: str, now: Any) -> Amiss:
        return name.rpartition(".")[2], f"`{name}` of the suite's {self._path}", now

    def _class(self, node: ast.ClassDef, now: Any) -> Iterator[Amiss]:
        if not isinstance(now, type):
            yield self._named(node.name, now)
            return
        if self._descends(now):
            return
        codes = _inside(self._codes.get(node.name))
        alone = not (node.bases or node.keywords)
        bound = [inner.name for inner in node.body if isinstance(inner, (ast.FunctionDef, ast.ClassDef))]
        space = vars(now)
        if "pytestmark" in space and b"pytestmark" not in self._found.source:
            yield self._named(f"{node.name}.pytestmark", None)
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and bound.count(inner.name) == 1:
                member = space.get(inner.name)
                if alone or self._submitted(member):
                    yield from self._function(inner.name, inner, member, codes.get(inner.name))
        for name, value in list(space.items()):
            if isinstance(value, _MEMBERS) and name not in bound and _matters(now, name) and self._submitted(value):
                yield self._named(f"{node.name}.{name}", value)

    def _descends(self, kind: type[Any]) -> bool:
        """Whether a class or metaclass of the submission's has had a say in how this class is made."""
        return any(self._submitted(base) for base in (type(kind), *pristine.bases_of(kind)[1:]))

    def _strangers(self) -> Iterator[Amiss]:
        for name in set(self._space) - self._found.bound:
            value = getattr(self._space[name], "_fixture_function", self._space[name])
            is_fixture = isinstance(self._space[name], _FIXTURE) and self._submitted(value)
            if name in XUNIT or name.startswith("pytest_") or is_fixture:
                yield name, f"`{name}` among the names of the suite's {self._path}", value

    def _parameters(self, items: Sequence[pytest.Item], complete: bool) -> Iterator[Amiss]:
        by_name = _by_name(items)
        for name, node in self._found.parametrized():
            of_it = by_name.get(name, [])
            for names, rows in self._found.rows(node):
                said = [_row(row) for row in rows]
                if said and of_it and complete and not _are_all_there(of_it, names, said):
                    yield "callspec", f"the rows of parameters of {name} in {self._path}", None
                    continue
                if any(_row_of(item.callspec, names, said) is None for item in of_it if said):
                    yield "callspec", f"the parameters of {name} in {self._path}", None

    # --- as it was ----------------------------------------------------------

    def keep(self, items: Sequence[pytest.Item]) -> None:
        """Remember it as it is now, before a test has run."""
        self._kept = {name: self._space.get(name) for name in self._found.bound - self._found.rebound}
        for name in self._found.classes:
            kind = self._space.get(name)
            if isinstance(kind, type) and not (self._found.hands_out(name) or self._descends(kind)):
                own = {key: value for key, value in vars(kind).items() if isinstance(value, _MEMBERS)}
                self._members.append((kind, own, frozenset(vars(kind))))
        for item in items:
            if isinstance(item, pytest.Function):
                self._tests[id(item)] = (item, _function_of(item), _parameters_of(item), _given(item))
                for found in item._fixtureinfo.name2fixturedefs.values():
                    self._fixtures.update((id(fixture), (fixture, fixture.func)) for fixture in found)
        self._keep_answers(items)
        for function in {id(test[1]): test[1] for test in self._tests.values()}.values():
            handle, settings = _hypothesis_of(function)
            if handle is not None:
                self._settings.append((function, handle.inner_test, settings, _values(settings)))

    def _keep_answers(self, items: Sequence[pytest.Item]) -> None:
        """Lists and the like with which results are compared, and nothing else is done: none of them ever changes."""
        by_name = _by_name(items)
        inputs = self._found.inputs
        for name, node in self._found.parametrized():
            for names, rows in self._found.rows(node):
                of_it = by_name.get(name, []) if not inputs.issuperset(names) else []
                said = [_row(row) for row in rows] if of_it else []
                for item in of_it:
                    index = _row_of(item.callspec, names, said)
                    row = said[index] if index is not None else _Unknown
                    cells = _cells(item.callspec, names, row)
                    pairs = zip(names, cells)  # noqa: B905  # 3.9
                    kept = [(parameter, cell) for parameter, cell in pairs if isinstance(cell, (list, dict, set))]
                    self._answers += [(item, parameter, cell) for parameter, cell in kept if parameter not in inputs]

    def mislead(self, chance: random.Random) -> None:
        """Put other answers into the lists of parameters: pytest has taken what it needs of them, and who reads
        there from now on is not the suite."""
        for name, node in self._found.parametrized():
            expected = self._found.expected.get(name, ())
            function = _member(self._space, name)
            for names, _ in self._found.rows(node) if expected else ():
                for rows in _lists_of(function, names):
                    places = [names.index(parameter) for parameter in expected if parameter in names[1:]]
                    rows[:] = [_with_others(row, places, len(names), chance) for row in rows]

    def changes_of(self, item: pytest.Function) -> Iterator[Amiss]:
        """What of a test is another now. Asked when it is about to be called, too: it may be put back later."""
        if id(item) not in self._tests:
            return
        _, function, params, given = self._tests[id(item)]
        if params and not _are(_parameters_of(item), params):
            yield "callspec", f"the parameters of {item.nodeid}", None
        arguments = item.funcargs
        if arguments and any(arguments.get(name) is not params[index] for index, name in given):
            yield "funcargs", f"the arguments of {item.nodeid}", None
        if _function_of(item) is not function:
            yield "obj", f"the function of {item.nodeid}", _function_of(item)

    def changes(self) -> Iterator[Amiss]:
        """What is another now."""
        for name, before in self._kept.items():
            now = self._space.get(name)
            if now is not before:
                yield self._named(name, now)
        for kind, own, names in self._members:
            space = vars(kind)
            for name, before in own.items():
                if space.get(name) is not before:
                    yield self._named(f"{kind.__name__}.{name}", space.get(name))
            for name in set(space) - names:
                if isinstance(space[name], _MEMBERS) and _matters(kind, name) and self._submitted(space[name]):
                    yield self._named(f"{kind.__name__}.{name}", space[name])
        for item, *_ in self._tests.values():
            if vars(item).get("_obj") is not None:
                yield from self.changes_of(item)
        for item, parameter, said in self._answers:
            if not _same(item.callspec.params.get(parameter), said):
                yield "callspec", f"the parameters of {item.nodeid}", None
        for fixture, function in self._fixtures.values():
            if fixture.func is not function:
                yield "func", f"the fixture {fixture.argname} of {self._path}", fixture.func
        for function, inner, settings, values in self._settings:
            handle, now = _hypothesis_of(function)
            if getattr(handle, "inner_test", None) is not inner:
                yield "inner_test", f"what Hypothesis runs as {function.__name__}", getattr(handle, "inner_test", None)
            if now is not settings or not pristine.identical(_values(now), values):
                yield "settings", f"the settings of {function.__name__} in {self._path}", None


def _matters(kind: type[Any], name: str) -> bool:
    """Whether a name that is new in a class changes what it does: pytest, Python or a base may know it."""
    inherited = any(name in vars(base) for base in pristine.bases_of(kind)[1:])
    return inherited or name.startswith("__") or kind.__name__.startswith("Test")


def _member(space: dict[str, Any], name: str) -> Any:
    """`test_name` and `Class::test_name` of a module."""
    owner, _, member = name.rpartition("::")
    return getattr(space.get(owner), "__dict__", {}).get(member) if owner else space.get(name)


def _lists_of(function: Any, names: list[str]) -> list[list[Any]]:
    """Those that a test's marks hold for such parameters."""
    marks = (mark.args for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize")
    said = (names, tuple(names))
    return [
        args[1]
        for args in marks
        if len(args) > 1
        and type(args[1]) is list
        and (args[0] in said or [name.strip() for name in str(args[0]).split(",") if name.strip()] == names)
    ]


def _with_others(row: Any, places: list[int], count: int, chance: random.Random) -> Any:
    values = list(row.values if isinstance(row, ParameterSet) else row if type(row) in (tuple, list) else ())
    if len(values) != count:
        return row
    for place in places:
        values[place] = canaries.another(values[place], chance)
    return row._replace(values=tuple(values)) if isinstance(row, ParameterSet) else type(row)(values)


def _by_name(items: Sequence[pytest.Item]) -> dict[str, list[Any]]:
    """Tests with parameters, by what their source calls them."""
    found: dict[str, list[Any]] = {}
    for item in items:
        if hasattr(item, "callspec"):
            found.setdefault(item.nodeid.partition("::")[2].partition("[")[0], []).append(item)
    return found


def may_be_skipped(item: pytest.Item) -> bool:
    """Whether it bears a mark by which it may be skipped, or expected to fail."""
    test = getattr(item, "obj", None)
    kinds = (test, getattr(item, "cls", None))
    return any(mark.name in ("skip", "skipif", "xfail") for mark in item.iter_markers()) or any(
        getattr(kind, name, False) for kind in kinds for name in _UNITTEST
    )


def _inside(code: CodeType | None) -> dict[str, CodeType]:
    """The code of the functions and classes that a module or a class defines."""
    return {part.co_name: part for part in code.co_consts if hasattr(part, "co_name")} if code is not None else {}


def _builtins_of(function: types.FunctionType) -> Any:
    return getattr(function, "__builtins__", _built_in)  # since 3.10


def _function_of(item: pytest.Function) -> Any:
    return getattr(item.obj, "__func__", item.obj)


def _parameters_of(item: pytest.Function) -> tuple[Any, ...]:
    return tuple(item.callspec.params.values()) if hasattr(item, "callspec") else ()


def _given(item: pytest.Function) -> list[tuple[int, str]]:
    """Which of its parameters are arguments as they are, and do not go to a fixture: their places and names."""
    definitions = item._fixtureinfo.name2fixturedefs
    names = enumerate(item.callspec.params) if hasattr(item, "callspec") else ()
    return [(index, name) for index, name in names if _hands_on(definitions.get(name))]


def _hands_on(definitions: Any) -> bool:
    """Whether it is the fixture that pytest makes of a parameter."""
    return bool(definitions) and getattr(definitions[-1].func, "__name__", "") == "get_direct_param_fixture_func"


def _hypothesis_of(function: Any) -> tuple[Any, Any]:
    space = getattr(function, "__dict__", {})
    return space.get("hypothesis"), space.get("_hypothesis_internal_use_settings")


def _values(settings: Any) -> tuple[Any, ...]:
    """Of Hypothesis's settings, what decides how much is tried."""
    return tuple(getattr(settings, name, None) for name in ("max_examples", "phases", "suppress_health_check"))


def _are(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    return len(now) == len(before) and pristine.identical(now, before)


def _name(mark: ast.expr) -> str:
    found = mark.func if isinstance(mark, ast.Call) else mark
    return found.attr if isinstance(found, ast.Attribute) else getattr(found, "id", "")


def _keywords(mark: ast.expr, name: str) -> Iterator[ast.keyword]:
    for key in mark.keywords if isinstance(mark, ast.Call) else ():
        if key.arg == name and blueprint.is_literal(key.value):
            yield key


def _value(node: ast.expr) -> Any:
    """Of a literal of the suite's."""
    return _eval(_compile(ast.Expression(node), "<literal>", "eval"), {"__builtins__": {}})


class _Unknown:
    """A row that is not all literals."""


def _row(node: ast.expr) -> Any:
    if blueprint.is_literal(node):
        return _value(node)
    if isinstance(node, ast.Call) and _name(node) == "param" and all(map(blueprint.is_literal, node.args)):
        cells = tuple(_value(cell) for cell in node.args)
        return cells if len(cells) != 1 else cells[0]
    return _Unknown


def _row_of(spec: Any, names: list[str], rows: list[Any]) -> int | None:
    """Which of the rows a test has; None if it has another.

    Of a single list it is the one whose number the test has. Where lists are stacked, or a fixture has
    parameters, too, pytest counts all that come of them, and only the values say which it is.
    """
    if len(spec.params) == len(names):
        number = spec.indices.get(names[0])
        return number if type(number) is int and 0 <= number < len(rows) and _has(spec, names, rows[number]) else None
    return next((index for index, row in enumerate(rows) if _has(spec, names, row)), None)


def _are_all_there(items: list[Any], names: list[str], rows: list[Any]) -> bool:
    """Whether no row is missing, as far as they are literals; in stacks each is there as often as the others."""
    if all(len(item.callspec.params) == len(names) for item in items):
        return {item.callspec.indices.get(names[0]) for item in items} == set(range(len(rows)))
    found = Counter(_row_of(item.callspec, names, rows) for item in items)
    first = [next(index for index, other in enumerate(rows) if _same(other, row)) for row in rows]
    return _Unknown in rows or all(
        found[index] * len(rows) == often * len(items) for index, often in Counter(first).items()
    )


def _has(spec: Any, names: list[str], row: Any) -> bool:
    if row is _Unknown:
        return True
    cells = _cells(spec, names, row)
    return len(cells) == len(names) and all(
        _same(spec.params.get(name), cell)
        for name, cell in zip(names, cells)  # noqa: B905  # 3.9
    )


def _cells(spec: Any, names: list[str], row: Any) -> Any:
    """The values of a row: of a list of names, even of one, pytest takes a row apart."""
    packed = type(row) in (tuple, list) and len(row) == 1 and _same(spec.params.get(names[0]), row[0])
    if len(names) == 1 and not packed:
        return (row,)
    return tuple(row) if hasattr(row, "__iter__") else ()


def _same(now: Any, said: Any) -> bool:
    """Whether it is exactly what a literal says, whatever an `__eq__` inside of it says."""
    kind = type(said)
    if type(now) is not kind:
        return False
    if kind is list or kind is tuple:
        return len(now) == len(said) and all(map(_same, now, said))
    if kind is dict:
        return len(now) == len(said) and all(map(_same, now, said)) and all(map(_same, now.values(), said.values()))
    if kind is set:
        return all(type(part) in (*_PLAIN, tuple) for part in now) and bool(now == said)
    return bool(now == said)
