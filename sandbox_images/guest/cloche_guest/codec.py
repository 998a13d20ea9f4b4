"""Values as JSON, exactly: what is decoded equals what was encoded, type by type. Format v1, described in docs/reference/codec.md.

A value is either plain JSON (None, bool, small int, finite float, str, list, dict with plain string keys) or an object with one
key that starts with `$`. Every value has exactly one encoding, so equal bytes mean equal values. Anything else is refused by
type name and by its path inside the value. Never pickle: decoding runs no code of the sender.

The same file runs on the host. There `decode` is called without `resolve`: enum members, dataclasses and named tuples of a
package stay `Opaque`, which encodes back to the same text; the host never imports package code.

`dataclasses`, `decimal`, `fractions` and `zoneinfo` are loaded with the first value that needs them: a cell's start would wait
for them, and most programs have no use for them.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fractions import Fraction

VERSION = 1
DEPTH = 100
"""Nesting of containers, at most."""

INLINE_INT = 2**53 - 1
"""Integers up to this size are JSON numbers; larger ones are hex text."""

_PATHS: dict[str, type[PurePath]] = {
    "PurePosixPath": PurePosixPath,
    "PureWindowsPath": PureWindowsPath,
    "PosixPath": PosixPath,
}

Resolve = Callable[[str], type]
"""Finds a package's class by `module:qualified.name`; raises CodecError when there is none of that kind."""


