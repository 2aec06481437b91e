"""Values between the judge and the candidate: any plain one crosses unchanged, and nothing else gets in."""

from __future__ import annotations

import collections
import datetime
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.guest.crossing import Garbled, Reader, Side, Writer, to_json, unpack


class Alone(Side):
    """A side that lends and borrows nothing."""

    def lend(self, value):
        raise TypeError(f"{type(value).__name__} is not plain")

    def borrow(self, cell, read):
        raise Garbled(f"an unknown reference: {cell[0]!r}")


def message(side, value):
    def written(write):
        return f"[{to_json(write.cell(value))},{write.rows()}]".encode()

    quick = Writer(side)
    try:
        return written(quick)
    except ValueError:
        quick.undo()
        return written(Writer(side, careful=True))


def sent(value):
    """The value, after it has crossed."""
    cell, rows = unpack(message(Alone(1), value))
    read = Reader(Alone(2))
    read.rows(rows)
    return read.cell(cell)


def alike(left, right):
    """Equal in type and value all the way down; nan is nan, 0.0 is not -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, complex):
        return alike(left.real, right.real) and alike(left.imag, right.imag)
    if isinstance(left, Decimal):
        return str(left) == str(right)
    if isinstance(left, (list, tuple, collections.deque)):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, dict):
        return len(left) == len(right) and all(map(alike, left.items(), right.items()))
    if isinstance(left, (datetime.datetime, datetime.time)):
        return left == right and left.fold == right.fold and left.tzinfo == right.tzinfo
    return left == right


text = st.text(st.characters(exclude_categories=()))  # lone surrogates, too
zones = st.none() | st.timedeltas(datetime.timedelta(hours=-23), datetime.timedelta(hours=23)).map(datetime.timezone)
hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 9).map(lambda digit: 10**4300 + digit)
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | text
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.times(timezones=zones)
    | st.datetimes(timezones=zones)
    | st.timedeltas()
    | st.uuids()
    | st.builds(range, st.integers(), st.integers(), st.integers(1)),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
values = st.recursive(
    hashable | st.floats() | st.complex_numbers() | st.decimals() | st.binary().map(bytearray),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.sets(hashable, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3)
        | st.dictionaries(text, inner, max_size=3).map(collections.OrderedDict)
        | st.builds(collections.deque, st.lists(inner), st.none() | st.integers(0, 5))
        | st.lists(text).map(collections.Counter)
    ),
    max_leaves=12,
)


@given(values)
def test_a_plain_value_crosses_unchanged(value):
    """
    Any value of the plain kinds arrives as a copy of the same types.
    """
    assert alike(sent(value), value)


def test_a_halved_surrogate_pair_stays_in_two_halves():
    """
    Two lone surrogates are two characters, although JSON would write one.
    """
    assert sent(["\ud83d", "\ude00", "\ud83d\ude00"]) == ["\ud83d", "\ude00", "\ud83d\ude00"]


def test_what_is_the_same_stays_the_same():
    """
    A list that stands in two places is one list on the other side, too.
    """
    inner = [1]

    left, right = sent([inner, inner])

    assert left is right


def test_a_list_in_itself_crosses():
    """
    Cycles cross, through tuples and dictionaries as well.
    """
    ring: list[object] = []
    ring.append(({"ring": ring},))

    crossed = sent(ring)

    assert crossed[0][0]["ring"] is crossed


def test_a_deep_list_crosses():
    """
    Nesting is no problem at any depth.
    """
    deep: list[object] = []
    for _ in range(50_000):
        deep = [deep]

    crossed = sent(deep)

    depth = 0
    while crossed:
        crossed = crossed[0]
        depth += 1
    assert depth == 50_000


class Odd(int):
    """Not an int, whatever it says."""


@pytest.mark.parametrize("value", [Odd(3), [Odd(3)], {"x": Odd(3)}, (Odd(3),)])
def test_a_subclass_is_not_plain(value):
    """
    Only exact types are copied.
    """
    with pytest.raises(TypeError, match="Odd is not plain"):
        sent(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
TAGS = st.sampled_from(["l", "d", "s", "B", "q", "o", "c", "D", "t", "f", "i", "u", "b", "z", "decimal", "fraction"])
MORE_TAGS = st.sampled_from(["range", "datetime", "date", "time", "delta", "tz", "uuid", "...", "path", "slice", "h"])
cells = st.recursive(
    JSON | TAGS, lambda inner: st.lists(inner) | st.tuples(TAGS | MORE_TAGS, inner).map(list), max_leaves=8
)


@given(cells, st.lists(st.tuples(st.integers(0, 5), TAGS, cells).map(list)) | cells)
def test_whatever_is_sent_is_a_value_or_garbled(cell, rows):
    """
    A message that our writer would not write is refused, and nothing but refused.
    """
    read = Reader(Alone(2))

    try:
        read.rows(rows)
        read.cell(cell)
    except Garbled:
        pass


@given(st.binary())
def test_any_bytes_are_a_message_or_garbled(data):
    """
    What is not a list in JSON is no message.
    """
    try:
        assert type(unpack(data)) is list
    except Garbled:
        pass
