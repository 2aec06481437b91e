"""What a job's process says, and when it may be interrupted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from runners.guest import child, frames

PIPE = 4096
MANY = 300
OFTEN = 0.0005


@contextlib.contextmanager
def armed(clock: child.TestClock) -> Iterator[None]:
    """Rung by a timer, too; but for a test once only."""

    def ring(number: int, frame: FrameType | None) -> None:
        try:
            heard(number, frame)
        except child.OutOfTime:
            clock.stop()
            raise

    before = {number: signal.getsignal(number) for number in (child.SIGNAL_TIME, signal.SIGALRM)}
    clock.arm()
    heard = signal.getsignal(child.SIGNAL_TIME)
    for number in before:
        signal.signal(number, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_test_that_runs_out_of_time_tells_no_half_an_event():
    """
    Its time may be up while an event is on its way to a supervisor that is slow to read.
    """
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE)
    received = bytearray()

    def read() -> None:
        while data := os.read(reading, 997):
            received.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    clock, channel = child.TestClock(0.0), child.Channel(writing, "00" * 16)
    with armed(clock):
        signal.setitimer(signal.ITIMER_REAL, OFTEN, OFTEN)
        for number in range(MANY):
            with contextlib.suppress(child.OutOfTime):
                clock.begin()
                channel.send({"e": "start", "id": str(number), "text": "x" * 3 * PIPE})
                clock.stop()
    clock.stop()
    channel.send({"e": "stop"})
    os.close(writing)
    reader.join()
    os.close(reading)
    decoder = frames.Decoder()
    events = decoder.feed(bytes(received))
    decoder.close()

    assert [event["n"] for event in events] == list(range(len(events)))
    assert events[-1]["e"] == "stop"


@pytest.mark.parametrize(("seconds", "ends"), [(0.0, True), (60.0, False)])
def test_a_ring_that_comes_late_does_not_end_the_next_test(seconds, ends):
    """
    It was meant for the one before: this one has just begun, and has all of its time.
    """
    clock, ended = child.TestClock(seconds), False
    with armed(clock):
        try:
            clock.begin()
            signal.raise_signal(child.SIGNAL_TIME)
        except child.OutOfTime:
            ended = True
        clock.stop()

    assert ended == ends
