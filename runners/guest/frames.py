"""The wire: length-prefixed, versioned, checksummed JSON.

Both walls of a sandbox use it: host ↔ supervisor, and supervisor ↔ child. The
reader trusts nothing: a wrong magic, version, checksum or size is a
`FrameError`, and so is a stream that ends inside a frame.
"""

from __future__ import annotations

import json
import struct
import zlib

MAGIC = b"RPF1"  # the last byte is the version of the protocol
HEADER = struct.Struct(">4sII")
LARGEST = 256 * 1024 * 1024


class FrameError(Exception):
    """The stream does not hold what our own writer writes."""


def encode(message, largest=LARGEST):
    payload = json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(payload) > largest:
        raise FrameError("a message of %d bytes is over the %d allowed" % (len(payload), largest))
    return HEADER.pack(MAGIC, len(payload), zlib.crc32(payload)) + payload


class Decoder:
    """Bytes in, messages out. After a FrameError the stream is unusable."""

    def __init__(self, largest=LARGEST):
        self._buffer = bytearray()
        self._largest = largest

    def feed(self, data):
        """The messages that are complete with this data."""
        self._buffer += data
        messages = []
        while len(self._buffer) >= HEADER.size:
            magic, length, checksum = HEADER.unpack_from(self._buffer)
            if magic != MAGIC:
                raise FrameError("not a frame of this protocol: it begins with %r" % bytes(magic))
            if length > self._largest:
                raise FrameError("a frame of %d bytes is over the %d allowed" % (length, self._largest))
            end = HEADER.size + length
            if len(self._buffer) < end:
                break
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            messages.append(_parse(payload, checksum))
        return messages

    def close(self):
        """Say that the stream has ended."""
        if self._buffer:
            raise FrameError("the stream ended inside a frame, %d bytes after its start" % len(self._buffer))


def _parse(payload, checksum):
    if zlib.crc32(payload) != checksum:
        raise FrameError("the checksum of a frame does not match")
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError) as exc:
        raise FrameError("a frame does not hold JSON: %s" % exc) from None
    if not isinstance(message, dict):
        raise FrameError("a frame holds %s, not an object" % type(message).__name__)
    return message
