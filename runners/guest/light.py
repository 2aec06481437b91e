"""Parts of `json`, `signal`, `socket`, `base64` and `ctypes` that are written in C, without the rest of these modules.

The rest is Python that imports `re` and `enum`, or defines a type for everything, which would
take longer than a small job, in every new sandbox.
"""

from __future__ import annotations

import _ctypes
import _signal as signal  # type: ignore[import-not-found]
import _socket
import binascii
import struct

try:
    import _json
except ImportError:  # a Python without this
    _json = None  # type: ignore[assignment]

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

__all__ = [
    "adopt",
    "call_c",
    "from_base64",
    "json_reader",
    "json_writer",
    "pair",
    "pointer_to",
    "receive",
    "send",
    "signal",
    "to_base64",
]

# --- JSON -----------------------------------------------------------------------


class _Reading:
    strict = True
    object_hook = object_pairs_hook = None
    parse_int = int

    def __init__(self, parse_float: Callable[[str], Any], parse_constant: Callable[[str], Any]) -> None:
        self.parse_float, self.parse_constant = parse_float, parse_constant


def _constant(name: str) -> float:
    return float(name)


def json_reader(
    parse_float: Callable[[str], Any] = float, parse_constant: Callable[[str], Any] = _constant
) -> Callable[[bytes], Any]:
    """What reads one value in UTF-8, with nothing before or after it; ValueError or RecursionError if it cannot."""
    if _json is not None:
        reading: Any = _Reading(parse_float, parse_constant)
        scan: Any = _json.make_scanner(reading)
    else:
        import json

        scan = json.JSONDecoder(parse_float=parse_float, parse_constant=parse_constant).scan_once

    def read(data: bytes) -> Any:
        text = data.decode("utf-8")
        try:
            value, end = scan(text, 0)
        except StopIteration:
            raise ValueError("there is no value") from None
        if end != len(text):
            raise ValueError("there is more than one value")
        return value

    return read


def json_writer(*, ascii_only: bool, nan: bool) -> Callable[[Any], str]:
    """What writes a value without white space, and does not look for cycles."""

    def refuse(value: Any) -> Any:
        raise TypeError(f"a {type(value).__name__} is not JSON")

    if _json is None:
        import json

        return json.JSONEncoder(
            ensure_ascii=ascii_only, check_circular=False, allow_nan=nan, separators=(",", ":")
        ).encode
    quote: Any = _json.encode_basestring_ascii if ascii_only else _json.encode_basestring
    write: Any = _json.make_encoder(None, refuse, quote, None, ":", ",", False, False, nan)
    join = "".join
    return lambda value: join(write(value, 0))


# --- base64 -----------------------------------------------------------------------


def to_base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def from_base64(text: str) -> bytes:
    """ValueError if `to_base64` would not have written this."""
    data = binascii.a2b_base64(text)
    if to_base64(data) != text:
        raise ValueError("this is not base64")
    return data


# --- the C library ------------------------------------------------------------------


class _Text(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


_library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # what is loaded already


def call_c(name: str, *arguments: int | bytes | None) -> int:
    """Call a function that takes ints and pointers; bytes are passed as a pointer to them."""
    result: int = _ctypes.call_function(_ctypes.dlsym(_library, name), arguments)
    return result


def pointer_to(data: bytes) -> bytes:
    """Their address, as a structure holds it. Good for as long as they are."""
    return bytes(memoryview(_Text(data)))


# --- descriptors over a socket ------------------------------------------------------


def pair() -> tuple[_socket.socket, _socket.socket]:
    """Two ends; each message arrives whole."""
    one, other = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    return one, other


def adopt(fd: int) -> _socket.socket:
    return _socket.socket(fileno=fd)


def send(link: _socket.socket, message: bytes, fds: Collection[int] = (), *, wait: bool = True) -> None:
    handed = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("%di" % len(fds), *fds))] if fds else []
    link.sendmsg([message], handed, 0 if wait else _socket.MSG_DONTWAIT)


def receive(link: _socket.socket, largest: int, most: int) -> tuple[bytes, list[int]]:
    """A message, which is empty once the other end is closed, and the descriptors that came with it."""
    message, handed, _, _ = link.recvmsg(largest, _socket.CMSG_LEN(most * struct.calcsize("i")))
    fds: list[int] = []
    for level, kind, data in handed:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            count = len(data) // struct.calcsize("i")
            fds += struct.unpack("%di" % count, data[: count * struct.calcsize("i")])
    return message, fds
