"""Single values of plain kinds, apart from those that JSON has: how each is written, and how it is read.

Written, one is `["tag", ...]`, and the tag says how to read it. Of the modules that define such
kinds only those are imported that a job uses: a value of one can exist only where its module
does, and where one is read it is imported then.
"""

from __future__ import annotations

import struct
import sys

from .light import from_base64, to_base64

TYPE_CHECKING = False

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable
    from typing import Any

    Encoder = Callable[[Any], "list[Any] | None"]


def encoder_of(kind: type[Any]) -> Encoder | None:
    """What writes values of exactly this type; None for a type that is not plain. It may give None for a value."""
    found = _ENCODERS.get(kind)
    if found is None and _UNLEARNT:
        module = getattr(kind, "__module__", None)
        top = module.partition(".")[0] if type(module) is str else ""
        if top in _UNLEARNT and top in sys.modules:
            _ENCODERS.update(_UNLEARNT.pop(top)(sys.modules[top]))
            found = _ENCODERS.get(kind)
    return found


_ENCODERS: dict[type[Any], Encoder] = {
    bytes: lambda v: ["b", to_base64(v)],
    complex: lambda v: ["z", struct.pack(">d", v.real).hex(), struct.pack(">d", v.imag).hex()],
    range: lambda v: ["range", hex(v.start), hex(v.stop), hex(v.step)],
    type(Ellipsis): lambda v: ["..."],
    type(NotImplemented): lambda v: ["notimplemented"],
}

PATHS = ("PosixPath", "PurePosixPath", "PureWindowsPath")

_UNLEARNT: dict[str, Callable[[Any], dict[type[Any], Encoder]]] = {
    "datetime": lambda module: {
        module.datetime: _datetime,
        module.date: lambda v: ["date", v.toordinal()],
        module.time: _time,
        module.timedelta: lambda v: ["delta", v.days, v.seconds, v.microseconds],
        module.timezone: _timezone,
    },
    "decimal": lambda module: {module.Decimal: lambda v: ["decimal", str(v)]},
    "fractions": lambda module: {module.Fraction: lambda v: ["fraction", hex(v.numerator), hex(v.denominator)]},
    "pathlib": lambda module: {
        getattr(module, name): lambda v: ["path", type(v).__name__, str(v)] for name in PATHS if hasattr(module, name)
    },
    "zoneinfo": lambda module: {module.ZoneInfo: lambda v: None if v.key is None else ["zone", v.key]},
    "uuid": lambda module: {module.UUID: lambda v: ["uuid", v.hex]},
}


def _zone(value: Any) -> Any:
    """A time zone that is plain data; None if it has none, and 0 if it cannot cross."""
    zone = value.tzinfo
    if zone is None:
        return None
    if type(zone) is sys.modules["datetime"].timezone:
        return _timezone(zone)[1:]
    named = sys.modules.get("zoneinfo")
    return (zone.key or 0) if named is not None and type(zone) is named.ZoneInfo else 0


def _timezone(value: datetime.timezone) -> list[Any]:
    offset, name = value.utcoffset(None), value.tzname(None)
    default = type(value)(offset).tzname(None)
    return ["tz", offset.days, offset.seconds, offset.microseconds, None if name == default else name]


def _datetime(v: datetime.datetime) -> list[Any] | None:
    zone = _zone(v)
    parts = [v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond]
    return None if zone == 0 else ["datetime", parts, zone, v.fold]


def _time(v: datetime.time) -> list[Any] | None:
    zone = _zone(v)
    return None if zone == 0 else ["time", [v.hour, v.minute, v.second, v.microsecond], zone, v.fold]


# --- reading ------------------------------------------------------------------


def text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{type(value).__name__} where a text was expected")
    return value


def data(value: Any) -> bytes:
    return from_base64(text(value))


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} where a number was expected")
    return value


def _hex(value: Any) -> int:
    return int(text(value), 16)


def _bits(value: Any) -> float:
    (number,) = struct.unpack(">d", bytes.fromhex(text(value)))
    return float(number)


def _read_decimal(value: Any) -> Any:
    import decimal

    return decimal.Decimal(text(value))


def _read_fraction(above: Any, below: Any) -> Any:
    import fractions

    return fractions.Fraction(_hex(above), _hex(below))


def _read_zone(parts: Any) -> Any:
    import datetime

    if parts is None:
        return None
    if type(parts) is str:
        return _read_named_zone(parts)
    days, seconds, microseconds, name = parts
    offset = datetime.timedelta(_int(days), _int(seconds), _int(microseconds))
    return datetime.timezone(offset) if name is None else datetime.timezone(offset, text(name))


def _read_named_zone(key: Any) -> Any:
    import zoneinfo

    return zoneinfo.ZoneInfo(text(key))


def _read_datetime(parts: Any, zone: Any, fold: Any) -> Any:
    import datetime

    return datetime.datetime(*[_int(part) for part in parts], tzinfo=_read_zone(zone), fold=_int(fold))  # type: ignore[arg-type,misc]


def _read_time(parts: Any, zone: Any, fold: Any) -> Any:
    import datetime

    return datetime.time(*[_int(part) for part in parts], tzinfo=_read_zone(zone), fold=_int(fold))  # type: ignore[arg-type,misc]


def _read_date(number: Any) -> Any:
    import datetime

    return datetime.date.fromordinal(_int(number))


def _read_delta(*parts: Any) -> Any:
    import datetime

    return datetime.timedelta(*parts)


def _read_uuid(value: Any) -> Any:
    import uuid

    return uuid.UUID(hex=text(value))


def _read_path(kind: Any, value: Any) -> Any:
    import pathlib

    if kind not in PATHS:
        raise LookupError(kind)
    return getattr(pathlib, kind)(text(value))


READERS: dict[str, Callable[..., Any]] = {
    "i": _hex,
    "u": lambda value: bytes.fromhex(text(value)).decode("utf-8", "surrogatepass"),
    "b": data,
    "z": lambda real, imag: complex(_bits(real), _bits(imag)),
    "decimal": _read_decimal,
    "fraction": _read_fraction,
    "range": lambda *parts: range(*map(_hex, parts)),
    "datetime": _read_datetime,
    "date": _read_date,
    "time": _read_time,
    "delta": _read_delta,
    "tz": lambda *parts: _read_zone(parts),
    "zone": _read_named_zone,
    "uuid": _read_uuid,
    "...": lambda: Ellipsis,
    "notimplemented": lambda: NotImplemented,
    "path": _read_path,
}
