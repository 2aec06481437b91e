"""The wire: length-prefixed, versioned, checksummed JSON.

Both walls of a sandbox use it: host ↔ supervisor, and supervisor ↔ child. The
reader trusts nothing: a wrong magic, version, checksum or size is a
`FrameError`, and so is a stream that ends inside a frame.
"""

from __future__ import annotations

import math
import struct
import zlib

from .light import json_reader, json_writer

try:
    from _blake2 import blake2b  # hashlib would load all of OpenSSL for it, into each sandbox
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAGIC = b"RPF1"  # the last byte is the version of the protocol
HEADER = struct.Struct(">4sII")
LARGEST = 256 * 1024 * 1024


class FrameError(Exception):
    """The stream does not hold what our own writer writes."""


as_json = json_writer(ascii_only=True, nan=False)
"""By the encoder in C where there is one: what is done to `json` later does not reach it."""


def encode(message: Mapping[str, Any], largest: int = LARGEST) -> bytes:
    return seal(dump(message), largest)


def dump(data: Any) -> bytes:
    """As JSON, in one line."""
    try:
        return as_json(data).encode("ascii")
    except (ValueError, RecursionError) as exc:
        raise FrameError(f"a message cannot be written as JSON: {exc}") from None


def seal(payload: bytes, largest: int = LARGEST) -> bytes:
    """The frame of something that is JSON already."""
    if len(payload) > largest:
        raise FrameError(f"a message of {len(payload)} bytes is over the {largest} allowed")
    return HEADER.pack(MAGIC, len(payload), zlib.crc32(payload)) + payload


class Seal:
    """Tells events of ours from all others: a keyed digest of each, with its number.

    The key itself cannot be read back from here: what is kept is the state of a digest, in C.
    """

    def __init__(self, key: str) -> None:
        self._copy = blake2b(key=bytes.fromhex(key), digest_size=16).copy

    def of(self, event: Mapping[str, Any], number: int) -> str:
        digest = self._copy()
        digest.update(b"%d:" % number)
        digest.update(as_json(event).encode("ascii"))
        return digest.hexdigest()


class Decoder:
    """Bytes in, messages out. After a FrameError the stream is unusable."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._buffer = bytearray()
        self._largest = largest

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The messages that are complete with this data."""
        return [parse(payload) for payload in self.payloads(data)]

    def payloads(self, data: bytes) -> list[bytes]:
        """The same, whole and unread."""
        self._buffer += data
        complete: list[bytes] = []
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
            if zlib.crc32(payload) != checksum:
                raise FrameError("the checksum of a frame does not match")
            complete.append(payload)
        return complete

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


_read = json_reader(_finite, _refuse)


def parse(payload: bytes) -> dict[str, Any]:
    try:
        message = _read(payload)
    except (ValueError, RecursionError) as exc:
        raise FrameError(f"a frame does not hold JSON: {exc}") from None
    if not isinstance(message, dict):
        raise FrameError(f"a frame holds {type(message).__name__}, not an object")
    return message
