"""A suite that is judged from another process than the candidate's works as it does in one process."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness import Limits, Report, Submission, Suite, verify, warm

SEATS = Path(__file__).parents[2] / "fixtures" / "seats"
TESTS = [
    node.name
    for node in ast.parse((SEATS / "test_solution.py").read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
]


@pytest.fixture(scope="module", params=["separate", "in_process"])
def report(request: pytest.FixtureRequest) -> Report:
    """The same suite from either seat: what is asked of the stand-ins is what Python itself does."""
    limits = Limits(wall_seconds=60, test_seconds=20)
    submission, suite = Submission.from_path(SEATS / "solution.py"), Suite.from_path(SEATS / "test_solution.py")
    with warm("bubblewrap", size=1, limits=limits) as pool:
        return verify(submission, suite, runner=pool, limits=limits, seat=request.param)


@pytest.mark.parametrize("name", TESTS)
def test_it_works_in_both_seats(report, name):
    """
    What a suite does with a submission gives the same result from another process.
    """
    (test,) = [test for test in report.tests if test.nodeid == f"test_solution.py::{name}"]

    assert test.outcome == "passed", [failure.message for failure in report.failures if name in failure.nodeid]


def test_what_the_candidate_was_asked_about_itself_is_counted(report):
    """
    Only between two objects of its own does a candidate decide whether they are equal, and the report says how often.
    """
    assert (report.integrity.asked > 0) == (report.integrity.seat == "separate")


AGREEABLE = """
class Yes(int):
    def __eq__(self, other): seen.append(other); return True
    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: not seen.append(other)
    __hash__ = int.__hash__
seen = []
def answer(): return Yes(0)
def leak(): return [type(x).__name__ for x in seen]
"""


def test_a_comparison_with_a_plain_value_is_not_asked_of_the_candidate():
    """
    An object that equals everything equals nothing here, and has seen nothing of what was expected.
    """
    suite = Suite.from_code(
        "import solution\ndef test_it(): assert solution.answer() == 42\n"
        "def test_seen(): assert solution.leak() == []\n"
    )

    found = verify(Submission.from_code(AGREEABLE), suite, runner="bubblewrap", seat="separate")

    assert [test.outcome for test in found.tests] == ["failed", "passed"]
    assert found.integrity is not None and found.integrity.asked == 0


COMPUTES = """
class Number(float):
    __sub__ = __rsub__ = lambda self, other: 0.0
    __abs__ = lambda self: 1e308
class Difference:
    __sub__ = __rsub__ = lambda self, other: self
    __abs__ = lambda self: 0.0
class Nothing:
    __sub__ = __rsub__ = lambda self, other: 0.0
class half:
    __init__ = lambda self, number: None
    __sub__ = __rsub__ = lambda self, other: 0.0
class Text(str):
    __contains__ = startswith = lambda self, other: True
    __add__ = __radd__ = __rmod__ = lambda self, other: "all of it"
class Bag(list):
    __contains__ = lambda self, other: True
    __add__ = lambda self, other: [1, 2, 3]
class Few(set):
    __sub__ = __rsub__ = __xor__ = __rxor__ = lambda self, other: set()
class Shrinks(float):
    __isub__ = lambda self, other: 0.0
class Rest:
    __sub__ = __xor__ = __isub__ = lambda self, other: self
    __len__ = lambda self: 0
    __format__ = lambda self, how: "0.0"
class Counts(list):
    __len__ = lambda self: 3
    __iter__ = lambda self: iter(())
    index = count = lambda self, other: 1
class Sorted(list):
    __getitem__ = lambda self, index: [] if isinstance(index, slice) else 0
class Group(ExceptionGroup):
    split = lambda self, kind: (self, None)
class Pair(tuple):
    __len__ = lambda self: 3
    __iter__ = lambda self: iter(())
    __contains__ = lambda self, other: True
class Sized:
    __len__ = lambda self: 3
    __iter__ = lambda self: iter(())
class Indexed:
    __len__ = lambda self: 3
    def __getitem__(self, index): raise IndexError
    __reversed__ = lambda self: iter(())
