"""A module."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")
Pair = tuple[str, int]
FIRST, *REST = 1, 2, 3
TOTAL = FIRST
TOTAL += 2


class Colour(Enum):
    """Colours."""

    RED = auto()
    GREEN = auto()


@dataclass(frozen=True)
class Count:
    """A count."""

    words: tuple[str, ...] = ()
    more: list[str] = field(default_factory=list)
    colour: Colour = Colour.RED

    def total(self, extra: int = TOTAL) -> int:
        return len(self.words) + extra


class Named(NamedTuple):
    name: str
    items: Iterable[str] = ()


class Counter(Protocol):
    def count(self, text: str) -> int: ...


class Failed(ValueError):
    pass


async def later(text: str = "x") -> str:
    return text


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
