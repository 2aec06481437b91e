"""Python values as JSON, exactly by type."""

from __future__ import annotations

import collections
import datetime
import enum
import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runners.guest import values

zones = st.none() | st.timedeltas(
    min_value=-datetime.timedelta(hours=23, minutes=59), max_value=datetime.timedelta(hours=23, minutes=59)
).map(datetime.timezone)
folds = st.integers(0, 1)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**64), 2**64)
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=("Cs", "Lu", "Cc")), max_size=5)
    | st.binary()
    | st.complex_numbers()
    | st.decimals()
    | st.sampled_from([Decimal("sNaN"), Decimal("-NaN"), Decimal("NaN12"), Decimal("1.00"), Decimal("-0E+5")])
    | st.fractions()
    | st.builds(range, st.integers(), st.integers(), st.integers(1))
    | st.builds(lambda moment, fold: moment.replace(fold=fold), st.datetimes(timezones=zones), folds)
    | st.dates()
    | st.builds(lambda moment, fold: moment.replace(fold=fold), st.times(timezones=zones), folds)
    | st.timedeltas()
)
# A signalling nan is the one plain value that cannot be hashed.
hashables = st.recursive(
    scalars.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan())),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
plain = st.recursive(
    scalars | st.binary().map(bytearray) | st.sets(hashables, max_size=3) | st.frozensets(hashables, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(hashables, inner, max_size=3)
        | st.dictionaries(st.text() | st.text().map("$".__add__), inner, max_size=3)
    ),
    max_leaves=10,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(), inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(values._DECODERS)), inner, min_size=1, max_size=2)
    ),
    max_leaves=12,
)


def crossed(value: Any) -> Any:
    return values.decode(json.loads(json.dumps(values.encode(value), allow_nan=False)))


def exact(value: Any) -> Any:
    """A form of the value in which nothing but an identical one is equal to it."""
    kind = type(value)
    if kind in (list, tuple):
        return kind, [exact(item) for item in value]
    if kind in (set, frozenset):
        return kind, sorted(repr(exact(item)) for item in value)
    if kind is dict:
        return kind, sorted((repr(exact(key)), repr(exact(item))) for key, item in value.items())
    if kind is Fraction:
        return kind, exact(value.numerator), exact(value.denominator)
    if kind is range:
        return kind, exact(value.start), exact(value.stop), exact(value.step)
    if kind is int:
        return kind, hex(value)
    if kind in (datetime.datetime, datetime.time):
        return kind, value.isoformat(), value.fold, type(value.tzinfo)
    return kind, repr(value)


@given(plain)
@example([-0.0, math.nan, math.inf, -math.inf])
@example(complex(-0.0, math.nan))
@example(Decimal("1E+400"))
@example({"$tuple": [1]})
@example({1: "a", "1": "b", (1,): "c", None: "d"})
@example("\ud800")
@example(datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(microseconds=-1))))
@example(datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(microseconds=1))))
def test_a_plain_value_crosses_unchanged(value):
    """
    A value of the plain kinds comes back as it was, in value and in type, all the way down.
    """
    assert exact(crossed(value)) == exact(value)


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**5000), Fraction(10**5000, 3), range(10**5000), {10**5000}],
    ids=["int", "negative", "fraction", "range", "set"],
)
def test_a_number_that_python_will_not_print_crosses_unchanged(value):
    """
    Python refuses to print an int of more than 4300 digits; it crosses nevertheless.
    """
    assert crossed(value) == value


@given(plain)
def test_a_plain_value_is_not_opaque(value):
    """
    Every value of the plain kinds has an encoding of its own.
    """
    assert not values.has_opaque(values.encode(value))


@given(json_values)
@example({"$decimal": [0, [1, 2], "F"]})
@example({"$fraction": [1, 0]})
@example({"$timedelta": [10**30, 0, 0]})
@example({"$timedelta": [math.nan]})
@example({"$complex": [10**400, 0]})
@example({"$int": "0x" + "f" * 5000})
@example({"$datetime": ["\ud800", 0]})
@example({"$range": [0, 1, 0]})
@example({"$set": [[]]})
@example({"$object": None})
@example({"$fraction": []})
@example({"$complex": [1]})
def test_any_json_decodes_or_is_a_value_error(data):
    """
    What a sandbox sends is anybody's: it decodes to a value that can be encoded again, or it is a ValueError.
    """
    try:
        value = values.decode(data)
    except ValueError:
        return

    assert json.dumps(values.encode(value))


@pytest.mark.parametrize(
    "data",
    [
        json.loads("[" * 900 + "]" * 900),
        json.loads('{"$tuple":[' * 450 + "]}" * 450),
        json.loads('{"a":' * 900 + "1" + "}" * 900),
    ],
    ids=["list", "tuple", "dict"],
)
def test_absurd_depth_is_a_value_error(data):
    """
    Data nested deeper than `encode` ever nests is refused, and does not exhaust the stack.
    """
    with pytest.raises(ValueError, match="deep"):
        values.decode(data)


@pytest.mark.parametrize(
    "data",
    [
        {"$no-such-kind": 1},
        {"$tuple": [], "b": 1},
        {"$float": "1.5"},
        {"$object": {"type": 1, "repr": 2}},
        {"$tuple": "abc"},
        {"$decimal": 1.5},
    ],
    ids=str,
)
def test_what_encode_does_not_write_is_refused(data):
    """
    An unknown kind, a kind beside other keys, and a kind that holds something else are all refused.
    """
    with pytest.raises(ValueError, match=r"\$"):
        values.decode(data)


class Number(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Colour(enum.IntEnum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [Number(1), Colour.RED, Point(1, 2), collections.OrderedDict(a=1), collections.Counter("a"), object(), len],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_opaque_and_equals_nothing(value):
    """
    An instance of a subclass or of a foreign class is known by name and repr, and equal to nothing, itself included.
    """
    found = crossed(value)

    assert type(found) is values.Opaque
    assert found.type.endswith(type(value).__qualname__)
    assert found != value
    assert found != found


def test_a_repr_that_raises_is_told():
    """
    A candidate's `__repr__` may do anything; what it did is said instead.
    """

    class Shy:
        def __repr__(self) -> str:
            raise SystemExit("no")

    assert repr(crossed(Shy())) == "<Shy whose repr raised SystemExit>"


def test_a_long_repr_is_cut():
    """
    A repr that is too long is cut, and says how much is missing.
    """

    class Loud:
        def __repr__(self) -> str:
            return "x" * 1_500

    assert repr(crossed(Loud())) == "x" * 1_000 + "… (500 characters cut)"


def test_a_value_that_holds_itself_is_cut_off():
    """
    A list inside itself ends in something opaque and not in a crash.
    """
    endless: list[Any] = []
    endless.append(endless)

    assert values.has_opaque(values.encode(endless))
