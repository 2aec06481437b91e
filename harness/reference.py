"""Which seat, by trial: a reference solution is judged from both, and `separate` is taken if it looks the same there.

Reading the suite (`seats.py`) has to be careful; a solution that is known to be right knows better.
What is found is kept for as long as the process lives, since a suite is used for many candidates.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from .models import Report, Submission, Suite
from .seats import Choice, SeatName

__all__ = ["seat_by_trial"]

MOST_KEPT = 1024
_found: OrderedDict[str, Choice] = OrderedDict()

Trial = Callable[[SeatName], Awaitable[Report]]


async def seat_by_trial(suite: Suite, reference: Submission, trial: Trial) -> Choice | None:
    """The seat in which `reference` is judged rightly; None if that cannot be told, as it cannot be judged at all."""
    key = _key(suite, reference)
    if key not in _found:
        together, apart = await trial("in_process"), await trial("separate")
        if "invalid" in (together.verdict, apart.verdict):
            return None
        _found[key] = _compared(together, apart)
        if len(_found) > MOST_KEPT:
            _found.popitem(last=False)
    _found.move_to_end(key)
    return _found[key]


def _compared(together: Report, apart: Report) -> Choice:
    expected, seen = _outcomes(together), _outcomes(apart)
    for nodeid, outcome in expected.items():
        if seen.get(nodeid) != outcome:
            was = f"{outcome}, and {seen.get(nodeid, 'missing')} from another process"
            return Choice("in_process", f"with the reference solution {nodeid} is {was}: needs in_process")
    if seen != expected or together.verdict != apart.verdict:
        return Choice("in_process", "the reference solution is judged otherwise from another process: needs in_process")
    return Choice("separate", "the reference solution has the same outcomes in both seats")


def _outcomes(report: Report) -> dict[str, str]:
    return {test.nodeid: test.outcome for test in report.tests}


def _key(suite: Suite, reference: Submission) -> str:
    digest = hashlib.sha256(repr((suite.options, suite.workers)).encode())
    for files in (suite.files, reference.files):
        for path, data in sorted(files.items()):
            digest.update(f"{path}\0{hashlib.sha256(data).hexdigest()}\n".encode())
        digest.update(b"\n")
    return digest.hexdigest()
