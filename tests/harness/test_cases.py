"""Declarative cases: what goes in, and the comparison of what comes out."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Case, Submission, Suite, verify
from harness.cases import call_of, case_ids, judge, same
from runners.guest import values

UTC = datetime.UTC

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.decimals()
    | st.just(Decimal("sNaN"))
    | st.fractions()
    | st.datetimes()
    | st.timedeltas()
    | st.builds(range, st.integers(), st.integers())
)
hashables = scalars.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan())) | st.tuples(
    st.integers()
)
plain = st.recursive(
    scalars | st.sets(hashables, max_size=4) | st.frozensets(hashables, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashables, inner, max_size=4)
    ),
    max_leaves=12,
)


def crossed(value):
    """The same value, but for every object in it a new one."""
    return values.decode(json.loads(json.dumps(values.encode(value))))


@given(plain, st.none() | st.floats(1e-9, 1))
def test_a_value_is_the_same_as_itself(value, approx):
    """
    Every plain value is the same as a copy of itself, exactly and approximately, nan included.
    """
    assert same(crossed(value), value, approx)


@given(plain, plain)
def test_sameness_has_no_direction(left, right):
    """
    If one value is the same as another, then the other is the same as the one.
    """
    assert same(left, right) == same(right, left)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1),
        (0, False),
        (1, 1.0),
        (1.0, Decimal(1)),
        (1, Fraction(1)),
        (1.0, 1 + 0j),
        (0.0, -0.0),
        (complex(0, 0.0), complex(0, -0.0)),
        ([1], (1,)),
        ({1}, frozenset({1})),
        ({1}, {True}),
        ({1: "a"}, {1.0: "a"}),
        (b"a", bytearray(b"a")),
        ("a", b"a"),
        ("1", 1),
        (None, False),
        (math.nan, None),
        (math.nan, Decimal("nan")),
        (Decimal("1.0"), Decimal("1.00")),
        (Decimal("0"), Decimal("-0")),
        (datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1)),
        (datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        ([1, [2, 3]], [1, [2, 3.0]]),
        ([1, 2], [1, 2, 3]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ("é", "e\u0301"),
    ],
)
def test_types_matter(value, expected):
    """
    Values that Python calls equal, or nearly, are not the same when their kinds or their writing differ.
    """
    assert not same(value, expected)
    assert not same(expected, value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1, 2, 3}, {3, 2, 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({math.nan, 1}, {1, math.nan}),
        ({math.nan: 1}, {float("nan"): 1}),
        ({(1, 2.0): {3}}, {(1, 2.0): {3}}),
        ([math.inf, -math.inf], [math.inf, -math.inf]),
        (complex(math.nan, 1), complex(math.nan, 1)),
        (Decimal("NaN"), Decimal("NaN")),
    ],
)
def test_order_and_identity_do_not_matter(value, expected):
    """
    Sets and dicts are the same in whatever order, and nan is the same as nan.
    """
    assert same(value, expected)


@pytest.mark.parametrize(
    ("value", "expected", "approx"),
    [
        (0.1 + 0.2, 0.3, 1e-9),
        (1, 1.0, 1e-9),
        (3, 3.2, 0.1),
        (1e-12, 0.0, 1e-9),
        (Decimal("0.30"), 0.3, 1e-9),
        (Fraction(1, 3), 1 / 3, 1e-9),
        (1 + 1e-12j, 1, 1e-9),
        ([0.1 + 0.2, {"a": (1.0000001,)}], [0.3, {"a": (1.0,)}], 1e-6),
        (math.inf, math.inf, 1e-9),
        (math.nan, math.nan, 1e-9),
        pytest.param(10**400, 10**400, 1e-9, id="huge"),
        ({1.0, 1.05}, {1.04, 0.96}, 0.05),
        ({1.0: "a", 1.05: "a"}, {1.04: "a", 0.96: "a"}, 0.05),
    ],
)
def test_numbers_within_the_tolerance_are_the_same(value, expected, approx):
    """
    With `approx`, numbers of any kind are the same within it, wherever they stand.
    """
    assert same(value, expected, approx)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.1, 1.0),
        (True, 1),
        (1, True),
        ("1", 1),
        ([1.0], (1.0,)),
        (math.inf, -math.inf),
        (math.inf, 1e308),
        (math.nan, 1.0),
        pytest.param(10**400, 1.0, id="huge-float"),
        pytest.param(10**400, 1j, id="huge-complex"),
        pytest.param(1j, 10**400, id="complex-huge"),
        pytest.param(10**400, 2 * 10**400, id="huge-huge"),
        (Decimal("sNaN"), 1.0),
        (Decimal("1E+400"), 1.0),
        ({1.0, 2.0}, {1.0, 3.0}),
    ],
)
def test_beyond_the_tolerance_nothing_is_the_same(value, expected):
    """
    `approx` forgives a small difference between numbers and nothing else, and trips over no number.
    """
    assert not same(value, expected, 1e-3)


def test_large_sets_are_compared_in_reasonable_time():
    """
    A result as large as the expectation, in the worst order, costs no more than the looking takes.
    """
    count, asked = 3_000, 0

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal asked
            asked += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    value = {Counted(number): number for number in range(count)}
    expected = {Counted(number): number for number in reversed(range(count))}

    same(value, expected)

    assert asked < 20 * count


def test_what_is_opaque_equals_nothing():
    """
    An object that has no encoding is not the same as anything, not even as itself.
    """
    opaque = values.Opaque("solution.Evil", "3")

    assert not same(opaque, 3)
    assert not same(opaque, opaque)


# --- what goes in -------------------------------------------------------------


def test_no_expectation_goes_into_the_sandbox():
    """
    Nothing of what is expected is in what the guest gets.
    """
    secrets = {"expected": "SECRET-VALUE", "stdout": "SECRET-OUTPUT", "approx": 0.123}
    case = Case(call="solution.f", args=[1], kwargs={"a": (2,)}, stdin="in", **secrets)
    raising = Case(call="solution.f", raises="SecretError", match="SECRET-MATCH")

    sent = json.dumps([call_of(case, "case[0]"), call_of(raising, "case[1]")])

    assert "secret" not in sent.lower()
    assert "0.123" not in sent


def test_every_case_has_a_name_of_its_own():
    """
    Two cases of the same call are told apart, and a case's own name is used.
    """
    same_call = Case(call="solution.f", expected=1)
    named = Case(call="solution.f", expected=1, name="the empty list")

    assert case_ids((same_call, same_call, named)) == [
        "case[0] solution.f",
        "case[1] solution.f",
        "case[2] the empty list",
    ]


# --- judging ------------------------------------------------------------------


def outcome(case: Case, **event):
    test, failure = judge(case, {"e": "case", "id": "case[0] solution.f", "seconds": 0.5, **event})
    return test.outcome, failure.message if failure else ""


@pytest.mark.parametrize(
    ("case", "event", "expected"),
    [
        (Case(call="solution.f", expected=3), {"value": 3}, ("passed", "")),
        (
            Case(call="solution.f", args=[1], expected=3),
            {"value": 4},
            ("failed", "solution.f(1): returned 4, expected 3"),
        ),
        (
            Case(call="solution.f", expected=3),
            {"value": 3.0},
            ("failed", "solution.f(): returned 3.0, expected 3 (float, not int)"),
        ),
        (
            Case(call="solution.f", expected=3),
            {"value": {"$object": {"type": "solution.Evil", "repr": "3"}}},
            ("failed", "solution.f(): returned 3, expected 3 (solution.Evil, not int)"),
        ),
        (
            Case(call="solution.f", expected=3),
            {},
            ("failed", "solution.f(): the result cannot be read: 'value'"),
        ),
        (
            Case(call="solution.f", expected=3),
            {"value": {"$evil": 1}},
            ("failed", "solution.f(): the result cannot be read: unknown value kind $evil"),
        ),
        (
            Case(call="solution.f", expected=3),
            {"failure": {"type": "KeyError", "message": "'a'"}},
            ("failed", "solution.f(): KeyError: 'a'"),
        ),
        (
            Case(call="solution.f", raises="ValueError"),
            {"failure": {"type": "Mine", "bases": ["ValueError"], "message": ""}},
            ("passed", ""),
        ),
        (
            Case(call="solution.f", raises="ValueError", match="^bad"),
            {"failure": {"type": "ValueError", "message": "not bad"}},
            ("failed", "solution.f(): the message of ValueError should match '^bad', and is 'not bad'"),
        ),
        (
            Case(call="solution.f", raises="ValueError"),
            {"failure": {"type": "KeyError", "message": "k"}},
            ("failed", "solution.f(): should raise ValueError, and raised KeyError: k"),
        ),
        (
            Case(call="solution.f", raises="ValueError"),
            {"value": [1]},
            ("failed", "solution.f(): should raise ValueError, and returned [1]"),
        ),
        (Case(stdin="1", stdout="2\n"), {"exit_code": 0, "stdout": "2  \n\n"}, ("passed", "")),
        (
            Case(stdin="1", stdout="2\n"),
            {"exit_code": 0, "stdout": "3\n"},
            ("failed", "solution.py with stdin '1': printed something else"),
        ),
        (
            Case(stdin="1", stdout="2\n"),
            {"exit_code": 3, "stdout": "2\n"},
            ("failed", "solution.py with stdin '1': the program exited with status 3"),
        ),
        (
            Case(stdin="1", stdout="2\n"),
            {"exit_code": -11, "stdout": "2\n"},
            ("failed", "solution.py with stdin '1': the program was killed by signal 11"),
        ),
        (Case(call="solution.f", expected=3), {"timeout": "too long", "value": 3}, ("timeout", "too long")),
    ],
)
def test_what_came_back_decides(case, event, expected):
    """
    A case passes when what came back is what it expects, and says in one line why when not.
    """
    found = outcome(case, **event)

    assert found[0] == expected[0]
    assert found[1].startswith(expected[1])


@pytest.mark.parametrize(
    ("case", "value"),
    [
        (Case(call="solution.f", expected=10**5000), 2),
        (Case(call="solution.f", expected=2), 10**5000),
        (Case(call="solution.f", args=[10**5000], expected=2), 3),
        (Case(call="solution.f", expected=[Fraction(10**5000, 3)]), 3),
    ],
    ids=["expected", "returned", "argument", "inside"],
)
def test_a_number_too_long_to_print_is_a_wrong_answer(case, value):
    """
    A wrong number of 5000 digits is a failed case like any other, although Python will not print it.
    """
    assert outcome(case, value=values.encode(value))[0] == "failed"


@pytest.mark.parametrize(
    "case", [Case(call="solution.f", expected=1), Case(call="solution.f", raises="ValueError")], ids=["value", "raises"]
)
def test_a_result_nested_to_absurdity_is_a_wrong_answer(case):
    """
    A forged result that is nested past all reason fails its case and harms nothing.
    """
    assert outcome(case, value=json.loads("[" * 800 + "]" * 800))[0] == "failed"


def test_a_long_value_is_cut_and_says_so():
    """
    A result of a megabyte is shown in part, with how much is missing.
    """
    _, message = outcome(Case(call="solution.f", expected="b"), value="a" * 1_000_000)

    assert len(message) < 10_000
    assert "characters cut" in message


def test_a_lone_surrogate_is_an_answer_like_any_other():
    """
    A string that is not UTF-8 comes out of a real sandbox as it is, and is the same as the one expected.
    """
    submission = Submission.from_code("def f(text): return text + '\\ud800'")
    suite = Suite.from_cases([Case(call="solution.f", args=["\udfff"], expected="\udfff\ud800")])

    report = verify(submission, suite, runner="bubblewrap")

    assert report.verdict == "passed", report.reason
