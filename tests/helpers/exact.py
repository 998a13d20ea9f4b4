"""Equality as the codec promises it: type and content, all the way down."""

from __future__ import annotations

from datetime import datetime, time
from decimal import Decimal
from typing import Any


def same(one: Any, other: Any) -> bool:
    """Equal in type and content, all the way down; NaN equals NaN, -0.0 differs from 0.0, dict order counts."""
    if type(one) is not type(other):
        return False
    match one:
        case float():
            return repr(one) == repr(other)
        case Decimal():
            return bool(one.as_tuple() == other.as_tuple())
        case list() | tuple():
            return len(one) == len(other) and all(map(same, one, other))
        case dict():
            return same(list(one.items()), list(other.items()))
        case set() | frozenset():
            return same(sorted(map(_told, one)), sorted(map(_told, other)))
        case datetime() | time():
            naive = one.replace(tzinfo=None), other.replace(tzinfo=None)
            return bool(naive[0] == naive[1]) and one.fold == other.fold and same(one.tzinfo, other.tzinfo)
        case int():
            return bool(one == other)
        case _:
            return bool(one == other) and repr(one) == repr(other)


def _told(member: Any) -> str:
    """A member of a set as text that names its type; those of inner sets in order."""
    match member:
        case set() | frozenset():
            return f"{type(member).__name__}{sorted(map(_told, member))}"
        case tuple():
            return f"tuple{[_told(item) for item in member]}"
        case int():
            return f"{type(member).__name__}{hex(member)}"
        case Decimal():
            return f"Decimal{member.as_tuple()}"
    return f"{type(member).__name__}{member!r}"
