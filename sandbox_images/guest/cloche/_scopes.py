"""Where the program stands: the main line `/`, or inside a dependency's entry, a branch, an item or an asyncio task of it.

A scope is named by the place in the program that opened it and by how many were opened there before, never by what finished
first (docs/reference/protocol.md, Scopes). It counts its own calls and what is opened in it, in the order the program does so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Final

from cloche import _package

DEPTH: Final = 20
"""Scopes inside each other, at most."""

_PLACE_CHARACTERS: Final = 120
_ELSE: Final = re.compile(r"[^A-Za-z0-9_.]")


class Scope:
    """One scope. `package` and `site` are those of the code that opened it, "" for the main line."""

    __slots__ = ("_called", "_opened", "depth", "package", "path", "site")

    def __init__(self, path: str = "/", *, depth: int = 0, package: str = "", site: str = "") -> None:
        self.path = path
        self.depth = depth
        self.package = package
        self.site = site
        self._called: dict[str, int] = {}
        self._opened: dict[str, int] = {}

    def count(self, fn: str) -> int:
        """Number of this call of `fn` in this scope, from 1."""
        number = self._called.get(fn, 0) + 1
        self._called[fn] = number
        return number

    def number(self, name: str) -> int:
        """Number of what is opened under `name` in this scope, from 1."""
        number = self._opened.get(name, 0) + 1
        self._opened[name] = number
        return number

    def child(self, name: str, *, item: int = 0, number: int = 0, package: str = "", site: str = "") -> Scope:
        """A scope inside this one: `<name>[k]`, or `<name>[k.item]`. `number` 0: the next k of that name.

        Raises:
            RuntimeError: scopes would lie deeper than 20 inside each other.
        """
        if self.depth >= DEPTH:
            raise RuntimeError(
                f"branches, tasks and dependencies stand at most {DEPTH} deep inside each other; here: {self.path[-300:]}"
            )
        index = str(number or self.number(name))
        if item:
            index = f"{index}.{item}"
        path = f"{self.path.rstrip('/')}/{name}[{index}]"
        return Scope(path, depth=self.depth + 1, package=package, site=site)


current_scope: Final[ContextVar[Scope | None]] = ContextVar("cloche_scope", default=None)
"""The scope that the running branch, task or dependency opened; None on the main line."""

boundaries: Final[set[CodeType]] = set()
"""Code of ours that runs a branch or a loop's tasks: what stands further out on the stack stands in another scope."""

_root = Scope()
_locate: Callable[[Scope], Scope] | None = None


def begin(locate: Callable[[Scope], Scope] | None = None) -> tuple[Scope, Callable[[Scope], Scope] | None]:
    """Start over at `/`; gives what `resume` needs to go back.

    `locate` finds the scope of the caller where entries of dependencies open none, as outside a cell.
    """
    global _root, _locate
    before = (_root, _locate)
    _root, _locate = Scope(), locate
    return before


def resume(before: tuple[Scope, Callable[[Scope], Scope] | None]) -> None:
    """Go back to what was before `begin`."""
    global _root, _locate
    _root, _locate = before


def current() -> Scope:
    """The innermost open scope."""
    scope = current_scope.get() or _root
    return scope if _locate is None else _locate(scope)


def place(frame: FrameType | None) -> str:
    """Name of the package function that stands nearest to `frame`: module inside its package and qualified name."""
    found = _package.nearest(frame)
    if found is None:
        return "_"
    module = _package.module_name(found).split(".", 2)[2:]
    return _ELSE.sub("_", ".".join([*module, found.f_code.co_qualname]))[:_PLACE_CHARACTERS]


def opener(frame: FrameType | None, around: Scope) -> tuple[str, str]:
    """Id of the package that opens a scope inside `around`, and where it does: the package code that stands nearest to `frame`."""
    found = _package.nearest(frame)
    package = _package.package_id(_package.module_name(found)) if found is not None else ""
    return package, _package.site(found) or around.site
