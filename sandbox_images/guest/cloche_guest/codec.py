"""Values as JSON, exactly: what is decoded equals what was encoded, type by type. Format v1, described in docs/reference/codec.md.

A value is either plain JSON (None, bool, small int, finite float, str, list, dict with plain string keys) or an object with one
key that starts with `$`. Every value has exactly one encoding, so equal bytes mean equal values. Anything else is refused by
type name and by its path inside the value. Never pickle: decoding runs no code of the sender.

Types are told by identity and what they hold is read past their own methods, so that a class which lies about itself, or raises
when it is asked, is refused like any other. The path of a refused value is put together while the refusal travels up; values that
are fine pay nothing for it.

The same file runs on the host. There `decode` is called without `resolve`: enum members, dataclasses and named tuples of a
package stay `Opaque`, which encodes back to the same text; the host never imports package code.

`dataclasses`, `decimal`, `fractions` and `zoneinfo` are loaded with the first value that needs them: a cell's start would wait
for them, and most programs have no use for them.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import itertools
import json
import math
import sys
from collections.abc import Callable
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

FRACTION_BITS = 2**17
"""Numerator and denominator of a Fraction, at most: proving that two numbers share no factor takes time by their square."""

COLLISIONS = 100
"""Members of one set or keys of one dict that may have the hash of another one, on the host: each costs a comparison with all."""

_PATHS: dict[str, type[PurePath]] = {
    "PurePosixPath": PurePosixPath,
    "PureWindowsPath": PureWindowsPath,
    "PosixPath": PosixPath,
}

Resolve = Callable[[str], type]
"""Finds a package's class by `module:qualified.name`; raises CodecError when there is none of that kind."""