class ItsOwnIterator(Sized):
    __iter__ = lambda self: self
    def __next__(self): raise StopIteration
class Named:
    name = property(lambda self: others.clear() or "a")
    def get_name(self): return self.name
class NamesOnce(Sized):
    __iter__ = lambda self: iter([Named()])
class Whole(int):
    __eq__ = lambda self, other: self is other
    __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __hash__ = int.__hash__
class Length:
    __abs__ = lambda self: self
    __sub__ = __rsub__ = lambda self, other: 0.0
class Keeps:
    __enter__ = lambda self: self
    __exit__ = lambda self, *given: True
    async def __aenter__(self): return self
    async def __aexit__(self, *given): return True
    def get(self, key): return 7
    def fail(self, key): raise LookupError
others = []
def names():
    others[:] = [Named(), Named(), Named()]
    return others
def all_names(): return NamesOnce()
def not_sorted(numbers): return [Whole(number) for number in numbers]
class Solution:
    half = lambda self, number: self
    twice = lambda self, number: Solution()
    parts = lambda self, number: (self,)
    third = property(lambda self: Solution())
    __sub__ = lambda self, other: 0.0
class Failure(ValueError):
    __str__ = lambda self: Text("")
    __sub__ = lambda self, other: 0.0
    __repr__ = __str__
Solution.FIRST = Solution()
number, difference, nothing, text, bag, few = Number, Difference, Nothing, Text, Bag, Few
shrinks, rest, counts, pair, sized, indexed, itself = Shrinks, Rest, Counts, Pair, Sized, Indexed, ItsOwnIterator
def unclear(): raise ValueError(Text(""))
def group(): raise Group("", [ValueError()])
def in_order(numbers): return Sorted(numbers)
def failure(): return Failure()
def fails(): raise Failure
def notify(double):
    double.assert_called_once_with = lambda *given: None
def forget(double):
    double("other")
    double.reset_mock()
    double("this")
def count(double):
    double.called = True
def replace(double):
    double.is_right = lambda: True
class Anything:
    __call__ = lambda self: self
    __contains__ = lambda self, other: True
    assert_called_once_with = lambda *given: None
def take_over(double):
    double.save = Anything()
def write(file):
    file.getvalue = Anything()
"""
"""Objects that know better once they have seen what a test expects."""

EXPECTS = """
import asyncio
import io
import unittest
import unittest.mock
import pytest
from solution import (
    Failure, number, difference, nothing, half, text, bag, few, failure, fails, notify, forget, count, replace,
    take_over, write, shrinks, rest, counts, pair, sized, indexed, unclear, Solution,
    in_order, group, itself, names, all_names, not_sorted, Length, Keeps
)

class Double:
    def is_right(self): return False

def test_approx(): assert number(0) == pytest.approx(3.5)
def test_approximated(): assert 3.5 == pytest.approx(number(1))
def test_approx_in_a_list(): assert [number(0)] == pytest.approx([3.5])
def test_almost(): unittest.TestCase().assertAlmostEqual(number(0), 3.5)
def test_almost_nothing(): unittest.TestCase().assertAlmostEqual(nothing(), 3.5)
def test_subtracted(): assert abs(number(0) - 3.5) < 1e-9
def test_subtracted_from(): assert abs(3.5 - number(0)) < 1e-9
def test_difference(): assert abs(difference() - 3.5) < 1e-9
def test_nothing(): assert abs(3.5 - nothing()) < 1e-9
def test_class_for_a_function(): assert abs(half(7) - 3.5) < 1e-9
def test_exception_for_a_number(): assert abs(failure() - 3.5) < 1e-9
def test_part_of_a_text(): assert "all" in text("")
def test_text_added(): assert "all " + text("of it") + "?" == "all of it"
def test_text_formatted(): assert "%s of it" % text("") == "all of it"
def test_text_of_an_exception():
    with pytest.raises(Failure) as caught: fails()
    assert "line 4" in str(caught.value)
