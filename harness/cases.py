"""Declarative cases: what goes into the sandbox, and the judging of what comes out.

The comparison happens here, outside, on values that were rebuilt from data. The
candidate's objects, with whatever `__eq__` they have, never get this far.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import repeat
from typing import Any

from runners.guest import values

from .failures import describe_failure, number
from .models import Assertion, Case, Failure, TestResult

__all__ = ["call_of", "case_ids", "judge", "same"]

SHOWN = 4_000


def case_ids(cases: tuple[Case, ...]) -> list[str]:
    """A name for each, unique and telling: `case[0] solution.add`."""
    return [f"case[{index}] {case.name or case.call or case.program}" for index, case in enumerate(cases)]


def call_of(case: Case, nodeid: str) -> dict[str, Any]:
    """What the guest needs to make the call, and nothing of what is expected of it."""
    call: dict[str, Any] = {
        "id": nodeid,
        "args": [values.encode(item) for item in case.args],
        "kwargs": {name: values.encode(item) for name, item in case.kwargs.items()},
        "stdin": case.stdin,
    }
    if case.call is None:
        return {**call, "program": case.program}
    call["call"] = case.call
    if case.init is not None:
        call["init"] = [values.encode(item) for item in case.init]
        call["init_kwargs"] = {name: values.encode(item) for name, item in case.init_kwargs.items()}
    return call


def judge(case: Case, event: dict[str, Any]) -> tuple[TestResult, Failure | None]:
    """What one case came to. `event` is the guest's word and may hold anything."""
    nodeid, seconds = str(event.get("id")), number(event.get("seconds"))
    if "timeout" in event:
        message = str(event["timeout"])
        failed = Failure(nodeid=nodeid, phase="call", kind="timeout", message=message, seconds=seconds)
        return TestResult(nodeid=nodeid, outcome="timeout", seconds=seconds), failed
    raised = event.get("failure") if isinstance(event.get("failure"), dict) else None
    problem = _problem(case, event, raised)
    if problem is None:
        return TestResult(nodeid=nodeid, outcome="passed", seconds=seconds), None
    message, assertion = problem
    if raised is not None and case.raises is None:
        failed = describe_failure(nodeid, "call", event)
    else:
        failed = Failure(nodeid=nodeid, phase="call", kind="assertion", message=message, assertion=assertion)
    described = f"{_shown_call(case)}: {failed.message if raised is not None and case.raises is None else message}"
    failed = failed.model_copy(
        update={
            "message": described,
            "seconds": seconds,
            "stdout": str(event.get("stdout", "")) if case.stdout is None else "",
            "stderr": str(event.get("stderr", "")),
        }
    )
    return TestResult(nodeid=nodeid, outcome="failed", seconds=seconds), failed


def _problem(case: Case, event: dict[str, Any], raised: dict[str, Any] | None) -> tuple[str, Assertion | None] | None:
    """Why this is not what the case expects; None if it is."""
    if case.call is None:
        return _program_problem(case, event)
    if case.raises is not None:
        return _raising_problem(case, event, raised)
    if raised is not None:
        return "raised", None
    if case.expects_value:
        problem = _value_problem(case, event)
        if problem:
            return problem
    return _stdout_problem(case, event) if case.stdout is not None else None


def _program_problem(case: Case, event: dict[str, Any]) -> tuple[str, Assertion | None] | None:
    code = event.get("exit_code")
    if code != 0:
        ending = f"was killed by signal {-code}" if isinstance(code, int) and code < 0 else f"exited with status {code}"
        return f"the program {ending}", None
    return _stdout_problem(case, event)


def _stdout_problem(case: Case, event: dict[str, Any]) -> tuple[str, Assertion | None] | None:
    printed = str(event.get("stdout", ""))
    if case.stdout is None or _lines(printed) == _lines(case.stdout):
        return None
    found = Assertion(operator="==", left=_short(repr(printed)), right=_short(repr(case.stdout)))
    return "printed something else", found


def _lines(printed: str) -> list[str]:
    """White space at the end of lines and of the output is not part of an answer."""
    return [line.rstrip() for line in printed.rstrip().splitlines()]


def _raising_problem(
    case: Case, event: dict[str, Any], raised: dict[str, Any] | None
) -> tuple[str, Assertion | None] | None:
    if raised is None:
        return f"should raise {case.raises}, and returned {_shown(event.get('value'))}", None
    kinds = [str(raised.get("type")), *[str(base) for base in raised.get("bases", ())]]
    wanted = str(case.raises).rpartition(".")[2]
    message = str(raised.get("message", ""))
    if wanted not in kinds:
        return f"should raise {wanted}, and raised {kinds[0]}: {_short(message)}", None
    if case.match is not None and not re.search(case.match, message):
        return f"the message of {kinds[0]} should match {case.match!r}, and is {_short(message)!r}", None
    return None