_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""One for all: `json.dumps` would make a new encoder for each of the dozen texts of a call."""

_SORTED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


class CodecError(ValueError):
    """A value that has no encoding, or text that is no encoding; `path` says where inside the value, e.g. `$.rows[3].when`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class _Refused(Exception):
    """A CodecError on its way up; `within` grows by one step of the path at every level, innermost first."""

    def __init__(self, problem: str, step: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.within = [step]

    def located(self) -> CodecError:
        return CodecError("$" + "".join(reversed(self.within)), self.problem)


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
        return hash(canonical(encode(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and canonical(encode(self)) == canonical(encode(other))

    def __repr__(self) -> str:
        return f"Opaque({self.tag!r}, {self.name!r}, {self.payload!r})"


def encode(value: Any) -> Any:
    """The JSON form of `value`; dicts keep their own order.

    Raises:
        CodecError: a type outside the list, a lone surrogate, a cycle or nesting past `DEPTH`.
    """
    try:
        return _encode(value, 0)
    except _Refused as refused:
        raise refused.located() from None


def decode(encoded: Any, *, resolve: Resolve | None = None) -> Any:
    """The value of a JSON form made by `encode`.

    Raises:
        CodecError: not an encoding, or `resolve` refused a class name.
    """
    try:
        return _decode(encoded, 0, resolve)
    except _Refused as refused:
        raise refused.located() from refused.__cause__


def check(encoded: Any) -> Any:
    """Decode without package classes and make sure that this is the one encoding of the value; returns the decoded value.

    Raises:
        CodecError: as `decode`, and when encoding again gives other bytes.
    """
    value = decode(encoded)
    if not _is_plain(encoded) and text(encode(value)) != text(encoded):
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
    found = _SORTED.encode(encoded)
    # Quotes inside of strings are escaped, so this is never part of one.
    return (text(_ordered(encoded)) if '"$dict"' in found else found).encode()


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


def _encode(value: Any, depth: int) -> Any:
    if depth > DEPTH:
        raise _Refused(f"is nested deeper than {DEPTH} (or contains itself)")
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _string(value)
    if value is None or kind is bool:
        return value
    scalar = _SCALARS.get(id(kind))
    if scalar is not None:
        return scalar(value)
    if kind is dict:
        return _encode_dict(value, depth)
    if kind is list:
        return _encode_items(value, depth)
    if kind is tuple:
        return {"$tuple": _encode_items(value, depth)}
    if kind is set or kind is frozenset:
        return {"$set" if kind is set else "$frozenset": _encode_members(value, depth)}
    if kind is Opaque:
        return {value.tag: [value.name, _encode_payload(value, depth)]}
    late = _late_scalar(kind)
    return late(value) if late is not None else _encode_package_value(value, kind, depth)


def _encode_items(items: Any, depth: int) -> list[Any]:
    found: list[Any] = []
    try:
        for item in items:
            found.append(_encode(item, depth + 1))
    except _Refused as refused:
        refused.within.append(f"[{len(found)}]")
        raise
    return found


def _encode_dict(value: dict[Any, Any], depth: int) -> Any:
    for key in value:
        if type(key) is not str or key.startswith("$"):
            return _encode_pairs(value, depth)
        if not key.isascii():
            _string(key)
    return _encode_named(value, depth)


def _encode_named(items: dict[str, Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    name = ""
    try:
        for name, item in items.items():
            found[name] = _encode(item, depth + 1)
    except _Refused as refused:
        refused.within.append(_step(name))
        raise
    return found


def _encode_pairs(value: dict[Any, Any], depth: int) -> Any:
    pairs: list[list[Any]] = []
    key, in_key = None, True
    try:
        for key, item in value.items():
            in_key = True
            encoded = _encode(key, depth + 1)
            in_key = False
            pairs.append([encoded, _encode(item, depth + 1)])
    except _Refused as refused:
        refused.within.append(f"{_step(key)}{'(key)' if in_key else ''}")
        raise
    if len({canonical(key) for key, _ in pairs}) != len(pairs):
        raise _Refused("has keys that are different objects with one and the same record")
    return {"$dict": pairs}


def _encode_members(value: Any, depth: int) -> list[Any]:
    try:
        members = [_encode(item, depth + 1) for item in value]
    except _Refused as refused:
        refused.within.append("{}")
        raise
    keyed = sorted(((canonical(member), member) for member in members), key=lambda pair: pair[0])
    if any(one[0] == other[0] for one, other in itertools.pairwise(keyed)):
        raise _Refused("has members that are different objects with one and the same record")
    return [member for _, member in keyed]


def _encode_payload(value: Opaque, depth: int) -> Any:
    if value.tag == "$data":
        return _encode_named(value.payload, depth)
    if value.tag == "$named":
        return _encode_items(value.payload, depth)
    return _encode(value.payload, depth + 1)


def _step(key: Any) -> str:
    """A key as a step of a path, in printable ASCII and short: `.rows`, `['two words']`, `[7]`, `[…]` for what is no scalar."""
    kind = type(key)
    if kind is str:
        return f".{key}" if key.isascii() and key.isidentifier() and len(key) <= 40 else f"[{key[:40]!a}]"
    if kind is int and not -INLINE_INT <= key <= INLINE_INT:
        return "[…]"  # Python refuses to write very long ones
    return f"[{key!r}]" if key is None or kind is int or kind is bool or kind is float else "[…]"


def _string(value: Any) -> str:
    if type(value) is not str:
        raise _Refused("a string is expected")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Refused("contains a lone surrogate") from None
    return value


# values of a package


def _encode_package_value(value: Any, kind: type, depth: int) -> Any:
    module, name = _names(kind)
    full = f"{module}:{name}"
    if not _is_class_name(full) or not _is_found(kind, module, name):
        told = name if module == "builtins" else f"{module}.{name}"
        raise _Refused(f"{ascii(told[:200])[1:-1]} cannot be recorded")
    if issubclass(kind, enum.Enum):
        return _encode_member(value, kind, full, depth)
    if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        return {"$named": [full, _encode_named_tuple(value, kind, depth)]}
    if "__dataclass_fields__" in _attributes(kind) and _is_made_by_object(kind):
        return {"$data": [full, _encode_named(_fields(value, kind), depth)]}
    raise _Refused(f"{module}.{name} cannot be recorded: it is no Enum, dataclass or NamedTuple")


def _names(kind: type) -> tuple[str, str]:
    """Module and qualified name, as they stand in the class, whatever its metaclass says."""
    module = type.__dict__["__module__"].__get__(kind)
    return module if type(module) is str else "?", type.__dict__["__qualname__"].__get__(kind)


def _is_class_name(name: str) -> bool:
    module, _, qualified = name.partition(":")
    parts = (*module.split("."), *qualified.split("."))
    return parts[0] == "workflows" and len(parts) > 2 and all(part.isidentifier() for part in parts)


def _is_found(kind: type, module: str, name: str) -> bool:
    """True when decoding will find this very class by its name."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found is kind


def _attributes(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in base.__dict__}


def _is_made_by_object(kind: type) -> bool:
    """False for a class whose instances are also a list, an exception or another thing with a content of its own."""
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True


def _encode_member(value: Any, kind: Any, name: str, depth: int) -> Any:
    if issubclass(kind, enum.Flag):
        if type(value._value_) is not int:
            raise _Refused(f"a flag with the value {type(value._value_).__name__} cannot be recorded")
        return {"$flag": [name, _encode(value._value_, depth + 1)]}
    if kind._member_map_.get(value._name_) is not value:
        raise _Refused("is no member of its Enum under its own name")
    return {"$enum": [name, _string(value._name_)]}


def _encode_named_tuple(value: Any, kind: Any, depth: int) -> list[Any]:
    items, names = list(tuple.__iter__(value)), kind._fields
    extra = getattr(value, "__dict__", {})
    if len(items) != len(names) or extra:
        raise _Refused(f"carries other than its fields: {', '.join(sorted(map(str, extra))) or len(items)}")
    return list(_encode_named(dict(zip(names, items, strict=True)), depth).values())


def _fields(value: Any, kind: type) -> dict[str, Any]:
    """What the fields of a dataclass instance hold, in their order; nothing else may be there."""
    names = _field_names(kind)
    state = object.__getstate__(value)
    parts = state if type(state) is tuple else (state,)
    held: dict[str, Any] = {}
    for part in parts:
        held |= part or {}
    extra = held.keys() - set(names)
    if extra:
        raise _Refused(f"carries attributes that are no fields: {', '.join(sorted(map(ascii, extra)))}")
    missing = [name for name in names if name not in held]
    for name in missing:  # a default of the class that no instance overrides
        default = next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), _ABSENT)
        if default is _ABSENT or hasattr(type(default), "__get__"):
            raise _Refused("this field is not set", _step(name))
        held[name] = default
    return {name: held[name] for name in names}


_ABSENT = object()


def _field_names(kind: Any) -> list[str]:
    import dataclasses

    return [field.name for field in dataclasses.fields(kind)]


# scalars


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
        return {"$timezone": [offset, _string(arguments[1]) if len(arguments) > 1 else None]}
    if _late_scalar(type(zone)) is _zone:
        return _zone_info(zone)
    raise _Refused(f"time zone {'.'.join(_names(type(zone)))} cannot be recorded")


def _zone_info(zone: Any) -> Any:
    # One that was made aside (from_file, no_cache) may have other rules, and differs from its namesake in comparisons.
    if zone.key is None or type(zone)(zone.key) is not zone:
        raise _Refused("a time zone that ZoneInfo(key) does not give cannot be recorded")
    return {"$zone": zone.key}


def _path(value: PurePath) -> Any:
    name, spelled = type(value).__name__, str(value)
    if name == "PureWindowsPath" and PureWindowsPath(spelled).parts != value.parts:
        raise _Refused(f"{spelled[:40]!a} reads as another path than this one")
    return {"$path": [name, _string(spelled)]}


def _decimal(value: Any) -> Any:
    return {"$decimal": str(value).replace("e", "E")}  # the program's context may ask for small letters


def _fraction(value: Fraction) -> Any:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > FRACTION_BITS:
        raise _Refused(f"a Fraction has at most {FRACTION_BITS} bits above and below the line")
    return {"$fraction": [_int(value.numerator), _int(value.denominator)]}


_SCALARS: dict[int, Callable[[Any], Any]] = {
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


def _late_scalar(kind: type) -> Callable[[Any], Any] | None:
    for module, name, encoder in _LATE:
        if kind is getattr(sys.modules.get(module), name, None):
            return encoder
    return None


# decoding


def _decode(encoded: Any, depth: int, resolve: Resolve | None) -> Any:
    if depth > DEPTH:
        raise _Refused(f"is nested deeper than {DEPTH}")
    kind = type(encoded)
    if kind is str:
        return encoded if encoded.isascii() else _string(encoded)
    if encoded is None or kind is bool:
        return encoded
    if kind is int:
        if not -INLINE_INT <= encoded <= INLINE_INT:
            raise _Refused("an integer of this size is written as $int")
        return encoded
    if kind is float:
        if not math.isfinite(encoded):
            raise _Refused("a float that is not finite is written as $float")
        return encoded
    if kind is list:
        return _decode_items(encoded, depth, resolve)
    if kind is not dict:
        raise _Refused(f"{kind.__qualname__} is no JSON value")
    if len(encoded) == 1:
        ((tag, body),) = encoded.items()
        if type(tag) is str and tag.startswith("$"):
            return _decode_tagged(tag, body, depth, resolve)
    return _decode_named(encoded, depth, resolve)


def _decode_items(body: Any, depth: int, resolve: Resolve | None) -> list[Any]:
    if type(body) is not list:
        raise _Refused("a list is expected")
    found: list[Any] = []
    try:
        for item in body:
            found.append(_decode(item, depth + 1, resolve))
    except _Refused as refused:
        refused.within.append(f"[{len(found)}]")
        raise
    return found


def _decode_named(body: Any, depth: int, resolve: Resolve | None) -> dict[str, Any]:
    if type(body) is not dict:
        raise _Refused("an object is expected")
    found: dict[str, Any] = {}
    for name, item in body.items():
        if type(name) is not str or name.startswith("$"):
            raise _Refused(f"{_step(name)} stands beside other keys")
        if not name.isascii():
            _string(name)
        try:
            found[name] = _decode(item, depth + 1, resolve)
        except _Refused as refused:
            refused.within.append(_step(name))
            raise
    return found


def _decode_tagged(tag: str, body: Any, depth: int, resolve: Resolve | None) -> Any:
    try:
        if tag in _TAGGED_SCALARS:
            return _TAGGED_SCALARS[tag](body)
        if tag == "$tuple":
            return tuple(_decode_items(body, depth, resolve))
        if tag == "$set":
            return set(_unique(_decode_items(body, depth, resolve), resolve))
        if tag == "$frozenset":
            return frozenset(_unique(_decode_items(body, depth, resolve), resolve))
        if tag == "$dict":
            return _decode_pairs(body, depth, resolve)
        if tag in ("$enum", "$flag", "$data", "$named"):
            return _decode_package_value(tag, body, depth, resolve)
    except (TypeError, ValueError, LookupError, ArithmeticError, OSError) as error:
        raise _Refused(f"{tag} does not hold what it must: {type(error).__name__}") from error
    raise _Refused(f"unknown tag {tag[:40]!a}")


def _unique(members: list[Any], resolve: Resolve | None) -> list[Any]:
    """Members of a set, or keys: all different, and without the many equal hashes that would keep the host busy for hours."""
    if resolve is None and len(members) > COLLISIONS and len(set(map(hash, members))) < len(members) - COLLISIONS:
        raise _Refused(f"more than {COLLISIONS} members have the hash of another one")
    if len(set(members)) != len(members):
        raise _Refused("holds equal members")
    return members


def _decode_pairs(body: Any, depth: int, resolve: Resolve | None) -> dict[Any, Any]:
    if type(body) is not list:
        raise _Refused("a list is expected")
    keys, items = [], []
    try:
        for key, item in body:
            keys.append(_decode(key, depth + 1, resolve))
            items.append(_decode(item, depth + 1, resolve))
    except _Refused as refused:
        refused.within.append(f"[{len(items)}]{'(key)' if len(keys) == len(items) else ''}")
        raise
    return dict(zip(_unique(keys, resolve), items, strict=True))


def _decode_package_value(tag: str, body: Any, depth: int, resolve: Resolve | None) -> Any:
    name, raw = body
    if type(name) is not str or name.count(":") != 1 or not _is_class_name(name):
        raise _Refused(f"{tag} does not name a class of a package")
    payload = _decode_payload(tag, raw, depth, resolve)
    if resolve is None:
        return Opaque(tag, name, payload)
    try:
        kind = resolve(name)
    except CodecError as error:
        raise _Refused(error.problem) from error
    return _build(tag, kind, payload)


def _decode_payload(tag: str, raw: Any, depth: int, resolve: Resolve | None) -> Any:
    if tag == "$named":
        return _decode_items(raw, depth, resolve)
    if tag == "$data":
        payload = _decode_named(raw, depth, resolve)
        if not all(map(str.isidentifier, payload)):
            raise _Refused("$data has a field whose name is none")
        return payload
    payload = _decode(raw, depth + 1, resolve)
    if type(payload) is not (str if tag == "$enum" else int):
        raise _Refused(f"{tag} does not hold what it must")
    return payload


def _build(tag: str, kind: Any, payload: Any) -> Any:
    made: Any
    if tag == "$flag" and issubclass(kind, enum.Flag):
        made = kind(payload)
        if type(made) is kind and made._value_ == payload:
            return made
    elif tag == "$enum" and issubclass(kind, enum.Enum):
        if payload in kind._member_map_:
            return kind._member_map_[payload]
    elif tag == "$named" and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        if len(kind._fields) == len(payload):
            return tuple.__new__(kind, payload)
    elif tag == "$data" and hasattr(kind, "__dataclass_fields__"):
        if set(payload) == set(_field_names(kind)):
            made = object.__new__(kind)
            for name, item in payload.items():
                object.__setattr__(made, name, item)
            return made
    else:
        raise _Refused(f"{kind.__module__}.{kind.__qualname__} is not what {tag} names")
    raise _Refused(f"{kind.__qualname__} has other fields or members now")


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
    return timezone(delta) if name is None else timezone(delta, _string(name))


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
    return _PATHS[name](_string(spelled))


def _decode_int(body: Any) -> int:
    value = int(body, 16)
    if hex(value) != body or -INLINE_INT <= value <= INLINE_INT:
        raise ValueError("not the one spelling")
    return value


def _decode_decimal(body: Any) -> Any:
    from decimal import Decimal

    return Decimal(_string(body))


def _decode_fraction(body: Any) -> Fraction:
    from fractions import Fraction

    numerator, denominator = (part if type(part) is int else _decode_int(part["$int"]) for part in body)
    if max(numerator.bit_length(), denominator.bit_length()) > FRACTION_BITS:
        raise ValueError("too long")
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
    "$timedelta": _decode_timedelta,
    "$zone": _decode_zone_info,
    "$timezone": _decode_timezone,
    "$path": _decode_path,
}
