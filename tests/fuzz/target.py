"""What a target is: a reader of bytes with what must hold for every input, and where inputs come from."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from cloche_guest.link import Reader, Writer

End = TypeVar("End", Reader, Writer)
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Target:
    """`check` returns for every input, refused or not, and raises when a property does not hold.

    `seeds` are valid inputs made by code; `mutate` gives a similar input that a reader gets further with than with changed bytes.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    check: Callable[[bytes], None]
    mutate: Callable[[bytes, Random], bytes]


def expect(holds: bool, told: str) -> None:
    """Raise AssertionError unless `holds`; a property of a target, not of the code under test."""
    if not holds:
        raise AssertionError(told)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for one input, in memory where there is one: a disk would take most of the time."""
    with tempfile.TemporaryDirectory(prefix="cloche-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name)


@contextmanager
def one_life(end: End) -> Iterator[End]:
    """The supervisor's end of an exchange, whose descriptor goes with its process; here with one input."""
    try:
        yield end
    finally:
        if end._descriptor is not None:
            os.close(end._descriptor)
