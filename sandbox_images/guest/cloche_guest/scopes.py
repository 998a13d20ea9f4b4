"""Where the program stands: the main line `/`, or inside the k-th call of a dependency's entry, `/<dependency>[k]`, nested.

Also how many calls of a function were made in each scope. One line of execution only: concurrent branches come later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Scopes:
    """The open scopes of one interpreter."""

    def __init__(self) -> None:
        self._open = ["/"]
        self._entered: Counter[tuple[str, str]] = Counter()
        self._called: Counter[tuple[str, str]] = Counter()

    @property
    def current(self) -> str:
        """The innermost open scope."""
        return self._open[-1]

    def count(self, fn: str) -> int:
        """Number of this call of `fn` in the current scope, from 1."""
        self._called[self.current, fn] += 1
        return self._called[self.current, fn]

    @contextmanager
    def inside(self, dependency: str) -> Iterator[str]:
        """Open the scope of one call of a dependency's entry."""
        self._entered[self.current, dependency] += 1
        number = self._entered[self.current, dependency]
        self._open.append(f"{self.current.rstrip('/')}/{dependency}[{number}]")
        try:
            yield self.current
        finally:
            self._open.pop()
