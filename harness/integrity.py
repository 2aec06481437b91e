"""What the guest saw of tampering, and what its canaries say → the report's `Integrity`.

The guest's own findings travel with its events. The canaries are judged here: which tests they are
was told before the candidate was imported, and a candidate that could forge events would have to
know which of them to let fail.
"""

from __future__ import annotations

from typing import Any

from .models import Integrity, Seat

__all__ = ["Watcher"]

Event = dict[str, Any]
MOST = 20
LOOKS = 2
"""After collection, and at the end."""


class Watcher:
    """Hears the events that are not about the suite's own tests."""

    def __init__(self) -> None:
        self.checks: list[str] = []
        self.findings: list[str] = []
        self.suspicions: list[str] = []
        self.asked = 0
        self._must: dict[str, str] = {}
        self._became: dict[str, str] = {}
        self._placed: set[str] = set()
        self._twins: set[str] = set()
        self._collected: list[str] = []
        self._started: list[str] = []
        self._begun = False
        self._looks = 0

    def note(self, event: Event) -> None:
        self._begun = self._begun or "checks" in event
        self._looks += int(event.get("looks", 0))
        for name in ("checks", "findings", "suspicions"):
            told: list[str] = getattr(self, name)
            told += [str(text) for text in event.get(name, ()) if str(text) not in told][: MOST - len(told)]

    def plan(self, event: Event) -> None:
        self._must.update(dict.fromkeys(map(str, event["failing"]), "failed"))
        self._must.update(dict.fromkeys(map(str, event["passing"]), "passed"))
        self._must.update(dict.fromkeys(map(str, event["twins"]), "failed"))
        self._twins.update(map(str, event["twins"]))

    def is_canary(self, nodeid: str) -> bool:
        return _base(nodeid) in self._must

    def collect(self, nodeid: str) -> bool:
        """Whether it is one of the suite's tests, in the order in which they will run."""
        if self.is_canary(nodeid):
            self._placed.add(nodeid)
            return False
        self._collected.append(nodeid)
        return True

    def start(self, nodeid: str) -> None:
        self._started.append(nodeid)

    def phase(self, event: Event) -> None:
        nodeid, outcome = str(event["id"]), str(event["outcome"])
        if outcome == "skipped" and _base(nodeid) in self._twins:
            outcome = "failed"  # the test that it is a copy of may skip itself
        if outcome != "passed" or event["when"] == "call":
            self._became[nodeid] = outcome

    def restart(self) -> None:
        """Another process runs the rest, with canaries of its own."""
        self._judge_canaries(all_ran=False)
        for kept in (self._must, self._became, self._placed, self._twins, self._collected, self._started):
            kept.clear()

    def conclude(self, seat: Seat, all_ran: bool) -> Integrity:
        self._judge_canaries(all_ran)
        if all_ran and self._begun and self._looks < LOOKS:
            self.findings.append("the guest was kept from looking whether pytest is what it was")
        return Integrity(
            seat=seat,
            checks=tuple(self.checks),
            findings=tuple(self.findings[:MOST]),
            suspicions=tuple(self.suspicions),
            asked=self.asked,
        )

    def _judge_canaries(self, all_ran: bool) -> None:
        if not self._placed:
            return
        for must, otherwise in (("failed", "must fail"), ("passed", "must pass")):
            reported = {nodeid: now for nodeid, now in self._became.items() if self._must[_base(nodeid)] == must}
            wrong = [now for now in reported.values() if now != must]
            if wrong and (must == "failed" or all_ran):  # what else fails may be what made a canary fail
                became = "passed" if must == "failed" and set(wrong) == {"passed"} else "did not"
                self.findings.append(f"{len(wrong)} of {len(reported)} canary tests that {otherwise} {became}")
            elif reported and not wrong:
                self.checks.append(f"{len(reported)} canary tests that {otherwise} did")
        silent = self._placed - set(self._became)
        if all_ran and silent:
            self.findings.append(f"{len(silent)} of {len(self._placed)} canary tests were never reported")
        if all_ran and self._started != self._collected:  # where there are canaries, no plugin of the suite's has a say
            self.findings.append("the tests did not run once each, in the order in which they were collected")


def _base(nodeid: str) -> str:
    """A test's id without its parameters."""
    path, _, name = nodeid.rpartition("::")
    return f"{path}::{name.partition('[')[0]}"
