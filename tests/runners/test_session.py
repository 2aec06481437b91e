"""The conversation with a guest that does not keep to it: `invalid`, never a hang and never a verdict."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest

from harness import Environment, Limits, Report, Submission, Suite, averify
from runners import session
from runners.contract import Autopsy, GuestSettings, Isolation
from runners.guest import frames

SUBMISSION = Submission.from_code("def add(a, b): return a + b")
SUITE = Suite.from_code("from solution import add\ndef test_adds(): assert add(1, 2) == 3")

HELLO = frames.encode({"type": "hello", "python": "3.11.0", "pytest": "9.0.0"})
DONE = frames.encode({"type": "done"})
END = frames.encode({"type": "end", "part": "pytest", "evidence": {"exit_code": 0}})
TEST = "test_solution.py::test_adds"


KEY = "00" * 16
SEAL = frames.Seal(KEY)


def event(number: int = 0, **content: Any) -> bytes:
    sealed = {**content, "s": SEAL.of(content, number)}
    return frames.encode({"type": "event", "part": "pytest", "event": sealed})


PASSING = b"".join(
    [
        HELLO,
        event(0, e="ready"),
        event(1, e="collected", ids=[TEST]),
        event(2, e="start", id=TEST),
        *(
            event(number, e="phase", id=TEST, when=when, outcome="passed", seconds=0.1)
            for number, when in enumerate(("setup", "call", "teardown"), 3)
        ),
        event(6, e="stop", id=TEST),
        event(7, e="session", status=0),
        event(8, e="finish", status=0),
        END,
        DONE,
    ]
)


class Scripted:
    """A runner, and its one sandbox, whose guest says what it was told to and then ends or is silent."""

    name = "scripted"
    isolation = Isolation(runner="scripted", network="", filesystem="", processes="", memory="", user="")
    settings = GuestSettings(workspace="/nowhere")

    def __init__(self, said: Sequence[bytes], *, silent: bool = False, oom_killed: bool = False) -> None:
        self._said = list(said)
        self._silent = silent
        self._oom_killed = oom_killed
        self.heard = b""
        self.closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    @asynccontextmanager
    async def open(self, environment: Environment, limits: Limits) -> AsyncIterator[Self]:
        try:
            yield self
        finally:
            self.closed = True

    async def read(self) -> bytes:
        if self._said:
            return self._said.pop(0)
        if self._silent:
            await asyncio.Event().wait()
        return b""

    async def write(self, data: bytes) -> None:
        self.heard += data

    async def autopsy(self) -> Autopsy:
        return Autopsy(oom_killed=self._oom_killed, detail="It left exit status 1.")


@pytest.fixture(autouse=True)
def known_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script is written beforehand, and so is its seal."""
    monkeypatch.setattr(session.secrets, "token_hex", lambda size: KEY)


async def verify(guest: Scripted, **limits: float) -> Report:
    report = await averify(SUBMISSION, SUITE, runner=guest, limits=Limits(**limits))
    assert guest.closed
    return report


def raw(payload: bytes, *, magic: bytes = b"RPF1", length: int | None = None, checksum: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack(">4sII", magic, size, zlib.crc32(payload) if checksum is None else checksum) + payload


async def test_a_guest_that_keeps_to_it_gives_a_verdict():
    """
    The script of the other tests is a good one, so that it is what they change that matters.
    """
    report = await verify(Scripted([PASSING]))

    assert report.verdict == "passed", report


@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_it_does_not_matter_how_the_bytes_arrive(size):
    """
    Frames are put together from whatever pieces the stream gives.
    """
    report = await verify(Scripted([PASSING[start : start + size] for start in range(0, len(PASSING), size)]))

    assert report.verdict == "passed", report


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"Traceback (most recent call last):\n", "not a frame"),
        (raw(b"{}", magic=b"RPF9"), "not a frame"),
        (raw(b"{}", checksum=1), "checksum"),
        (raw(b"", length=0xFFFFFFFF), "over the"),
        (raw(b"not JSON"), "does not hold JSON"),
        (raw(b"\xff\xfe"), "does not hold JSON"),
        (raw(b"[" * 100_000), "does not hold JSON"),
        (raw(b"[1]"), "not an object"),
        (frames.encode({"type": "nonsense"}), "unknown kind"),
        (frames.encode({"type": "event", "event": "text"}), "unknown kind"),
        (frames.encode({}), "unknown kind"),
        (frames.encode({"type": "end", "part": "pytest"}), "evidence"),
        (frames.encode({"type": "end", "part": "pytest", "evidence": {"exit_code": "x"}}), "evidence"),
        (frames.encode({"type": "end", "part": "pytest", "evidence": {"no_such": 1}}), "evidence"),
    ],
)
@pytest.mark.parametrize("silent", [False, True])
async def test_a_garbled_stream_is_invalid(garbage, reason, silent):
    """
    What is not of this protocol ends the run as something that we could not find out, at once.
    """
    report = await verify(Scripted([HELLO, garbage], silent=silent))

    assert report.verdict == "invalid"
    assert report.reward is None
    assert reason in report.reason


