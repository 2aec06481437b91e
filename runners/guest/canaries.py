"""Tests of our own among the suite's, new for every run: some must fail, some must pass.

A candidate that has made tests pass has made these pass, too. There are two kinds:

- *plain* ones never touch the candidate: `assert 4711 == 815` must fail whatever it does. They stand
  anywhere among the suite's tests.
- *twins* are copies of the suite's own tests in which the expected value is another. What equals
  everything, and what reads the expected value from its caller, passes them. Since a twin calls the
  candidate, which may count its calls, twins come after the suite's last test.

Which is which is told to the host before the candidate is imported; nothing in their names shows it.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import itertools
import random
import re

import pytest
from _pytest.fixtures import FuncFixtureInfo

from . import blueprint

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType
    from typing import Any

    from .blueprint import Blueprint, Twin

PLAIN_FAILING = 2
TWINS = 3
MANY = 5
"""A suite with fewer tests gets one twin: more would cost more than the tests."""
RARELY = 3
"""One in so many of those gets a canary that must pass, too: few cheats make anything fail."""

_FAILING = (
    "assert {a} == {b}",
    "value = {a}\n    assert value == {b}",
    "assert sorted([{b}, {a}, {a}]) == [{b}, {a}]",
    "assert isinstance('{a}', int)",
    "assert len([{a}, {b}]) == 3",
    "assert [{a}, {b}] == [{b}, {a}]",
    "assert {{'key': {a}}} == {{'key': {b}}}",
    "assert '{a}' in '{b}'",
    "assert {a} == pytest.approx({b})",
    "assert abs({a} - {b}) < 1e-9",
    "assert all(part == {a} for part in ({a}, {b}))",
    "assert not any(part == {a} for part in ({a}, {b}))",
    "assert max({a}, {b}) == min({a}, {b})",
    "assert operator.eq({a}, {b})",
    "raise ValueError('{a}')",
    "raise AssertionError('{a}')",
    "pytest.fail('{a}')",
    "with pytest.raises(KeyError):\n        pass",
    "with pytest.raises(KeyError):\n        raise ValueError('{a}')",
    "with pytest.raises(ValueError, match='{a}'):\n        raise ValueError('{b}')",
    "unittest.TestCase().assertEqual({a}, {b})",
    "assert json.loads('{a}') == {b}",
    "assert random.Random({a}).random() == random.Random({b}).random()",
)
_PASSING = (
    "assert {a} != {b}\n    assert not {a} == {b}",
    "with pytest.raises(ZeroDivisionError):\n        {a} / 0",
    "assert sorted([{a}, {b}]) == [min({a}, {b}), max({a}, {b})]",
    "assert not isinstance('{a}', int) and len('{a}') == len(str({a}))",
    "assert json.loads(json.dumps([{a}, '{b}'])) == [{a}, '{b}']",
)
_DIVISIBLE = 232_792_560
"""By every number up to 20: what computes modulo one of them does not take another for the one it knows."""
_CLOCK = """\
    began = time.perf_counter(), time.time(), time.monotonic()
    count = 0
    while time.perf_counter() == began[0] and count < 10000:
        count += 1
    assert time.perf_counter() > began[0]
    assert time.time() >= began[1] and time.monotonic() >= began[2]"""
_REPLACEABLE = re.compile(r"\b(sorted|isinstance|len|approx|abs|all|any|max|operator|unittest|json|random|time)\b")
_PATCHES = re.compile(rb"\b(patch|setattr|MonkeyPatch|freeze_time|time_machine)\b")
_BUILT_IN = frozenset(vars(builtins))
_NUMBERED = re.compile(r"(.*?)(\d+)$")
_compile = compile
_MODULES = ("json", "operator", "pytest", "random", "time", "unittest")


class Canary(pytest.Function):
    """Says of its failure only that it failed, and does so at once when a test has failed: nothing is a pass then."""

    def setup(self) -> None:
        if self.session.testsfailed:
            raise AssertionError
        super().setup()

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        return "failed"


Canary.__name__ = Canary.__qualname__ = "Function"


class Plan:
    """The canaries that a module gets: announced before it is imported, made once it is."""

    def __init__(self, found: Blueprint, filename: str, chance: random.Random, suite: bytes) -> None:
        self._found, self._filename, self._chance = found, filename, chance
        self._patched = bool(_PATCHES.search(suite)) or found.stars or not found.bound.isdisjoint(_BUILT_IN)
        self._twins = [(twin, self._code(twin)) for twin in self._choose()]
        failing = 1 if self._twins else PLAIN_FAILING
        passing = int(len(found.tests) >= MANY or not chance.randrange(RARELY))
        names = _names(found, chance, failing + passing + len(self._twins))
        self.failing, self.passing = names[:failing], names[failing : failing + passing]
        self.twins = names[failing + passing :]

    def announced(self, path: str) -> dict[str, list[str]]:
        """The ids that each kind may get."""
        kinds = {"failing": self.failing, "passing": self.passing, "twins": self.twins}
        return {kind: [f"{path}::{name}" for name in names] for kind, names in kinds.items()}

    def _choose(self) -> list[Twin]:
        """Of both kinds, if there are both: what is read from the caller's names may not be what it reads."""
        found = list(itertools.islice(self._found.twins(self._chance), 30))
        self._chance.shuffle(found)
        by_parameter = [twin for twin in found if twin.parameter]
        by_literal = [twin for twin in found if not twin.parameter]
        mixed = itertools.chain.from_iterable(itertools.zip_longest(by_parameter, by_literal))
        most = TWINS if len(self._found.tests) >= MANY else 1
        return [twin for twin in mixed if twin is not None][:most]

    def _code(self, twin: Twin) -> CodeType | None:
        """The test with another literal. Its asserts stay as they are, for what pytest adds to them is costly."""
        if twin.parameter:
            return None
        test = self._found.functions[twin.name]
        changed = self._found.functions[twin.helper] if twin.helper else test
        asserts = [part for part in changed.body if isinstance(part, ast.Assert) and part.lineno == twin.line]
        sides = [(part, blueprint.literal_side(part)) for part in asserts]  # in one line may stand another assert, too
        statement, side = next((part, side) for part, side in sides if side is not None)
        parent, field, index = next(_places(statement, side))
        other = ast.parse(repr(another(ast.literal_eval(side), self._chance)), mode="eval").body
        for part in ast.walk(other):
            ast.copy_location(part, side)
        decorators, test.decorator_list = test.decorator_list, []
        _put(parent, field, index, other)
        try:
            body: list[ast.stmt] = [changed, test] if twin.helper else [test]
            return _compile(ast.Module(body=body, type_ignores=[]), self._filename, "exec", dont_inherit=True)
        finally:
            test.decorator_list = decorators
            _put(parent, field, index, side)

    # --- once the module is imported ----------------------------------------

    def make_plain(self, module: pytest.Module) -> list[pytest.Function]:
        bodies = [(name, self._chance.choice(self._usable(_FAILING))) for name in self.failing]
        bodies += [(name, self._chance.choice(self._usable((*_PASSING, "")))) for name in self.passing]
        text = "".join(f"def {name}():\n{self._body(body)}\n" for name, body in bodies)
        space: dict[str, Any] = {**vars(module.obj), **{name: __import__(name) for name in _MODULES}}
        exec(_compile(text, self._filename, "exec", dont_inherit=True), space)  # noqa: S102  # ours
        nothing = FuncFixtureInfo((), (), [], {})
        return [
            Canary.from_parent(module, name=name, callobj=space[name], fixtureinfo=nothing)  # no autouse fixtures
            for name, _ in bodies
        ]

    def _usable(self, templates: tuple[str, ...]) -> list[str]:
        """What a suite patches itself, for longer than a test, or binds anew, may do anything in a canary."""
        return [text for text in templates if not (self._patched and _REPLACEABLE.search(text or _CLOCK))]

    def _body(self, template: str) -> str:
        if not template:
            return _CLOCK
        first = self._chance.randrange(1_000, 1_000_000)
        second = first + self._chance.randrange(1_000, 1_000_000)
        return "    " + template.format(a=first, b=second)

    def make_twins(self, items: list[pytest.Function]) -> list[pytest.Function]:
        """Of tests that are among the items."""
        made: list[pytest.Function] = []
        for name, (twin, code) in zip(self.twins, self._twins):  # noqa: B905  # 3.9
            of_it = [item for item in items if item.originalname == twin.name]
            if not of_it:
                continue
            try:
                made.append(self._twin(twin, code, self._chance.choice(of_it), name))
            except Exception:  # the suite's own names and types, of which we know nothing
                continue
        return made

    def _twin(self, twin: Twin, code: CodeType | None, item: pytest.Function, name: str) -> pytest.Function:
        known: dict[str, Any] = {"fixtureinfo": item._fixtureinfo, "callobj": item.obj}
        if hasattr(item, "callspec"):
            known["callspec"] = item.callspec
            known["name"] = item.name.replace(twin.name, name, 1)
        if code is None:
            given = dict(item.callspec.params)
            given[twin.parameter] = another(given[twin.parameter], self._chance)
            known["callspec"] = dataclasses.replace(item.callspec, params=given)
        else:
            space = dict(item.obj.__globals__)
            exec(code, space)  # noqa: S102  # the suite's own
            known["callobj"] = space[twin.name]
        return Canary.from_parent(item.parent, **{"name": name, "originalname": name, **known})


