"""Declarative cases: what goes into the sandbox, and the judging of what comes out.

The comparison happens here, outside, on values that were rebuilt from data. The
candidate's objects, with whatever `__eq__` they have, never get this far.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
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


def _problem(
    case: Case, event: dict[str, Any], raised: dict[str, Any] | None
) -> tuple[str, Assertion | None] | None:
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
    except (KeyError, ValueError, RecursionError) as exc:
        return f"the result cannot be read: {exc}", None
    if same(value, case.expected, case.approx):
        return None
    note = "" if type(value) is type(case.expected) else f" ({_kind(value)}, not {_kind(case.expected)})"
    shown, wanted = _short(repr(value)), _short(repr(case.expected))
    return f"returned {shown}, expected {wanted}{note}", Assertion(operator="==", left=shown, right=wanted)


def _kind(value: Any) -> str:
    return value.type if isinstance(value, values.Opaque) else type(value).__name__


def same(value: Any, expected: Any, approx: float | None = None) -> bool:
    """Equal in value and in type, all the way down; numbers within `approx`, if given."""
    if approx is not None and _is_number(value) and _is_number(expected):
        return _close(value, expected, approx)
    if type(value) is not type(expected):
        return False
    if isinstance(value, float):
        return _same_float(value, expected)
    if isinstance(value, complex):
        return same(value.real, expected.real) and same(value.imag, expected.imag)
    if isinstance(value, (list, tuple)):
        return len(value) == len(expected) and all(same(*pair, approx) for pair in zip(value, expected, strict=True))
    if isinstance(value, dict):
        return len(value) == len(expected) and _paired(value.items(), expected.items(), approx)
    if isinstance(value, (set, frozenset)):
        return len(value) == len(expected) and _paired(value, expected, approx)
    if isinstance(value, Decimal):
        return bool(value.as_tuple() == expected.as_tuple())
    return bool(value == expected)


def _same_float(value: float, expected: float) -> bool:
    if math.isnan(value) or math.isnan(expected):
        return math.isnan(value) and math.isnan(expected)
    return value == expected and math.copysign(1, value) == math.copysign(1, expected)


def _paired(left: Any, right: Any, approx: float | None) -> bool:
    """Whether the members can be matched one to one."""
    waiting = list(right)
    for item in left:
        found = next((index for index, other in enumerate(waiting) if same(item, other, approx)), None)
        if found is None:
            return False
        waiting.pop(found)
    return True


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, complex, Decimal)


def _close(value: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(value, complex) or isinstance(expected, complex):
        value, expected = complex(value), complex(expected)
        return _close(value.real, expected.real, tolerance) and _close(value.imag, expected.imag, tolerance)
    try:
        value, expected = float(value), float(expected)
    except OverflowError:
        return bool(value == expected)
    if math.isnan(value) or math.isnan(expected):
        return math.isnan(value) and math.isnan(expected)
    return math.isclose(value, expected, rel_tol=tolerance, abs_tol=tolerance)


def _shown_call(case: Case) -> str:
    if case.call is None:
        return f"{case.program} with stdin {_short(repr(case.stdin or ''), 80)}"
    arguments = [_short(repr(item), 80) for item in case.args]
    arguments += [f"{name}={_short(repr(item), 80)}" for name, item in case.kwargs.items()]
    return f"{case.call}({', '.join(arguments)})"


def _shown(encoded: Any) -> str:
    try:
        return _short(repr(values.decode(encoded)))
    except ValueError:
        return "something unreadable"


def _short(text: str, most: int = SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} characters cut]"
