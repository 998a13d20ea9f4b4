"""Values without parts, both ways: text, numbers, bytes, times, zones and paths. Their tags stand in docs/reference/codec.md.

`decimal`, `fractions` and `zoneinfo` are loaded with the first value that needs them: a cell's start would wait for them, and
most programs have no use for them.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from cloche_guest.codec_classes import names
from cloche_guest.codec_refusal import Refused

if TYPE_CHECKING:
    from fractions import Fraction

INLINE_INT = 2**53 - 1
"""Integers up to this size are JSON numbers; larger ones are hex text."""

FRACTION_BITS = 2**17
"""Numerator and denominator of a Fraction, at most: proving that two numbers share no factor takes time by their square."""

_PATHS: dict[str, type[PurePath]] = {
    "PurePosixPath": PurePosixPath,
    "PureWindowsPath": PureWindowsPath,
    "PosixPath": PosixPath,
}


def string(value: Any) -> str:
    """The text itself.

    Raises:
        Refused: it is none, or cannot be written as UTF-8.
    """
    if type(value) is not str:
        raise Refused("a string is expected")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused("contains a lone surrogate") from None
    return value


def _int(value: int) -> Any:
    return value if -INLINE_INT <= value <= INLINE_INT else {"$int": hex(value)}


def _float(value: float) -> Any:
    return value if math.isfinite(value) else {"$float": repr(value)}


def _bytes(value: bytes) -> Any:
    return {"$bytes": base64.b64encode(value).decode()}


def _datetime(value: datetime) -> Any:
    return {"$datetime": [value.replace(tzinfo=None, fold=0).isoformat(), _zone(value.tzinfo), value.fold]}


def _time(value: time) -> Any:
    return {"$time": [value.replace(tzinfo=None, fold=0).isoformat(), _zone(value.tzinfo), value.fold]}


def _date(value: date) -> Any:
    return {"$date": value.isoformat()}


def _timedelta(value: timedelta) -> Any:
    return {"$timedelta": [value.days, value.seconds, value.microseconds]}


def _zone(zone: tzinfo | None) -> Any:
    if zone is None:
        return None
    if type(zone) is timezone:
        offset = zone.utcoffset(None) // timedelta(microseconds=1)
        arguments = zone.__getinitargs__()  # type: ignore[attr-defined]
        return {"$timezone": [offset, string(arguments[1]) if len(arguments) > 1 else None]}
    if late_scalar(type(zone)) is _zone:
        return _zone_info(zone)
    raise Refused(f"time zone {'.'.join(names(type(zone)))} cannot be recorded")


def _zone_info(zone: Any) -> Any:
    # One that was made aside (from_file, no_cache) may have other rules, and differs from its namesake in comparisons.
    if zone.key is None or type(zone)(zone.key) is not zone:
        raise Refused("a time zone that ZoneInfo(key) does not give cannot be recorded")
    return {"$zone": zone.key}


def _path(value: PurePath) -> Any:
    name, spelled = type(value).__name__, str(value)
    if name == "PureWindowsPath" and PureWindowsPath(spelled).parts != value.parts:
        raise Refused(f"{spelled[:40]!a} reads as another path than this one")
    return {"$path": [name, string(spelled)]}


def _decimal(value: Any) -> Any:
    return {"$decimal": str(value).replace("e", "E")}  # the program's context may ask for small letters


def _fraction(value: Fraction) -> Any:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > FRACTION_BITS:
        raise Refused(f"a Fraction has at most {FRACTION_BITS} bits above and below the line")
    return {"$fraction": [_int(value.numerator), _int(value.denominator)]}


SCALARS: dict[int, Callable[[Any], Any]] = {
    id(int): _int,
    id(float): _float,
    id(bytes): _bytes,
    id(datetime): _datetime,
    id(time): _time,
    id(date): _date,
    id(timedelta): _timedelta,
    id(timezone): _zone,
    **{id(kind): _path for kind in _PATHS.values()},
}
"""By identity: a class may make its own hash and equality, these types live as long as the process."""

_LATE: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("decimal", "Decimal", _decimal),
    ("fractions", "Fraction", _fraction),
    ("zoneinfo", "ZoneInfo", _zone),
)
"""By module and name: whoever has such a value has loaded the module."""


def late_scalar(kind: type) -> Callable[[Any], Any] | None:
    """What encodes a value of a type that is not loaded everywhere; None for all others."""
    for module, name, encoder in _LATE:
        if kind is getattr(sys.modules.get(module), name, None):
            return encoder
    return None


def _decode_zone(body: Any) -> tzinfo | None:
    if body is None:
        return None
    if type(body) is not dict or len(body) != 1:
        raise ValueError("no zone")
    ((tag, inner),) = body.items()
    if tag == "$zone":
        return _decode_zone_info(inner)
    if tag != "$timezone":
        raise ValueError(tag)
    return _decode_timezone(inner)


def _decode_zone_info(key: Any) -> tzinfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(key)


def _decode_timezone(inner: Any) -> timezone:
    offset, name = inner
    delta = timedelta(microseconds=offset)
    return timezone(delta) if name is None else timezone(delta, string(name))


def _decode_datetime(body: Any) -> datetime:
    stamp, zone, fold = body
    return datetime.fromisoformat(stamp).replace(tzinfo=_decode_zone(zone), fold=fold)


def _decode_time(body: Any) -> time:
    stamp, zone, fold = body
    return time.fromisoformat(stamp).replace(tzinfo=_decode_zone(zone), fold=fold)


def _decode_timedelta(body: Any) -> timedelta:
    days, seconds, microseconds = body
    return timedelta(days=days, seconds=seconds, microseconds=microseconds)


def _decode_path(body: Any) -> PurePath:
    name, spelled = body
    return _PATHS[name](string(spelled))


def _decode_int(body: Any) -> int:
    value = int(body, 16)
    if hex(value) != body or -INLINE_INT <= value <= INLINE_INT:
        raise ValueError("not the one spelling")
    return value


def _decode_decimal(body: Any) -> Any:
    from decimal import Decimal

    return Decimal(string(body))


def _decode_fraction(body: Any) -> Fraction:
    from fractions import Fraction

    numerator, denominator = (part if type(part) is int else _decode_int(part["$int"]) for part in body)
    if max(numerator.bit_length(), denominator.bit_length()) > FRACTION_BITS:
        raise ValueError("too long")
    return Fraction(numerator, denominator)


TAGGED_SCALARS: dict[str, Callable[[Any], Any]] = {
    "$int": _decode_int,
    "$float": lambda body: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[body],
    "$bytes": lambda body: base64.b64decode(body, validate=True),
    "$decimal": _decode_decimal,
    "$fraction": _decode_fraction,
    "$datetime": _decode_datetime,
    "$time": _decode_time,
    "$date": date.fromisoformat,
    "$timedelta": _decode_timedelta,
    "$zone": _decode_zone_info,
    "$timezone": _decode_timezone,
    "$path": _decode_path,
}
