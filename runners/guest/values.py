"""Python values as JSON, exactly by type.

JSON has no tuple, set, bytes, complex, Decimal, datetime, nan or non-string
key. Those are written as an object with one key that begins with `$`:

    (1, 2) → {"$tuple": [1, 2]}        b"ab" → {"$bytes": "YWI="}
    {1: 2} → {"$dict": [[1, 2]]}       nan   → {"$float": "nan"}

A plain dict with string keys stays a JSON object unless one of its keys begins
with `$`. Only exact types are encoded: an instance of a subclass of `int` is
not an int, and becomes `{"$object": ...}` with its type and a bounded repr,
which decodes to an `Opaque` that equals nothing.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import fractions
import math

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Moment = TypeVar("Moment", datetime.datetime, datetime.time)

DEEPEST = 100
_BIG = 1 << 63


class Opaque:
    """A value that has no encoding: known by type and repr, equal to nothing."""

    __slots__ = ("text", "type")

    def __init__(self, type_name: str, text: str) -> None:
        self.type = type_name
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:  # so that it may stand in a set or as a key
        return id(self)


def encode(value: Any, depth: int = 0) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -_BIG < value < _BIG else {"$int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if depth >= DEEPEST:
        return _opaque(value, f"nested more than {DEEPEST} deep")
    if kind is list:
        return [encode(item, depth + 1) for item in value]
    if kind is dict:
        return _encode_dict(value, depth)
    if kind in _SEQUENCES:
        return {_SEQUENCES[kind]: [encode(item, depth + 1) for item in value]}
    encoder = _SCALARS.get(kind)
    return encoder(value) if encoder else _opaque(value)


def _encode_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: encode(item, depth + 1) for key, item in value.items()}
    return {"$dict": [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in value.items()]}


def _opaque(value: object, text: str | None = None) -> dict[str, Any]:
    kind = type(value)
    if text is None:
        try:
            text = repr(value)
        except BaseException as exc:  # a candidate's __repr__ may do anything
            text = "<%s whose repr raised %s>" % (kind.__name__, type(exc).__name__)
    if len(text) > 1000:
        text = "%s… (%d characters cut)" % (text[:1000], len(text) - 1000)
    return {"$object": {"type": "%s.%s" % (kind.__module__, kind.__qualname__), "repr": text}}


def _datetime(value: datetime.datetime) -> dict[str, Any]:
    return {"$datetime": _moment(value)} if _plain_zone(value) else _opaque(value)


def _time(value: datetime.time) -> dict[str, Any]:
    return {"$time": _moment(value)} if _plain_zone(value) else _opaque(value)


def _moment(value: datetime.datetime | datetime.time) -> list[Any]:
    if value.tzinfo is not None:
        offset = value.tzinfo.utcoffset(None)
        if offset and abs(offset) < datetime.timedelta(seconds=1):  # which `fromisoformat` would take for UTC
            return [
                value.replace(tzinfo=None).isoformat(),
                value.fold,
                offset.days,
                offset.seconds,
                offset.microseconds,
            ]
    return [value.isoformat(), value.fold]


def _plain_zone(value: datetime.datetime | datetime.time) -> bool:
    return value.tzinfo is None or type(value.tzinfo) is datetime.timezone


_SEQUENCES: dict[type[Any], str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}
_SCALARS: dict[type[Any], Callable[[Any], dict[str, Any]]] = {
    bytes: lambda v: {"$bytes": base64.b64encode(v).decode("ascii")},
    bytearray: lambda v: {"$bytearray": base64.b64encode(v).decode("ascii")},
    complex: lambda v: {"$complex": [encode(v.real), encode(v.imag)]},
    decimal.Decimal: lambda v: {"$decimal": str(v)},
    fractions.Fraction: lambda v: {"$fraction": [encode(v.numerator), encode(v.denominator)]},
    range: lambda v: {"$range": [encode(v.start), encode(v.stop), encode(v.step)]},
    datetime.datetime: _datetime,
    datetime.date: lambda v: {"$date": v.isoformat()},
    datetime.time: _time,
    datetime.timedelta: lambda v: {"$timedelta": [v.days, v.seconds, v.microseconds]},
}


def decode(data: Any, depth: int = 0) -> Any:
    """The value that was encoded. Raises ValueError for anything `encode` does not write."""
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if depth > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    if isinstance(data, list):
        return _items(data, depth)
    if not isinstance(data, dict):
        raise ValueError(f"not an encoded value: {data!r}")
    if len(data) == 1:
        ((key, inner),) = data.items()
        if key.startswith("$"):
            return _decode_tagged(key, inner, depth)
    if any(key.startswith("$") for key in data):
        raise ValueError(f"a key that begins with $ stands beside others: {sorted(data)!r}")
    return {key: decode(item, depth + 1) for key, item in data.items()}


def _decode_tagged(tag: str, inner: Any, depth: int) -> Any:
    decoder = _DECODERS.get(tag)
    if decoder is None:
        raise ValueError(f"unknown value kind {tag}; known: {', '.join(sorted(_DECODERS))}")
    try:
        return decoder(inner, depth)
    except (TypeError, ValueError, LookupError, ArithmeticError) as exc:
        raise ValueError(f"{tag}: {exc}") from None


def _items(inner: Any, depth: int) -> list[Any]:
    if not isinstance(inner, list):
        raise TypeError(f"holds {type(inner).__name__}, not a list")
    return [decode(item, depth + 1) for item in inner]


def _pairs(inner: Any, depth: int) -> dict[Any, Any]:
    return {decode(key, depth + 1): decode(item, depth + 1) for key, item in inner}


def _two(inner: Any, depth: int) -> list[Any]:
    first, second = _items(inner, depth)
    return [first, second]


def _text(inner: Any) -> str:
    if not isinstance(inner, str):
        raise TypeError(f"holds {type(inner).__name__}, not a string")
    return inner


def _float(text: Any) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"$float holds nan, inf or -inf, not {text!r}")
    return float(text)


def _decode_datetime(inner: Any, depth: int) -> datetime.datetime:
    moment, fold, *offset = inner
    return _in_zone(datetime.datetime.fromisoformat(moment).replace(fold=fold), offset)


def _decode_time(inner: Any, depth: int) -> datetime.time:
    moment, fold, *offset = inner
    return _in_zone(datetime.time.fromisoformat(moment).replace(fold=fold), offset)


def _in_zone(value: Moment, offset: list[int]) -> Moment:
    return value.replace(tzinfo=datetime.timezone(datetime.timedelta(*offset))) if offset else value


_DECODERS: dict[str, Callable[[Any, int], Any]] = {
    "$int": lambda inner, depth: int(inner, 16),
    "$float": lambda inner, depth: _float(inner),
    "$tuple": lambda inner, depth: tuple(_items(inner, depth)),
    "$set": lambda inner, depth: set(_items(inner, depth)),
    "$frozenset": lambda inner, depth: frozenset(_items(inner, depth)),
    "$dict": _pairs,
    "$bytes": lambda inner, depth: base64.b64decode(inner, validate=True),
    "$bytearray": lambda inner, depth: bytearray(base64.b64decode(inner, validate=True)),
    "$complex": lambda inner, depth: complex(*_two(inner, depth)),
    "$decimal": lambda inner, depth: decimal.Decimal(_text(inner)),
    "$fraction": lambda inner, depth: fractions.Fraction(*_two(inner, depth)),
    "$range": lambda inner, depth: range(*_items(inner, depth)),
    "$datetime": _decode_datetime,
    "$date": lambda inner, depth: datetime.date.fromisoformat(inner),
    "$time": _decode_time,
    "$timedelta": lambda inner, depth: datetime.timedelta(*inner),
    "$object": lambda inner, depth: Opaque(_text(inner["type"]), _text(inner["repr"])),
}


def has_opaque(data: Any) -> bool:
    """Whether an encoded value holds something that has no encoding."""
    if isinstance(data, list):
        return any(has_opaque(item) for item in data)
    if isinstance(data, dict):
        return "$object" in data or any(has_opaque(item) for item in data.values())
    return False


def show(value: Any) -> str:
    """`repr`, also where Python prints none: an int of more than 4300 digits."""
    try:
        return repr(value)
    except ValueError:
        size = f"of {value.bit_length()} bits" if isinstance(value, int) else "with a number too long to print"
        return f"<{type(value).__name__} {size}>"
