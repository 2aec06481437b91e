"""What a job's process says, and when it may be interrupted."""

from __future__ import annotations

import fcntl
import os
import signal
import threading

from runners.guest import child, frames

PIPE = 4096
MANY = 300


def test_a_test_that_runs_out_of_time_tells_no_half_an_event():
    """
    Its time may be up while an event is on its way to a supervisor that is slow to read.
    """
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE)
    received = bytearray()
    over = threading.Event()

    def read() -> None:
        while data := os.read(reading, 997):
            received.extend(data)

    def ring() -> None:
        while not over.is_set():
            signal.pthread_kill(threading.main_thread().ident, child.SIGNAL_TIME)

    clock = child.TestClock(1.0)
    before = signal.getsignal(child.SIGNAL_TIME)
    clock.arm()
    threads = [threading.Thread(target=work) for work in (read, ring)]
    try:
        for thread in threads:
            thread.start()
        channel = child.Channel(writing, "00" * 16)
        for number in range(MANY):
            try:
                clock.running = True
                channel.send({"e": "start", "id": str(number), "text": "x" * 3 * PIPE})
                clock.running = False
            except child.OutOfTime:
                clock.running = False
    finally:
        clock.running = False
        over.set()
        threads[1].join()
        os.close(writing)
        threads[0].join()
        os.close(reading)
        signal.signal(child.SIGNAL_TIME, before)
    decoder = frames.Decoder()
    numbers = [event["n"] for event in decoder.feed(bytes(received))]
    decoder.close()

    assert numbers == list(range(len(numbers)))
    assert numbers
