"""The wire: length-prefixed, versioned, checksummed JSON.

Both walls of a sandbox use it: host ↔ supervisor, and supervisor ↔ child. The
reader trusts nothing: a wrong magic, version, checksum or size is a
`FrameError`, and so is a stream that ends inside a frame.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAGIC = b"RPF1"  # the last byte is the version of the protocol
HEADER = struct.Struct(">4sII")
LARGEST = 256 * 1024 * 1024


class FrameError(Exception):
    """The stream does not hold what our own writer writes."""


def encode(message: Mapping[str, Any], largest: int = LARGEST) -> bytes:
    try:
        payload = json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (ValueError, RecursionError) as exc:
        raise FrameError(f"a message cannot be written as JSON: {exc}") from None
    if len(payload) > largest:
        raise FrameError(f"a message of {len(payload)} bytes is over the {largest} allowed")
    return HEADER.pack(MAGIC, len(payload), zlib.crc32(payload)) + payload


class Decoder:
    """Bytes in, messages out. After a FrameError the stream is unusable."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._buffer = bytearray()
        self._largest = largest

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The messages that are complete with this data."""
        self._buffer += data
        messages: list[dict[str, Any]] = []
        while len(self._buffer) >= HEADER.size:
            magic, length, checksum = HEADER.unpack_from(self._buffer)
            if magic != MAGIC:
                raise FrameError(f"not a frame of this protocol: it begins with {bytes(magic)!r}")
            if length > self._largest:
                raise FrameError(f"a frame of {length} bytes is over the {self._largest} allowed")
            end = HEADER.size + length
            if len(self._buffer) < end:
                break
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            messages.append(_parse(payload, checksum))
        return messages

    def close(self) -> None:
        """Say that the stream has ended."""
        if self._buffer:
            raise FrameError(f"the stream ended inside a frame, {len(self._buffer)} bytes after its start")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # 1e999 is JSON, but what it is read as could not be written again
        raise ValueError(f"{text[:20]} is out of range")
    return value


def _parse(payload: bytes, checksum: int) -> dict[str, Any]:
    if zlib.crc32(payload) != checksum:
        raise FrameError("the checksum of a frame does not match")
    try:
        message = json.loads(payload, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as exc:
        raise FrameError(f"a frame does not hold JSON: {exc}") from None
    if not isinstance(message, dict):
        raise FrameError(f"a frame holds {type(message).__name__}, not an object")
    return message
