"""Operands that decide themselves to what they are equal: asked about what they cannot know.

Before and after each `assert a == b` of the suite's whose operand is of a class with an equality of
its own. One that equals strangers, too, or what is near, is no answer to anything.
"""

from __future__ import annotations

import itertools
import os
import types

import pytest

from . import pristine

TYPE_CHECKING = False

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from .blueprint import Blueprint
    from .ownership import Ownership

    _Asked = tuple[Any, Any, bool, bool]
    """A value, what it is compared with, whether that is known, and whether anything true makes them equal."""

_LOOKED_INTO = 50
_Approx: Any = type(pytest.approx(0)).__mro__[1]
"""The base of all that `approx` gives."""
_ATOMS = frozenset(map(id, (type(None), bool, int, float, complex, str, bytes)))
_PLAIN = _ATOMS | set(map(id, (list, tuple, dict, set)))
"""By what they are, and not by what a metaclass says that a class is equal to."""


def _pairs(value: Any, other: Any, depth: int, whole: bool = True) -> Iterator[tuple[Any, Any, bool]]:
    """A value and what it is compared with, then the same of what it holds; not of all if that is much."""
    yield value, other, whole
    kind: type[Any] = type(value)
    inner: Any = ()
    others: Any = ()
    if issubclass(kind, list):  # whatever class it says it has
        inner = list.__iter__(value)
    elif issubclass(kind, tuple):
        inner = tuple.__iter__(value)
    elif kind is dict:
        inner = value.values()
    else:
        return
    if type(other) is kind and len(other) == len(value):
        others = other.values() if kind is dict else other  # type: ignore[union-attr]
    for part, its in itertools.zip_longest(itertools.islice(inner, _LOOKED_INTO if depth else 0), others):
        if id(type(part)) not in _ATOMS:
            yield from _pairs(part, its, depth - 1, bool(others))


def _is_approx(kind: type[Any]) -> bool:
    return any(base is _Approx for base in pristine.bases_of(kind))


