"""JSON text of plain values, written quickly: for lines, frames and displays, where the same values matter and not the same bytes.

What digests are taken of, and what lies in blobs, is written by `cloche_guest.codec`, whose bytes never change.
"""

from __future__ import annotations

from typing import Any

import orjson
from cloche_guest import codec

_PLAIN = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


def compact(value: Any) -> bytes:
    """UTF-8 without spaces.

    Raises:
        ValueError: an integer beyond 64 bits, a lone surrogate, or something that is no JSON.
    """
    try:
        return orjson.dumps(value, option=_PLAIN)
    except orjson.JSONEncodeError as error:
        if "Recursion" not in str(error):
            raise ValueError(str(error)) from error
        return codec.text(value).encode()  # a value may be nested deeper than that library goes
