"""Values as JSON, exactly: what is decoded equals what was encoded, type by type. Format v1, described in docs/reference/codec.md.

A value is either plain JSON (None, bool, small int, finite float, str, list, dict with plain string keys) or an object with one
key that starts with `$`. Every value has exactly one encoding, so equal bytes mean equal values. Anything else is refused by
type name and by its path inside the value. Never pickle: decoding runs no code of the sender.

Types are told by identity and what they hold is read past their own methods, so that a class which lies about itself, or raises
when it is asked, is refused like any other. Here stands what has parts; what has none is `codec_scalars`', and which fields a
value of a package's class has is `codec_classes`'.

The same code runs on the host. There `decode` is called without `resolve`: enum members, dataclasses and named tuples of a
package stay `Opaque`, which encodes back to the same text; the host never imports package code.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any, Final

from cloche_guest.codec_classes import built, is_class_name, taken_apart
from cloche_guest.codec_members import COLLISIONS, unique
from cloche_guest.codec_refusal import CodecError, Refused, step
from cloche_guest.codec_scalars import (
    FRACTION_BITS,
    INLINE_INT,
    SCALARS,
    TAGGED_SCALARS,
    late_scalar,
    string,
)
from cloche_guest.digest import sha256_hex

__all__ = [
    "COLLISIONS",
    "DEPTH",
    "FRACTION_BITS",
    "INLINE_INT",
    "MEMBER_LEVELS",
    "VERSION",
    "CodecError",
    "Opaque",
    "Resolve",
    "canonical",
    "check",
    "decode",
    "digest",
    "encode",
    "text",
]

VERSION = 1
DEPTH = 100
"""Nesting of containers, at most."""

MEMBER_LEVELS = 20
"""So many of them a member or key counts for that holds others: its text is made once more for each one it lies in."""

Resolve = Callable[[str], type]
"""Finds a package's class by `module:qualified.name`; raises CodecError when there is none of that kind."""