def test_words(): assert repr(failure()).startswith("all")
def test_formatted_words(): assert f"{failure()}".startswith("all")
def test_member(): assert 3 in bag()
def test_list_added(): assert bag() + [3] == [1, 2, 3]
def test_set_difference(): assert not {1, 2} - few()
def test_symmetric_difference(): assert few() ^ {1, 2} == set()
def test_start_of_a_text():
    found = text("")
    assert isinstance(found, str) and found.startswith("all")
def test_start_of_a_text_in_an_exception():
    with pytest.raises(ValueError) as caught: unclear()
    assert caught.value.args[0].startswith("all")
def test_count():
    found = counts()
    assert isinstance(found, list) and found.count(3) == 1
def test_order():
    found = in_order([3, 1, 2])
    assert sorted(found) == [1, 2, 3] and all(one <= other for one, other in zip(found, found[1:]))
def test_order_by_index():
    found = in_order([3, 1, 2])
    assert sorted(found) == [1, 2, 3] and all(found[i] <= found[i + 1] for i in range(len(found) - 1))
def test_group():
    try: group()
    except* KeyError: pass
def test_member_of_a_tuple():
    found = pair()
    assert isinstance(found, tuple) and 3 in found
@pytest.mark.parametrize("make", [counts, pair, sized, indexed, itself])
def test_one_by_one(make):
    found, expected = make(), [1, 2, 3]
    assert len(found) == len(expected)
    for one, other in zip(found, expected): assert one == other
def test_one_by_one_from_behind():
    found, expected = indexed(), [1, 2, 3]
    assert len(found) == len(expected)
    for one, other in zip(reversed(found), reversed(expected)): assert one == other
def test_one_by_one_and_counted():
    found, expected = sized(), [1, 2, 3]
    assert all(one == other for one, other in zip(found, expected)) and len(found) == len(expected)
def test_approximated_one_by_one(): assert itself() == pytest.approx([1, 2, 3])
@pytest.mark.parametrize("make", [names, all_names])
@pytest.mark.parametrize("ask", [lambda one: one.name, lambda one: one.get_name()])
def test_fewer_meanwhile(make, ask):
    found, expected = make(), ["a", "b", "c"]
    assert len(found) == len(expected)
    for one, other in zip(found, expected): assert ask(one) == other
def test_as_many(): assert set(not_sorted([1, 1, 1])) == {1, 2, 3}
def test_all_different(): assert len(set(not_sorted([1, 1, 1]))) == 3
def test_sorted():
    found = not_sorted([3, 1, 2])
    assert set(found) == {1, 2, 3} and all(one <= other for one, other in zip(found, found[1:]))
def test_length(): assert abs(abs(Length()) - 5) < 1e-9
def test_kept_from_the_test():
    with Keeps() as found: assert found.get("a") == 1
def test_stopped_before_the_test():
    with Keeps() as found: assert found.fail("a") == 1
def test_kept_from_the_test_later():
    async def test():
        async with Keeps() as found: assert found.get("a") == 1
    asyncio.run(test())
def test_kept_that_nothing_was_raised():
    with Keeps() as found:
        with pytest.raises(ValueError): found.get("a")
@pytest.mark.parametrize("make", [shrinks, rest])
def test_subtracted_in_place(make):
    found = make()
    found -= 3.5
    assert found == 0 or not found
def test_no_difference(): assert not rest() ^ {1, 2}
def test_difference_in_words(): assert f"{rest() - 3.5:.1f}" == "0.0"
def test_solution(): assert abs(Solution().half(7) - 3.5) < 1e-9
def test_another_solution(): assert abs(Solution().twice(7) - 14.5) < 1e-9
def test_what_a_solution_has(): assert abs(Solution.FIRST.third - 3.5) < 1e-9
def test_part_of_a_solution():
    (found,) = Solution().parts(7)
    assert abs(found - 3.5) < 1e-9
def test_double():
    double = unittest.mock.Mock()
    notify(double)
    double.assert_called_once_with("this")
def test_forgetful_double():
    double = unittest.mock.Mock()
    forget(double)
    double.assert_called_once_with("this")