def _near(value: Any, chance: random.Random) -> list[Any]:
    """Others of the same kind, that look as likely; none that only goes on where this ends, for an honest `zip`
    does not see that."""
    kind = type(value)
    if kind is bool:
        return [not value]
    if kind is int or kind is float:
        return [value + sign * (1 + abs(value) // 2 * more) for more in (0, 1) for sign in (1, -1)]
    if kind is str:
        others = [chr(ord(value[0]) ^ 1) + value[1:], value[:-1] + chr(ord(value[-1]) ^ 2)] if value else []
        return [*others, value + "1", value[1:] + "0"]
    numbers = [chance.getrandbits(60) for _ in range(2)] if kind in (list, tuple, dict, set) and value else []
    if kind is list or kind is tuple:
        firsts, lasts = (_near(value[end], chance)[:2] or numbers for end in (0, -1)) if value else ((), ())
        others = [[another, *value[1:]] for another in firsts] + [[*value[:-1], another] for another in lasts]
        return list(map(kind, others))
    if kind is dict:
        return [dict.fromkeys(value, number) for number in numbers]
    if kind is set:
        return [{number, *list(value)[1:]} for number in numbers]
    if _is_approx(kind) and type(value.expected) in (int, float):
        return [pytest.approx(another) for another in _near(value.expected, chance)]
    return []


class Fresh(Exception):
    """No one's base but ours."""


class Equality:
    """`find` and `suspect` are told of what agrees with too much; `blueprints` are the suite's modules, once known."""

    def __init__(
        self,
        owners: Ownership,
        text: bytes,
        chance: random.Random,
        workspace: str,
        blueprints: Mapping[str, Blueprint],
        find: Callable[[str], None],
        suspect: Callable[[str], None],
    ) -> None:
        self._owners, self._text, self._chance = owners, text, chance
        self._workspace, self._blueprints = workspace, blueprints
        self._find, self._suspect = find, suspect
        self._equalities: dict[int, tuple[type[Any], Any, bool]] = {}
        self._compare: Any = None
        self._comparing = False

    def before(self, left: Any, right: Any, decides: bool) -> list[_Asked]:
        """What decides itself to what it is equal. It is asked about others first: one that agrees with
        whatever comes first has then agreed with those. `decides`: whether the assert goes by what that gives;
        a query or an array that is true, and that the test does something else with, claims nothing."""
        if self._comparing:
            return []
        found = [*_pairs(left, right, 3), *_pairs(right, left, 3)]
        asked = [
            (part, other, whole, whole and decides and id(type(other)) in _PLAIN)
            for part, other, whole in found
            if self._decides(type(part), other)
        ]
        if asked:
            self._guarded(self._equals_another, asked)
        return asked

    def after(self, asked: list[_Asked]) -> None:
        """An operand of the submission's that equals what it has never seen is no answer to anything."""
        for (part, *_), agrees in zip(asked, self._guarded(self._equals_another, asked)):  # noqa: B905  # 3.9
            if agrees:
                kind = type(part)
                told = f"an object of the submission's class {kind.__qualname__} is equal to {agrees}"
                known = any(found.takes(kind) for found in self._blueprints.values())
                (self._suspect if known else self._find)(told)

    def _guarded(self, ask: Any, asked: list[_Asked]) -> list[str]:
        self._comparing = True
        try:
            return [ask(*one) for one in asked]
        finally:
            self._comparing = False

    def _decides(self, kind: type[Any], other: Any) -> bool:
        """Whether equality is in the hands of this class: of its own code, or of the arithmetic that approx does."""
        return id(kind) not in _PLAIN and (_is_approx(type(other)) or self._has_own_equality(kind))

    def _has_own_equality(self, kind: type[Any]) -> bool:
        base, equal = pristine.equality_of(kind)
        if self._equalities.get(id(kind), (kind, None, False))[1] is not equal:
            stock = isinstance(equal, types.WrapperDescriptorType) and equal.__name__ == "__eq__"
            made = getattr(equal, "__module__", None), getattr(equal, "__qualname__", None)
            at_home = made == (base.__module__, f"{base.__qualname__}.__eq__") and self._owners.is_known(
                equal, "__eq__"
            )
            agreeable = made[0] == "unittest.mock" and b"mock" not in self._text
            self._equalities[id(kind)] = kind, equal, agreeable or not (stock or at_home)
        return self._equalities[id(kind)][2]

    def _equals_another(self, value: Any, other: Any, whole: bool, plain: bool) -> str:
        """Of what it is never equal to by right, what it says to be equal to.

        Equality may give what is no bool, as arrays do; compared with something plain, it must not be true.
        """
        if self._compare is None:
            self._compare = self._comparing_code()
        number = self._chance.getrandbits(60)
        strangers = (Fresh(), number, f"{number:x}", number % 1_000_000 + 0.5, [number])
        asked = strangers if self._has_own_equality(type(value)) else ()
        if sum(self._are_equal(value, stranger, plain) for stranger in asked) > 1:  # of a ring, one may be by chance
            return "everything"
        if whole:
            near = [self._are_equal(value, another, plain) for another in _near(other, self._chance)]
            several = sum(near) > 1 and any(near[:2])  # no ring takes a number for the next one
            if several or (near and type(other) is bool and near[0]):
                return "other values than the one that it was compared with"
        return ""

    def _are_equal(self, value: Any, other: Any, plain: bool) -> bool:
        try:
            answer = self._compare(value, other)
            return answer is True or (plain and bool(answer))
        except Exception:
            return False

    def _comparing_code(self) -> Any:
        """Compares in a frame that looks like a test's: there are objects that look who asks."""
        path, found = next(iter(self._blueprints.items()))
        name = next((name for name in found.tests if name.isidentifier()), "test_it")
        space: dict[str, Any] = {"__name__": os.path.basename(path)[: -len(".py")]}
        filename = os.path.join(self._workspace, path)
        exec(compile(f"def {name}(a, b): return a == b", filename, "exec"), space)  # noqa: S102  # ours
        return space[name]
