"""The wire: everything our writer writes comes through; nothing else does any harm."""

from __future__ import annotations

import itertools
import json
import struct
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runners.guest import frames
from runners.guest.frames import Decoder, FrameError

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
messages = st.dictionaries(st.text(), plain, max_size=4)


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


def framed(payload: bytes) -> bytes:
    return frames.HEADER.pack(frames.MAGIC, len(payload), zlib.crc32(payload)) + payload


def heard(data: bytes, largest: int = frames.LARGEST) -> list[dict]:
    decoder = Decoder(largest)
    found = decoder.feed(data)
    decoder.close()
    return found


@given(st.lists(messages, max_size=4), st.lists(st.integers(min_value=0), max_size=12))
def test_any_messages_come_through_in_any_pieces(sent, cuts):
    """
    However a stream of messages is cut up on its way, the same messages come out, in order.
    """
    decoder = Decoder()
    stream = b"".join(frames.encode(message) for message in sent)

    received = [message for piece in chunks(stream, cuts) for message in decoder.feed(piece)]
    decoder.close()

    assert received == sent


@given(messages, st.data())
def test_a_truncated_stream_is_noticed(message, data):
    """
    A stream that ends inside a frame gives no message and is an error when it is closed.
    """
    whole = frames.encode(message)
    decoder = Decoder()

    received = decoder.feed(whole[: data.draw(st.integers(1, len(whole) - 1))])

    assert received == []
    with pytest.raises(FrameError, match="ended inside a frame"):
        decoder.close()


@given(messages, st.data())
def test_a_changed_byte_never_changes_a_message(message, data):
    """
    With one byte of a frame changed, no message but the one that was sent is ever heard.
    """
    whole = bytearray(frames.encode(message))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises(FrameError):
        heard(bytes(whole))


@given(st.binary(max_size=200))
@example(b"RPF2" + bytes(8))
@example(b"HTTP/1.1 200 OK\r\n")
def test_noise_is_an_error_or_nothing(noise):
    """
    Bytes that our writer did not write end in a FrameError, or in no message.
    """
    try:
        received = heard(noise)
    except FrameError:
        received = []

    assert received == []


@given(st.binary(max_size=100) | plain.map(json.dumps).map(str.encode))
@example(b"[" * 100_000)
@example(b'{"a":' * 5_000 + b"1" + b"}" * 5_000)
@example(b'{"a": ' + b"9" * 5_000 + b"}")
@example(b"[1]")
@example(b"\xff")
def test_a_well_formed_frame_of_anything_is_an_object_or_an_error(payload):
    """
    A payload with the right length and checksum is either a JSON object or a FrameError.
    """
    try:
        received = heard(framed(payload))
    except FrameError:
        return

    assert [type(message) for message in received] == [dict]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": ' + b"[" * 950 + b"]" * 950 + b"}",
        b'{"a": ' + b'{"a":' * 950 + b"1" + b"}" * 950 + b"}",
    ],
    ids=["nan", "infinity", "overflow", "deep-list", "deep-object"],
)
def test_what_was_heard_can_be_passed_on(payload):
    """
    The supervisor passes on what a child sent: a message that is accepted can be sent again, inside another.
    """
    try:
        received = heard(framed(payload))
    except FrameError:
        return

    assert heard(frames.encode({"type": "event", "event": received[0]}))


def test_a_frame_that_claims_to_be_too_large_is_refused_at_once():
    """
    A length over the limit is refused from the header alone, before anything is kept.
    """
    header = struct.pack(">4sII", frames.MAGIC, 2**32 - 1, 0)

    with pytest.raises(FrameError, match="over the"):
        Decoder().feed(header)


def test_the_writer_refuses_what_the_reader_would_refuse():
    """
    A message over the limit is an error where it is made, not on the other side.
    """
    with pytest.raises(FrameError, match="over the 10 allowed"):
        frames.encode({"text": "longer than ten bytes"}, largest=10)


def test_nothing_follows_an_error():
    """
    After garbage in front of it a good frame is not heard: whoever wrote the garbage could have written it.
    """
    decoder = Decoder()
    with pytest.raises(FrameError):
        decoder.feed(b"garbage that is long enough")

    with pytest.raises(FrameError):
        decoder.feed(frames.encode({"verdict": "passed"}))