def test_counting_double():
    double = unittest.mock.Mock()
    count(double)
    assert double.called
def test_double_of_its_own():
    double = Double()
    replace(double)
    assert double.is_right()
def test_double_of_a_double():
    double = unittest.mock.Mock()
    take_over(double)
    double.save.assert_called_once_with("this")
def test_file():
    file = io.StringIO()
    write(file)
    assert "this" in file.getvalue()
"""


def test_nothing_is_computed_from_what_is_expected():
    """
    Objects of classes that the suite does not know are what they hold, and test doubles remember what was done to them.
    """
    found = verify(Submission.from_code(COMPUTES), Suite.from_code(EXPECTS), runner="bubblewrap", seat="separate")

    assert [test.nodeid for test in found.tests if test.outcome == "passed"] == []
    assert len({test.nodeid.partition("[")[0] for test in found.tests}) == EXPECTS.count("def test_")


def test_a_star_import_does_not_make_a_class_known():
    """
    The suite knows the classes that it speaks of, and not all that a submission has.
    """
    submission = Submission.from_code("class Half:\n    __sub__ = lambda *_: 0.0\ndef half(x): return Half()")
    suite = Suite.from_code("from solution import *\ndef test_it(): assert abs(half(7) - 3.5) < 1e-9")

    assert verify(submission, suite, runner="bubblewrap", seat="separate").verdict == "failed"


WORKS = """
import collections
import enum
Word = collections.namedtuple("Word", "text count index")
class Kind(str, enum.Enum):
    title = "t"
    count = "c"
class Stack(list):
    def push(self, x): self.append(x); return self
class Name(str):
    def title(self): return "a title of its own"
class Vector:
    def __init__(self, *parts): self.parts = list(parts)
    def __add__(self, other): return Vector(*[a + b for a, b in zip(self.parts, other)])
    def __mul__(self, number): return Vector(*[part * number for part in self.parts])
    def __matmul__(self, other): return sum(a * b for a, b in zip(self.parts, other))
    def __iadd__(self, other): self.parts = [a + b for a, b in zip(self.parts, other)]; return self
    def __abs__(self): return sum(self.parts)
    def __len__(self): return len(self.parts)
    def __iter__(self): return iter(self.parts)
    def __bool__(self): return any(self.parts)
    def push(self, part): self.parts.append(part)
    @classmethod
    def of(cls, parts): return cls(*parts)
class Refused(Exception): pass
class Ignore:
    def __init__(self, *kinds): self.kinds, self.seen = kinds or (Exception,), []
    def __enter__(self): return self
    def __exit__(self, kind, exc, traceback):
        self.seen.append(kind)
        return kind is not None and issubclass(kind, self.kinds)
    def refuse(self): raise Refused("no")
class Cents(int):
    def __eq__(self, other): return isinstance(other, Cents) and int(self) // 10 == int(other) // 10
    __hash__ = int.__hash__
class Urgency(str, enum.Enum):
    low = "low"
    high = "high"
    def __lt__(self, other): return (self.value, other.value) == ("low", "high")
class Task:
    def __init__(self, urgency): self.urgency = Urgency(urgency)
class Ticks:
    def __init__(self, n): self.left = n
    def __len__(self): return self.left
    def __iter__(self): return self
    def __next__(self):
        if not self.left: raise StopIteration
        self.left -= 1
        return self.left
def ticks(n): return Ticks(n)
ZERO = Vector(0, 0)
def word(): return Word("a", 3, 5)
def stack(): return Stack([1, 2])
def vector(*parts): return Vector(*parts)
"""

USES = """
import solution
import pytest
from solution import Cents, Ignore, Kind, Name, Refused, Task, Urgency, Vector, ZERO, stack, ticks, vector, word

def test_fields(): assert (word().count, word().index, word()) == (3, 5, ("a", 3, 5))
def test_members(): assert Kind.count == "c" and Kind.title.value == "t" and Kind("c") is Kind.count
def test_method(): assert Name("x").title() == "a title of its own"
def test_list():
    made = stack()
    made.push(3).push(1)
    made += [4]
    assert made == [1, 2, 3, 1, 4] and made.count(1) == 2 and list(reversed(made))[0] == 4 and len(made) == 5
