"""Members of a set and keys of a dict, looked at before the set or the dict is made: all different, and cheap to compare.

Equal hashes cost a comparison each, and whoever makes the value chooses the hashes: that of a number is its remainder by 2^61 - 1.
"""

from __future__ import annotations

import sys
from typing import Any

from cloche_guest.codec_refusal import Refused

COLLISIONS = 100
"""Members of one set or keys of one dict that may have the hash of another one, on the host: each costs a comparison with all."""

COMPARED_BITS = 4096
"""Of a number that has its hash in common with another member, where a Decimal is among them: it would be made a Decimal to be
compared, in time quadratic in its length and in one step that nothing interrupts (54 s for 3,200,000 bits)."""


def unique(members: list[Any], *, trusted: bool) -> list[Any]:
    """The members, which are all different; for a sender that is not trusted also without hashes that would keep us busy.

    Raises:
        Refused: equal members, or too much to compare. TypeError: one has no hash.
    """
    if not trusted and len(members) > 1:
        hashes = list(map(hash, members))
        different = set(hashes)
        if len(different) < len(members) - COLLISIONS:
            raise Refused(f"more than {COLLISIONS} members have the hash of another one")
        if len(different) < len(members):
            _refuse_slow(members, hashes)
    if len(set(members)) != len(members):
        raise Refused("holds equal members")
    return members


def _refuse_slow(members: list[Any], hashes: list[int]) -> None:
    seen: set[int] = set()
    again = {one for one in hashes if one in seen or seen.add(one)}  # type: ignore[func-returns-value]
    left = [member for member, one in zip(members, hashes, strict=True) if one in again]
    decimal, fraction = _late("decimal", "Decimal"), _late("fractions", "Fraction")
    is_decimal = is_long = False
    while left:
        item = left.pop()
        kind = type(item)
        if kind is tuple or kind is frozenset:
            left.extend(item)
        elif kind is int:
            is_long = is_long or item.bit_length() > COMPARED_BITS
        elif kind is fraction:
            is_long = is_long or max(item.numerator.bit_length(), item.denominator.bit_length()) > COMPARED_BITS
        else:
            is_decimal = is_decimal or kind is decimal
    if is_decimal and is_long:
        raise Refused(f"a Decimal and a number of more than {COMPARED_BITS} bits have the same hash")


def _late(module: str, name: str) -> Any:
    """A type whose module is loaded with the first value of it; None before."""
    return getattr(sys.modules.get(module), name, None)