def _value_problem(case: Case, event: dict[str, Any]) -> tuple[str, Assertion | None] | None:
    try:
        value = values.decode(event["value"])
    except (KeyError, ValueError) as exc:
        return f"the result cannot be read: {exc}", None
    if same(value, case.expected, case.approx):
        return None
    note = "" if type(value) is type(case.expected) else f" ({_kind(value)}, not {_kind(case.expected)})"
    shown, wanted = _short(values.show(value)), _short(values.show(case.expected))
    return f"returned {shown}, expected {wanted}{note}", Assertion(operator="==", left=shown, right=wanted)


def _kind(value: Any) -> str:
    return value.type if isinstance(value, values.Opaque) else type(value).__name__


def same(value: Any, expected: Any, approx: float | None = None) -> bool:
    """Equal in value and in type, all the way down; numbers within `approx`, if given."""
    return _form(value) == _form(expected) or (approx is not None and _near(value, expected, approx))


def _form(value: Any, numbers: bool = True) -> Hashable:
    """Something that can be looked up, and is equal for two values if they are the same.

    With `numbers=False` it is equal, too, for values that differ in their numbers only.
    """
    kind = type(value)
    if _is_number(value) and not numbers:
        return "number"
    if kind is float:
        return kind, repr(value)  # nan is nan, and 0.0 is not -0.0
    if kind is complex:
        return kind, repr(value.real), repr(value.imag)
    if kind is Decimal:
        return kind, value.as_tuple()  # 1.0 is not 1.00
    if kind in (list, tuple):
        return kind, tuple(_form(item, numbers) for item in value)
    if kind in (set, frozenset, dict):
        members = value.items() if kind is dict else value
        return kind, frozenset(Counter(_form(member, numbers) for member in members).items())
    if kind is bytearray:
        return kind, bytes(value)
    if kind is values.Opaque:
        return object()  # the same as nothing
    return kind, value


def _near(value: Any, expected: Any, approx: float) -> bool:
    if _is_number(value) and _is_number(expected):
        return _close(value, expected, approx)
    if type(value) is not type(expected):
        return False
    if isinstance(value, (list, tuple)):
        return len(value) == len(expected) and all(map(_near, value, expected, repeat(approx)))
    if isinstance(value, dict):
        return _paired(value.items(), expected.items(), approx)
    if isinstance(value, (set, frozenset)):
        return _paired(value, expected, approx)
    return _form(value) == _form(expected)


def _paired(left: Iterable[Any], right: Iterable[Any], approx: float) -> bool:
    """Whether the members can be matched one to one; only those that differ in nothing but numbers ever match."""
    groups: dict[Hashable, tuple[list[Any], list[Any]]] = {}
    for side, members in enumerate((left, right)):
        for member in members:
            groups.setdefault(_form(member, numbers=False), ([], []))[side].append(member)
    return all(len(ours) == len(theirs) and _matched(ours, theirs, approx) for ours, theirs in groups.values())


def _matched(left: list[Any], right: list[Any], approx: float) -> bool:
    """A matching by augmenting paths: who finds all that are near taken makes one of their holders look elsewhere.

    Taking the first that is near would not do: it may be the only one that is near to another.
    """
    holder: dict[int, int] = {}
    held: dict[int, int] = {}
    for newcomer in range(len(left)):
        asked_by: dict[int, int] = {}
        asking = [newcomer]
        free = None
        while asking and free is None:
            asker = asking.pop()
            for index in range(len(right)):
                if index not in asked_by and _near(left[asker], right[index], approx):
                    asked_by[index] = asker
                    if index not in holder:
                        free = index
                        break
                    asking.append(holder[index])
        if free is None:
            return False
        while free is not None:
            asker = asked_by[free]
            holder[free] = asker
            held[asker], free = free, held.get(asker)
    return True


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, complex, Decimal, Fraction)


def _close(value: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(value, complex) or isinstance(expected, complex):
        return _close(value.real, expected.real, tolerance) and _close(value.imag, expected.imag, tolerance)
    try:
        value, expected = float(value), float(expected)
    except (OverflowError, ValueError):  # too large for a float, or a signaling nan
        return _form(value) == _form(expected)
    if math.isnan(value) or math.isnan(expected):
        return math.isnan(value) and math.isnan(expected)
    return math.isclose(value, expected, rel_tol=tolerance, abs_tol=tolerance)


def _shown_call(case: Case) -> str:
    if case.call is None:
        return f"{case.program} with stdin {_short(repr(case.stdin or ''), 80)}"
    arguments = [_short(values.show(item), 80) for item in case.args]
    arguments += [f"{name}={_short(values.show(item), 80)}" for name, item in case.kwargs.items()]
    return f"{case.call}({', '.join(arguments)})"


def _shown(encoded: Any) -> str:
    try:
        return _short(values.show(values.decode(encoded)))
    except ValueError:
        return "something unreadable"


def _short(text: str, most: int = SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} characters cut]"