def test_computes():
    made = Vector(3, 4)
    assert made @ [1, 2] == 11 and (made * 2) @ [1, 0] == 6 and Vector.of([1, 2]) @ [1, 1] == 3 and ZERO @ [1, 1] == 0
    assert (made + made) @ [1, 0] == 6 and abs(made * 2) == 14 and not ZERO and made
    made += [1, 1]
    assert made @ [1, 0] == 4
def test_counts():
    made = vector(1, 2)
    assert len(made) == 2 and list(made) == [1, 2]
    made.push(3)
    assert len(made) == 3 and list(made * 2) == [2, 4, 6] and len(made * 2) == 3
def test_equal_as_it_says(): assert Cents(12) == Cents(15) and Cents(12) != Cents(25)
def test_in_order_as_it_says():
    low, high = Task("low"), Task("high")
    assert low.urgency < high.urgency and not high.urgency < low.urgency and low.urgency is Urgency.low
def test_counts_down():
    made = ticks(3)
    assert len(made) == 3 and next(made) == 2 and len(made) == 2 and list(made) == [1, 0] and len(made) == 0
def refuse(): raise ValueError("no")
def test_ignores():
    with Ignore() as ignored: 1 / 0
    with Ignore(LookupError): {}["a"]
    with Ignore() as ignored:
        assert ignored.seen == []
        refuse()
    assert len(ignored.seen) == 1
    with Ignore(Refused) as ignored: ignored.refuse()
    with pytest.raises(ValueError):
        with Ignore(LookupError): refuse()
