import datetime as dt
import logging
import re
import textwrap
from collections import namedtuple
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath as P
from typing import NewType
from zoneinfo import ZoneInfo

from cloche import JsonSchemaOutput

WORD = re.compile(r"\w+", re.IGNORECASE | re.ASCII)
DAY = timedelta(days=1)
START = date(2026, 1, 1) + 2 * DAY
NOON = dt.time(12, tzinfo=dt.timezone.utc)
ZONE = ZoneInfo("Europe/Berlin")
HALF = Fraction(1, 2)
PRICE = Decimal("1.50")
ROOT = P("a") / "b"
UserId = NewType("UserId", int)
Point = namedtuple("Point", "x y")
NAMES = frozenset({"a", *("b", "c")})
TABLE = dict(a=1, **{"b": 2})
log = logging.getLogger(__name__)
TEXT = textwrap.dedent("""
    one
""")
LABEL = f"{NAMES}-{PRICE:>10}"
SHAPE = JsonSchemaOutput({"type": "object"})
LIMIT = 3 if len is not None else 4
LAST = (1, 2, 3)[-1]


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