@pytest.mark.parametrize(
    "cut", [1, 3, 11, 12, 20, len(HELLO) - 1, len(HELLO), len(PASSING) - len(END + DONE), len(PASSING) - len(DONE) - 1]
)
async def test_a_truncated_stream_is_invalid(cut):
    """
    A stream that ends early, inside of a frame or between two, gives no verdict.
    """
    report = await verify(Scripted([PASSING[:cut]]))

    assert report.verdict == "invalid"
    assert "ended before the job was done" in report.reason
    assert "exit status 1" in report.reason


@pytest.mark.parametrize("said", [b"", HELLO[:5], HELLO, PASSING[: -len(END + DONE)]])
async def test_silence_is_invalid(said, monkeypatch):
    """
    A guest that says nothing for longer than it may is given up.
    """
    monkeypatch.setattr(session, "START_SECONDS", 0.2)
    monkeypatch.setattr(session, "GRACE_SECONDS", 0.1)

    report = await verify(Scripted([said] if said else [], silent=True), wall_seconds=0.1)

    assert report.verdict == "invalid"
    assert "said nothing" in report.reason


async def test_talking_without_end_is_invalid(monkeypatch):
    """
    A guest that sends more than any run can is given up.
    """
    monkeypatch.setattr(session, "MOST_EVENT_BYTES", 100_000)

    report = await verify(Scripted([HELLO, *[event(e="start", id="x" * 1000)] * 200], silent=True))

    assert report.verdict == "invalid"
    assert "more than 100000 bytes" in report.reason


async def test_a_talkative_guest_does_not_extend_its_time(monkeypatch):
    """
    The time for a job is the time for all of it: events do not start it anew.
    """

    class Ticking(Scripted):
        async def read(self) -> bytes:
            if self._said:
                return self._said.pop(0)
            await asyncio.sleep(0.01)
            return event(e="start", id="x")

    monkeypatch.setattr(session, "GRACE_SECONDS", 0.1)

    report = await asyncio.wait_for(verify(Ticking([HELLO]), wall_seconds=0.2), 20)

    assert report.verdict == "invalid"


async def test_a_guest_without_pytest_says_what_to_do():
    """
    An image that cannot run tests is our user's to mend, and no verdict on a candidate.
    """
    report = await verify(Scripted([frames.encode({"type": "hello", "python": "3.9.1", "pytest": None})]))

    assert report.verdict == "invalid"
    assert "3.9.1 has no pytest" in report.reason
    assert "Nothing was run" in report.reason


async def test_a_guest_that_does_not_greet_is_invalid():
    """
    Something else than our guest is at the other end.
    """
    report = await verify(Scripted([DONE], silent=True))

    assert report.verdict == "invalid"
    assert "greeting" in report.reason


async def test_a_guest_that_the_kernel_killed_for_memory_is_out_of_memory():
    """
    The kernel's word about the sandbox is evidence, even where the guest could give none.
    """
    report = await verify(Scripted([HELLO, event(e="ready")], oom_killed=True))

    assert report.verdict == "out_of_memory"


async def test_done_without_evidence_is_invalid():
    """
    A guest that says it is done and not how the tests ended has not run them as far as we know.
    """
    report = await verify(Scripted([PASSING.replace(END, b"")]))

    assert report.verdict == "invalid"


async def test_passing_without_a_finish_is_no_pass():
    """
    Tests that passed in a process that did not come to its end have not passed.
    """
    report = await verify(Scripted([PASSING.replace(event(8, e="finish", status=0), b"")]))

    assert report.verdict == "crashed"


async def test_a_test_that_was_collected_and_not_reported_is_no_pass():
    """
    Every test that was found must have been heard of.
    """
    report = await verify(
        Scripted([PASSING.replace(event(1, e="collected", ids=[TEST]), event(1, e="collected", ids=[TEST, "other"]))])
    )

    assert report.verdict == "crashed"
    assert "other" in report.reason


@pytest.mark.parametrize(
    "forged",
    [
        {"e": "nonsense"},
        {"e": None},
        {},
        {"e": "start"},
        {"e": "phase", "id": TEST, "when": "call", "outcome": "wonderful"},
        {"e": "phase", "id": TEST, "when": "call", "outcome": "failed", "failure": {"no": "type"}},
        {"e": "collected", "ids": 3},
        {"e": "warning", "id": TEST},
        {"e": "case", "id": "case[0] solution.add", "value": 3},
    ],
)
async def test_a_malformed_event_is_tampering(forged):
    """
    Our plugin does not send such things, so something else did.
    """
    report = await verify(Scripted([PASSING.replace(event(7, e="session", status=0), event(7, **forged))]))

    assert report.verdict == "tampered", report
    assert report.model_dump_json()


async def test_an_event_without_our_seal_is_tampering():
    """
    A guest's own code seals what it sends with a key that no candidate has.
    """
    unsealed = frames.encode({"type": "event", "part": "pytest", "event": {"e": "session", "status": 0}})
    report = await verify(Scripted([PASSING.replace(event(7, e="session", status=0), unsealed)]))

    assert report.verdict == "tampered", report
    assert "seal" in report.reason


async def test_an_event_that_is_nested_too_deeply_is_tampering():
    """
    What can be read and not be looked through is none of ours, and ends no verification of ours.
    """
    nested: Any = []
    for _ in range(400):
        nested = [nested]
    deep = event(7, e="warning", more=nested)
    report = await verify(Scripted([PASSING.replace(event(7, e="session", status=0), deep)]))

    assert report.verdict == "tampered", report