"""


def test_what_the_suite_knows_works_as_it_is():
    """
    Members with the name of a method of str, fields with that of one of tuple, and objects that compute and count.
    """
    found = verify(Submission.from_code(WORKS), Suite.from_code(USES), runner="bubblewrap", seat="separate")

    assert found.verdict == "passed", [failure.message for failure in found.failures]


def test_a_result_that_is_none_does_not_end_what_the_test_iterates_over():
    """
    StopIteration from the candidate ends `map` and whatever reads from it; a test that expects it may catch it.
    """
    suite = Suite.from_code(
        "import pytest\nfrom solution import square, Count\n"
        "def test_zip(): assert all(a == b for a, b in zip(map(square, [1, 2]), [1, 4]))\n"
        "def test_all(): assert all(map(square, [1, 2]))\n"
        "def test_loop():\n    for found in map(square, [2]): assert found == 4\n"
        "def test_raises():\n    with pytest.raises(StopIteration): square(2)\n"
        "def test_iterator():\n    count = Count()\n    assert list(count) == [1]\n"
        "    with pytest.raises(StopIteration): next(count)\n    with pytest.raises(StopIteration): count.__next__()\n"
    )
    submission = Submission.from_code(
        "def square(x): raise StopIteration\nclass Count:\n    left = 1\n    __iter__ = lambda self: self\n"
        "    def __next__(self):\n        if not self.left: raise StopIteration\n        self.left = 0\n"
        "        return 1\n"
    )

    found = verify(submission, suite, runner="bubblewrap", seat="separate")

    assert [test.outcome for test in found.tests] == ["failed", "failed", "failed", "passed", "passed"]


def test_an_exception_class_that_catches_what_fails_a_test_is_suspect():
    """
    Whoever asks for it by name may mean to catch what the submission raises, and catch what its own assert does.
    """
    suite = Suite.from_code(
        "import solution\ndef test_it():\n    try:\n        solution.parse('')\n        assert False, 'not raised'\n"
        "    except solution.ParseError: pass\n"
    )
    told = [
        verify(Submission.from_code(code), suite, runner="bubblewrap", seat="separate").integrity.suspicions
        for code in (
            "ParseError = AssertionError\ndef parse(text): return text",
            "class ParseError(Exception): pass\ndef parse(text): raise ParseError",
        )
    ]

    assert told == [
        ("the submission's `ParseError` is AssertionError: an `except` of it catches what fails a test",),
        (),
    ]


def test_an_exception_has_the_attributes_that_its_own_class_gave_it():
    """
    What Python's own exceptions keep outside of their arguments comes along, for classes of the candidate's, too.
    """
    suite = Suite.from_code(
        "import pytest\nfrom solution import ParseError, fail\n"
        "def test_syntax():\n    with pytest.raises(ParseError) as caught: fail(ParseError('bad', 7))\n"
        "    assert (caught.value.msg, caught.value.lineno) == ('bad', 7)\n"
        "def test_exit():\n    with pytest.raises(SystemExit) as caught: fail('leave')\n"
        "    assert caught.value.code == 4\n"
    )
    submission = Submission.from_code(
        "class ParseError(SyntaxError):\n    def __init__(self, text, line):\n        super().__init__(text)\n"
        "        self.lineno = line\nclass Leave(SystemExit): pass\n"
        "def fail(how): raise Leave(4) if how == 'leave' else how\n"
    )

    assert verify(submission, suite, runner="bubblewrap", seat="separate").verdict == "passed"


def test_a_test_that_catches_everything_still_loses_with_its_candidate():
    """
    A candidate that ends its process has not passed, even where any exception is taken for a success.
    """
    suite = Suite.from_code(
        "import pytest, solution\ndef test_it():\n    with pytest.raises(BaseException): solution.leave()\n"
    )

    found = verify(
        Submission.from_code("import os\ndef leave(): os._exit(0)"), suite, runner="bubblewrap", seat="separate"
    )

    assert found.verdict == "crashed"
    assert found.reason == "exited with status 0 while running test_solution.py::test_it"


def test_the_next_test_gets_another_candidate():
    """
    What one test does to the candidate's process does not take the other tests with it, and the report says so.
    """
    submission = Submission.from_code("import os\ndef leave(): os._exit(3)\ndef one(): return 1")
    suite = Suite.from_code(
        "from solution import leave, one\ndef test_leave(): leave()\ndef test_one(): assert one() == 1\n"
    )

    found = verify(submission, suite, runner="bubblewrap", seat="separate")

    assert [test.outcome for test in found.tests] == ["failed", "passed"]
    assert found.failures[0].message == "the candidate's process exited with status 3"
    assert any("started anew" in note for note in found.notes)


def test_a_failure_shows_where_in_the_candidates_own_code():
    """
    The frames and locals of the other process are in the report as if it were the same.
    """
    submission = Submission.from_code("def half(x):\n    rest = x % 2\n    return x / rest")
    suite = Suite.from_code("from solution import half\ndef test_half(): assert half(4) == 2")

    (failure,) = verify(submission, suite, runner="bubblewrap", seat="separate").failures

    assert failure.place == "solution.py:3"
    assert failure.frames[-1].locals == {"x": "4", "rest": "0"}
    assert failure.exception is not None and failure.exception.type == "ZeroDivisionError"


def test_a_syntax_error_is_the_submissions():
    """
    A candidate cannot pass its own mistake for the suite's.
    """
    found = verify(
        Submission.from_code("def f(:"), Suite.from_code("import solution\ndef test(): pass"), runner="bubblewrap"
    )

    assert found.verdict == "broken"
    assert found.failures[0].place == "solution.py:1"


@pytest.mark.parametrize("seat", ["separate", "in_process"])
@pytest.mark.parametrize(
    "error", ["class Error(SyntaxError): __traceback__ = None", "class SyntaxError(Exception): __traceback__ = None"]
)
def test_an_error_of_that_name_does_not_make_the_suite_invalid(error, seat):
    """
    Nor does one that does not tell where it was raised: only a suite that does not compile is invalid.
    """
    submission = Submission.from_code(f"{error}\nraise {error.split()[1].partition('(')[0]}('no')")
    suite = Suite.from_code("import solution\ndef test_it(): pass")

    assert verify(submission, suite, runner="bubblewrap", seat=seat).verdict == "broken"


STARRED = """
import math
from math import isclose
from solution import *