_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""One for all: `json.dumps` would make a new encoder for each of the dozen texts of a call."""

_SORTED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


class Opaque:
    """A package's own value on the host: its tag (`$enum`, `$flag`, `$data`, `$named`), class name and decoded payload.

    Compared and hashed by its canonical bytes, as a member or key. `encoded`, of which it was made, saves encoding it each time."""

    __slots__ = ("_encoded", "_hash", "name", "payload", "tag")

    def __init__(self, tag: str, name: str, payload: Any, *, encoded: Any = None) -> None:
        self.tag: Final = tag
        self.name: Final = name
        self.payload: Final = payload
        self._encoded = encoded
        self._hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(canonical(encode(self) if self._encoded is None else self._encoded))
        return self._hash

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
    except Refused as refused:
        raise refused.located() from None


def decode(encoded: Any, *, resolve: Resolve | None = None) -> Any:
    """The value of a JSON form made by `encode`.

    Raises:
        CodecError: not an encoding, or `resolve` refused a class name.
    """
    try:
        return _decode(encoded, 0, resolve)
    except Refused as refused:
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
    return sha256_hex(canonical(encoded))


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
        raise Refused(f"is nested deeper than {DEPTH} (or contains itself)")
    kind = type(value)
    if kind is str:
        return value if value.isascii() else string(value)
    if value is None or kind is bool:
        return value
    scalar = SCALARS.get(id(kind))
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
        return {value.tag: [value.name, _encode_payload(value.tag, value.payload, depth)]}
    late = late_scalar(kind)
    if late is not None:
        return late(value)
    tag, name, payload = taken_apart(value, kind)
    return {tag: [name, _encode_payload(tag, payload, depth)]}


def _encode_items(items: Any, depth: int) -> list[Any]:
    found: list[Any] = []
    try:
        for item in items:
            found.append(_encode(item, depth + 1))
    except Refused as refused:
        refused.within.append(f"[{len(found)}]")
        raise
    return found


def _encode_dict(value: dict[Any, Any], depth: int) -> Any:
    for key in value:
        if type(key) is not str or key.startswith("$"):
            return _encode_pairs(value, depth)
        if not key.isascii():
            string(key)
    return _encode_named(value, depth)


def _encode_named(items: dict[str, Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    name = ""
    try:
        for name, item in items.items():
            found[name] = _encode(item, depth + 1)
    except Refused as refused:
        refused.within.append(step(name))
        raise
    return found


def _encode_pairs(value: dict[Any, Any], depth: int) -> Any:
    pairs: list[list[Any]] = []
    key, in_key = None, True
    try:
        for key, item in value.items():
            in_key = True
            encoded = _encode_member(key, depth)
            in_key = False
            pairs.append([encoded, _encode(item, depth + 1)])
    except Refused as refused:
        refused.within.append(f"{step(key)}{'(key)' if in_key else ''}")
        raise
    if len({canonical(key) for key, _ in pairs}) != len(pairs):
        raise Refused("has keys that are different objects with one and the same record")
    return {"$dict": pairs}


def _encode_members(value: Any, depth: int) -> list[Any]:
    try:
        members = [_encode_member(item, depth) for item in value]
    except Refused as refused:
        refused.within.append("{}")
        raise
    keyed = sorted(((canonical(member), member) for member in members), key=lambda pair: pair[0])
    if any(one[0] == other[0] for one, other in itertools.pairwise(keyed)):
        raise Refused("has members that are different objects with one and the same record")
    return [member for _, member in keyed]


def _encode_member(value: Any, depth: int) -> Any:
    kind = type(value)
    plain = value is None or kind is str or kind is bool or id(kind) in SCALARS or late_scalar(kind) is not None
    return _encode(value, depth + (1 if plain else MEMBER_LEVELS))


def _encode_payload(tag: str, payload: Any, depth: int) -> Any:
    """What an instance of a package's class holds; a named tuple's items come with the names of their fields where they are known."""
    if tag == "$data":
        return _encode_named(payload, depth)
    if tag == "$named":
        return list(_encode_named(payload, depth).values()) if type(payload) is dict else _encode_items(payload, depth)
    return _encode(payload, depth + 1)


# decoding


def _decode(encoded: Any, depth: int, resolve: Resolve | None) -> Any:
    if depth > DEPTH:
        raise Refused(f"is nested deeper than {DEPTH}")
    kind = type(encoded)
    if kind is str:
        return encoded if encoded.isascii() else string(encoded)
    if encoded is None or kind is bool:
        return encoded
    if kind is int:
        if not -INLINE_INT <= encoded <= INLINE_INT:
            raise Refused("an integer of this size is written as $int")
        return encoded
    if kind is float:
        if not math.isfinite(encoded):
            raise Refused("a float that is not finite is written as $float")
        return encoded
    if kind is list:
        return _decode_items(encoded, depth, resolve)
    if kind is not dict:
        raise Refused(f"{kind.__qualname__} is no JSON value")
    if len(encoded) == 1:
        ((tag, body),) = encoded.items()
        if type(tag) is str and tag.startswith("$"):
            return _decode_tagged(tag, body, depth, resolve)
    return _decode_named(encoded, depth, resolve)


def _member_levels(encoded: Any) -> int:
    kind = type(encoded)
    tagged = kind is dict and len(encoded) == 1 and next(iter(encoded)) in TAGGED_SCALARS
    return 1 if tagged or kind not in (list, dict) else MEMBER_LEVELS


def _decode_items(body: Any, depth: int, resolve: Resolve | None, *, members: bool = False) -> list[Any]:
    if type(body) is not list:
        raise Refused("a list is expected")
    found: list[Any] = []
    try:
        for item in body:
            found.append(_decode(item, depth + (_member_levels(item) if members else 1), resolve))
    except Refused as refused:
        refused.within.append(f"[{len(found)}]")
        raise
    return found


def _decode_named(body: Any, depth: int, resolve: Resolve | None) -> dict[str, Any]:
    if type(body) is not dict:
        raise Refused("an object is expected")
    found: dict[str, Any] = {}
    for name, item in body.items():
        if type(name) is not str or name.startswith("$"):
            raise Refused(f"{step(name)} stands beside other keys")
        if not name.isascii():
            string(name)
        try:
            found[name] = _decode(item, depth + 1, resolve)
        except Refused as refused:
            refused.within.append(step(name))
            raise
    return found


def _decode_tagged(tag: str, body: Any, depth: int, resolve: Resolve | None) -> Any:
    try:
        if tag in TAGGED_SCALARS:
            return TAGGED_SCALARS[tag](body)
        if tag == "$tuple":
            return tuple(_decode_items(body, depth, resolve))
        if tag == "$set":
            return set(unique(_decode_items(body, depth, resolve, members=True), trusted=resolve is not None))
        if tag == "$frozenset":
            return frozenset(unique(_decode_items(body, depth, resolve, members=True), trusted=resolve is not None))
        if tag == "$dict":
            return _decode_pairs(body, depth, resolve)
        if tag in ("$enum", "$flag", "$data", "$named"):
            return _decode_package_value(tag, body, depth, resolve)
    except (TypeError, ValueError, LookupError, ArithmeticError, OSError) as error:
        raise Refused(f"{tag} does not hold what it must: {type(error).__name__}") from error
    raise Refused(f"unknown tag {tag[:40]!a}")


def _decode_pairs(body: Any, depth: int, resolve: Resolve | None) -> dict[Any, Any]:
    if type(body) is not list:
        raise Refused("a list is expected")
    keys, items = [], []
    try:
        for key, item in body:
            keys.append(_decode(key, depth + _member_levels(key), resolve))
            items.append(_decode(item, depth + 1, resolve))
    except Refused as refused:
        refused.within.append(f"[{len(items)}]{'(key)' if len(keys) == len(items) else ''}")
        raise
    return dict(zip(unique(keys, trusted=resolve is not None), items, strict=True))


def _decode_package_value(tag: str, body: Any, depth: int, resolve: Resolve | None) -> Any:
    name, raw = body
    if type(name) is not str or name.count(":") != 1 or not is_class_name(name):
        raise Refused(f"{tag} does not name a class of a package")
    payload = _decode_payload(tag, raw, depth, resolve)
    if resolve is None:
        return Opaque(tag, name, payload, encoded={tag: body})
    try:
        kind = resolve(name)
    except CodecError as error:
        raise Refused(error.problem) from error
    return built(tag, kind, payload)


def _decode_payload(tag: str, raw: Any, depth: int, resolve: Resolve | None) -> Any:
    if tag == "$named":
        return _decode_items(raw, depth, resolve)
    if tag == "$data":
        payload = _decode_named(raw, depth, resolve)
        if not all(map(str.isidentifier, payload)):
            raise Refused("$data has a field whose name is none")
        return payload
    payload = _decode(raw, depth + 1, resolve)
    if type(payload) is not (str if tag == "$enum" else int):
        raise Refused(f"{tag} does not hold what it must")
    return payload
