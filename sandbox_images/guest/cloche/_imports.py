"""Doing something right after a module of the standard library was imported, whenever that happens, or never.

Importing asyncio or random just to prepare it would cost every program what only a few need.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class AfterImport:
    """Calls `then()` once, right after the module `name` was executed; at once if that has happened already."""

    def __init__(self, name: str, then: Callable[[], Any]) -> None:
        self._name = name
        self._then = then
        self._found: Any = None
        if name in sys.modules:
            then()
        else:
            sys.meta_path.insert(0, self)

    def forget(self) -> None:
        """Do nothing any more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """For the import system."""
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                self.forget()
                self._then()

        loader.exec_module = exec_module
        return spec