_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""One for all: `json.dumps` would make a new encoder for each of the dozen texts of a call."""


class CodecError(ValueError):
    """A value that has no encoding, or text that is no encoding; `path` says where inside the value, e.g. `$.rows[3].when`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class Opaque:
    """A package's own value on the host: its tag (`$enum`, `$flag`, `$data`, `$named`), class name and decoded payload.

    Compared and hashed by its canonical bytes, so that it can be a member of a set or a key.
    """

    __slots__ = ("name", "payload", "tag")

    def __init__(self, tag: str, name: str, payload: Any) -> None:
        self.tag: Final = tag
        self.name: Final = name
        self.payload: Final = payload

    def __hash__(self) -> int:
        return hash(canonical(_encode(self, "$", 0)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and canonical(_encode(self, "$", 0)) == canonical(_encode(other, "$", 0))

    def __repr__(self) -> str:
        return f"Opaque({self.tag!r}, {self.name!r}, {self.payload!r})"


def encode(value: Any) -> Any:
    """The JSON form of `value`; dicts keep their own order.

    Raises:
        CodecError: a type outside the list, a lone surrogate, a cycle or nesting past `DEPTH`.
    """
    return _encode(value, "$", 0)


def decode(encoded: Any, *, resolve: Resolve | None = None) -> Any:
    """The value of a JSON form made by `encode`.

    Raises:
        CodecError: not an encoding, not the one encoding of its value, or `resolve` refused a class name.
    """
    return _decode(encoded, "$", 0, resolve)


def check(encoded: Any) -> Any:
    """Decode without package classes and make sure that this is the one encoding of the value; returns the decoded value.

    Raises:
        CodecError: as `decode`, and when encoding again gives other bytes.
    """
    value = decode(encoded)
    if not _is_plain(encoded) and text(_encode(value, "$", 0)) != text(encoded):
        raise CodecError("$", "is not the canonical encoding of its value")
    return value


def _is_plain(encoded: Any) -> bool:
    """True for JSON without tags: once decoded it is known to be the one encoding of its value."""
    kind = type(encoded)
    if kind is dict:
        return all(not key.startswith("$") and _is_plain(item) for key, item in encoded.items())
    return kind is not list or all(map(_is_plain, encoded))


def text(encoded: Any) -> str:
    """JSON text of an encoded value for storage and transport: compact, UTF-8, dict order kept."""
    return _TEXT.encode(encoded)


def canonical(encoded: Any) -> bytes:
    """The bytes that digests are taken of: as `text`, with the entries of every dict ordered."""
    return text(_ordered(encoded)).encode()


def digest(encoded: Any) -> str:
    """SHA-256 of the canonical form, 64 hex digits."""
    return hashlib.sha256(canonical(encoded)).hexdigest()


def _ordered(encoded: Any) -> Any:
    if isinstance(encoded, list):
        return [_ordered(item) for item in encoded]
    if not isinstance(encoded, dict):
        return encoded
    if "$dict" in encoded:
        pairs = [[_ordered(key), _ordered(item)] for key, item in encoded["$dict"]]
        return {"$dict": sorted(pairs, key=lambda pair: text(pair[0]))}
    return {key: _ordered(encoded[key]) for key in sorted(encoded)}


# encoding


def _encode(value: Any, path: str, depth: int) -> Any:
    if depth > DEPTH:
        raise CodecError(path, f"is nested deeper than {DEPTH} (or contains itself)")
    kind = type(value)
    if value is None or kind is bool:
        return value
    scalar = _SCALARS.get(kind) or _late_scalar(kind)
    if scalar is not None:
        return scalar(value, path)
    if kind is list:
        return [_encode(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if kind is dict:
        return _encode_dict(value, path, depth)
    if kind is tuple:
        return {"$tuple": [_encode(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]}
    if kind is set or kind is frozenset:
        items = sorted((_encode(item, f"{path}{{}}", depth + 1) for item in value), key=canonical)
        return {"$set" if kind is set else "$frozenset": items}
    if isinstance(value, Opaque):
        return {value.tag: [value.name, _encode_payload(value, path, depth)]}
    return _encode_package_value(value, kind, path, depth)


def _encode_dict(value: dict[Any, Any], path: str, depth: int) -> Any:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {_string(key, path): _encode(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
    pairs = []
    for key, item in value.items():
        at = f"{path}[{key!r:.40}]" if type(key) in (str, int, bool, float) or key is None else f"{path}[…]"
        pairs.append([_encode(key, f"{at}(key)", depth + 1), _encode(item, at, depth + 1)])
    return {"$dict": pairs}


def _encode_payload(value: Opaque, path: str, depth: int) -> Any:
    if value.tag == "$data":
        return {name: _encode(item, f"{path}.{name}", depth + 1) for name, item in value.payload.items()}
    if value.tag == "$named":
        return [_encode(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value.payload)]
    return _encode(value.payload, path, depth + 1)


def _encode_package_value(value: Any, kind: type, path: str, depth: int) -> Any:
    name = f"{kind.__module__}:{kind.__qualname__}"
    if kind.__module__.startswith("workflows.") and "<locals>" not in kind.__qualname__:
        if isinstance(value, enum.Flag):
            return {"$flag": [name, _encode(value.value, path, depth + 1)]}
        if isinstance(value, enum.Enum):
            return {"$enum": [name, value.name]}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {
                "$named": [
                    name,
                    [_encode(item, f"{path}.{f}", depth + 1) for f, item in zip(kind._fields, value, strict=True)],
                ]
            }
        if hasattr(kind, "__dataclass_fields__"):
            return {"$data": [name, _encode_fields(value, path, depth)]}
    raise CodecError(path, f"{name.replace(':', '.')} cannot be recorded")


def _encode_fields(value: Any, path: str, depth: int) -> dict[str, Any]:
    names = _field_names(value)
    extra = set(getattr(value, "__dict__", ())) - set(names)
    if extra:
        raise CodecError(path, f"carries attributes that are no fields: {', '.join(sorted(extra))}")
    return {name: _encode(getattr(value, name), f"{path}.{name}", depth + 1) for name in names}


def _field_names(kind: Any) -> list[str]:
    import dataclasses

    return [field.name for field in dataclasses.fields(kind)]


def _string(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CodecError(path, "contains a lone surrogate") from None
    return value


def _int(value: int, _path: str) -> Any:
    return value if -INLINE_INT <= value <= INLINE_INT else {"$int": hex(value)}


def _float(value: float, _path: str) -> Any:
    return value if math.isfinite(value) else {"$float": repr(value)}


def _datetime(value: datetime, path: str) -> Any:
    return {"$datetime": [value.replace(tzinfo=None, fold=0).isoformat(), _zone(value.tzinfo, path), value.fold]}


def _time(value: time, path: str) -> Any:
    return {"$time": [value.replace(tzinfo=None, fold=0).isoformat(), _zone(value.tzinfo, path), value.fold]}


def _zone(zone: tzinfo | None, path: str) -> Any:
    if zone is None:
        return None
    if type(zone) is timezone:
        offset = zone.utcoffset(None) // timedelta(microseconds=1)
        arguments = zone.__getinitargs__()  # type: ignore[attr-defined]
        return {"$timezone": [offset, _string(arguments[1], path) if len(arguments) > 1 else None]}
    if _late_scalar(type(zone)) is _zone and getattr(zone, "key", None) is not None:
        return {"$zone": zone.key}  # type: ignore[attr-defined]
    raise CodecError(path, f"time zone {type(zone).__module__}.{type(zone).__qualname__} cannot be recorded")


_SCALARS: dict[type, Callable[[Any, str], Any]] = {
    str: _string,
    int: _int,
    float: _float,
    bytes: lambda value, _: {"$bytes": base64.b64encode(value).decode()},
    datetime: _datetime,
    time: _time,
    date: lambda value, _: {"$date": value.isoformat()},
    timedelta: lambda value, _: {"$timedelta": [value.days, value.seconds, value.microseconds]},
    timezone: _zone,
    **{
        kind: (lambda value, path, name=name: {"$path": [name, _string(str(value), path)]})  # type: ignore[misc]
        for name, kind in _PATHS.items()
    },
}

_LATE: dict[tuple[str, str], Callable[[Any, str], Any]] = {
    ("decimal", "Decimal"): lambda value, _: {"$decimal": str(value)},
    ("fractions", "Fraction"): lambda value, path: {
        "$fraction": [_int(value.numerator, path), _int(value.denominator, path)]
    },
    ("zoneinfo", "ZoneInfo"): _zone,
}
"""By module and name: whoever has such a value has loaded the module."""


def _late_scalar(kind: type) -> Callable[[Any, str], Any] | None:
    named = (kind.__module__, kind.__qualname__)
    return _LATE.get(named) if kind is getattr(sys.modules.get(named[0]), named[1], None) else None


# decoding


def _decode(encoded: Any, path: str, depth: int, resolve: Resolve | None) -> Any:
    if depth > DEPTH:
        raise CodecError(path, f"is nested deeper than {DEPTH}")
    kind = type(encoded)
    if encoded is None or kind is bool or kind is str:
        return encoded if kind is not str else _string(encoded, path)
    if kind is int:
        if not -INLINE_INT <= encoded <= INLINE_INT:
            raise CodecError(path, "an integer of this size is written as $int")
        return encoded
    if kind is float:
        if not math.isfinite(encoded):
            raise CodecError(path, "a float that is not finite is written as $float")
        return encoded
    if kind is list:
        return [_decode(item, f"{path}[{i}]", depth + 1, resolve) for i, item in enumerate(encoded)]
    if kind is not dict:
        raise CodecError(path, f"{kind.__qualname__} is no JSON value")
    tag = next((key for key in encoded if key.startswith("$")), None)
    if tag is None:
        return {_string(key, path): _decode(item, f"{path}.{key}", depth + 1, resolve) for key, item in encoded.items()}
    if len(encoded) != 1:
        raise CodecError(path, f"{tag} stands beside other keys")
    return _decode_tagged(tag, encoded[tag], path, depth, resolve)


def _decode_tagged(tag: str, body: Any, path: str, depth: int, resolve: Resolve | None) -> Any:
    try:
        if tag in _TAGGED_SCALARS:
            return _TAGGED_SCALARS[tag](body)
        if tag == "$tuple":
            return tuple(_items(body, path, depth, resolve))
        if tag == "$set":
            return set(_unique(_items(body, path, depth, resolve), path))
        if tag == "$frozenset":
            return frozenset(_unique(_items(body, path, depth, resolve), path))
        if tag == "$dict":
            return _decode_pairs(body, path, depth, resolve)
        if tag in ("$enum", "$flag", "$data", "$named"):
            return _decode_package_value(tag, body, path, depth, resolve)
    except CodecError:
        raise
    except (TypeError, ValueError, KeyError, ArithmeticError, binascii.Error) as error:
        raise CodecError(path, f"{tag} does not hold what it must: {type(error).__name__}") from error
    raise CodecError(path, f"unknown tag {tag[:40]}")


def _items(body: Any, path: str, depth: int, resolve: Resolve | None) -> Iterator[Any]:
    if type(body) is not list:
        raise CodecError(path, "a list is expected")
    return (_decode(item, f"{path}[{i}]", depth + 1, resolve) for i, item in enumerate(body))


def _unique(items: Iterator[Any], path: str) -> list[Any]:
    listed = list(items)
    if len(set(listed)) != len(listed):
        raise CodecError(path, "holds equal members")
    return listed


def _decode_pairs(body: Any, path: str, depth: int, resolve: Resolve | None) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for i, (key, item) in enumerate(body):
        decoded = _decode(key, f"{path}[{i}](key)", depth + 1, resolve)
        if decoded in found:
            raise CodecError(path, "holds equal keys")
        found[decoded] = _decode(item, f"{path}[{i}]", depth + 1, resolve)
    return found


def _decode_package_value(tag: str, body: Any, path: str, depth: int, resolve: Resolve | None) -> Any:
    name, raw = body
    if type(name) is not str or not name.startswith("workflows.") or name.count(":") != 1:
        raise CodecError(path, f"{tag} does not name a class of a package")
    payload: Any
    if tag == "$data":
        payload = {_string(key, path): _decode(item, f"{path}.{key}", depth + 1, resolve) for key, item in raw.items()}
    elif tag == "$named":
        payload = list(_items(raw, path, depth, resolve))
    else:
        payload = _decode(raw, path, depth + 1, resolve)
    if resolve is None:
        return Opaque(tag, name, payload)
    return _build(tag, resolve(name), payload, path)


def _build(tag: str, kind: type, payload: Any, path: str) -> Any:
    if tag == "$enum" and issubclass(kind, enum.Enum):
        return kind[payload]
    if tag == "$flag" and issubclass(kind, enum.Flag):
        return kind(payload)
    if tag == "$named" and issubclass(kind, tuple) and hasattr(kind, "_make"):
        return kind._make(payload)
    if tag == "$data" and hasattr(kind, "__dataclass_fields__"):
        if set(payload) != set(_field_names(kind)):
            raise CodecError(path, f"{kind.__qualname__} has other fields now")
        made: Any = object.__new__(kind)
        for name, item in payload.items():
            object.__setattr__(made, name, item)
        return made
    raise CodecError(path, f"{kind.__module__}.{kind.__qualname__} is not what {tag} names")


def _decode_zone(body: Any) -> tzinfo | None:
    if body is None:
        return None
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
    return timezone(delta) if name is None else timezone(delta, name)


def _decode_datetime(body: Any) -> datetime:
    stamp, zone, fold = body
    return datetime.fromisoformat(stamp).replace(tzinfo=_decode_zone(zone), fold=fold)


def _decode_time(body: Any) -> time:
    stamp, zone, fold = body
    return time.fromisoformat(stamp).replace(tzinfo=_decode_zone(zone), fold=fold)


def _decode_int(body: Any) -> int:
    value = int(body, 16)
    if hex(value) != body or -INLINE_INT <= value <= INLINE_INT:
        raise ValueError("not the one spelling")
    return value


def _decode_decimal(body: Any) -> Any:
    from decimal import Decimal

    return Decimal(body)


def _decode_fraction(body: Any) -> Fraction:
    from fractions import Fraction

    numerator, denominator = (part if type(part) is int else _decode_int(part["$int"]) for part in body)
    return Fraction(numerator, denominator)


_TAGGED_SCALARS: dict[str, Callable[[Any], Any]] = {
    "$int": _decode_int,
    "$float": lambda body: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[body],
    "$bytes": lambda body: base64.b64decode(body, validate=True),
    "$decimal": _decode_decimal,
    "$fraction": _decode_fraction,
    "$datetime": _decode_datetime,
    "$time": _decode_time,
    "$date": date.fromisoformat,
    "$timedelta": lambda body: timedelta(days=body[0], seconds=body[1], microseconds=body[2]),
    "$zone": _decode_zone_info,
    "$timezone": _decode_timezone,
    "$path": lambda body: _PATHS[body[0]](body[1]),
}