def test_half():
    assert math.isclose(half(3), 1.5) and isclose(half(3), 1.5)

def test_kind():
    assert isinstance(half(3), float)
"""
HALF = "def half(x): return x / 2\n"


@pytest.mark.parametrize(
    "brings",
    [
        "class math:\n    isclose = staticmethod(lambda a, b: True)",
        "import math\nmath.isclose = lambda a, b: True\nisclose = math.isclose",
        "def isclose(a, b): return True",
        "__all__ = ['half', '__builtins__']\n__builtins__ = {'isinstance': lambda a, b: True}",
        "__all__ = ['half', '@py_builtins', '@pytest_ar', '__name__', '__spec__']\nvars()['@pytest_ar'] = 1",
    ],
    ids=["math", "a changed math", "isclose", "builtins", "what asserts use"],
)
@pytest.mark.parametrize(("half", "verdict"), [(HALF, "passed"), ("def half(x): return 7\n", "failed")], ids=str)
def test_a_star_import_does_not_change_what_the_suite_means(brings, half, verdict):
    """
    What the suite has imported by then is its own; only what it has no other meaning for is the submission's.
    """
    submission = Submission.from_code(f"{half}{brings}\n")

    assert verify(submission, Suite.from_code(STARRED), runner="bubblewrap", seat="separate").verdict == verdict


@pytest.mark.parametrize(
    "exports",
    [
        "class Names:\n    def __getitem__(self, i): return ['half', 'math'][i]\n__all__ = Names()",
        "class Name(str): pass\n__all__ = ['half', Name('math')]",
        "class Name(str):\n    startswith = lambda *_: False\ndef __dir__(): return ['half', Name('math')]",
    ],
    ids=["a list of its own", "names of its own", "a dir of its own"],
)
def test_what_a_star_import_brings_is_a_list_of_names(exports):
    """
    Python takes whatever can be counted through for `__all__`, and what it names cannot be looked at twice.
    """
    submission = Submission.from_code(f"{exports}\nclass math: isclose = lambda a, b: True\ndef half(x): return 7.0")

    assert verify(submission, Suite.from_code(STARRED), runner="bubblewrap", seat="separate").verdict == "broken"


def test_pytest_is_not_the_submissions():
    """
    A module of that name does not take its place, even where nobody has imported pytest when the suite does.
    """
    module = "import pytest\nclass Yes:\n    __eq__ = lambda *_: True\npytest.approx = lambda x: Yes()\n"
    submission = Submission.from_files({"solution.py": module + "def half(x): return Yes()", "pytest.py": ""})
    suite = "import pytest\nfrom solution import half\ndef test_it(): assert half(7) == pytest.approx(3.5)"

    assert verify(submission, Suite.from_code(suite), runner="bubblewrap", seat="separate").verdict == "failed"


@pytest.mark.parametrize("seat", ["separate", "in_process"])
def test_a_star_import_that_hides_a_built_in_name_is_told(seat):
    """
    It may be the very function that is tested, so it is only a suspicion.
    """
    suite = Suite.from_code("from solution import *\ndef test_it(): assert sum(1, 2) == 3")
    submission = Submission.from_code("def sum(a, b): return a + b\ndef max(a): return a")

    report = verify(submission, suite, runner="bubblewrap", seat=seat)

    assert report.verdict == "passed"
    assert [text for text in report.integrity.suspicions if "`sum`" in text]
    assert not [text for text in report.integrity.suspicions if "`max`" in text]


def test_what_a_module_exports_can_be_asked():
    """
    `__all__` is what the submission says, and what it has without it.
    """
    suite = "import solution\ndef test_it(): assert solution.__all__ == ['half', '__version__', 'sum']"
    submission = "__all__ = ['half', '__version__', 'sum']\n__version__ = '1'\ndef half(x): return x\ndef sum(): pass"

    report = verify(Submission.from_code(submission), Suite.from_code(suite), runner="bubblewrap", seat="separate")

    assert report.verdict == "passed", report