def another(value: Any, chance: random.Random) -> Any:
    """A value like it that nothing is equal to by chance, nor for looking only at as many as it has itself."""
    far = _DIVISIBLE * chance.randrange(1, 1_000) + 1
    kind = type(value)
    if kind is int:
        return value + far
    if kind is float:
        return far + 0.5
    if kind is str:
        return value + "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(12))
    if kind is list:
        return [far, *value]
    if kind is tuple:
        return (far, *value)
    if kind in (set, frozenset):
        return kind([far, *list(value)[1:]])
    if kind is dict:
        return {**dict.fromkeys(value, far), far: far}
    return far


def _places(tree: ast.AST, wanted: ast.AST) -> Iterator[tuple[ast.AST, str, int]]:
    """Where a node stands: in which other, as which field, and where in a list of them."""
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            for index, part in enumerate(value if isinstance(value, list) else [value]):
                if part is wanted:
                    yield node, field, index


def _put(parent: ast.AST, field: str, index: int, node: ast.AST) -> None:
    value = getattr(parent, field)
    if isinstance(value, list):
        value[index] = node
    else:
        setattr(parent, field, node)


def _names(found: Blueprint, chance: random.Random, count: int) -> list[str]:
    """Names as the suite's own tests have them, and that none of them has."""
    known = [name.rpartition("::")[2] for name in found.tests] or ["test_it"]
    words = sorted({word for name in known for word in name.split("_")[1:] if word}) or ["more"]
    taken = set(found.bound) | set(known)
    names: list[str] = []
    most = 10
    while len(names) < count:
        base = chance.choice(known)
        most += 1
        numbered = _NUMBERED.match(base)
        if numbered:
            name = f"{numbered[1]}{chance.randrange(most)}"
        else:
            name = f"{base}_{chance.choice((*words, str(chance.randrange(2, most))))}"
        if name not in taken:
            taken.add(name)
            names.append(name)
    return names
