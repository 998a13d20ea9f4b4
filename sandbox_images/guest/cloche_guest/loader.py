"""Imports `workflows.*` from the snapshot, from source text alone, and stands around every package's entry.

The finder is the only one for these names: a module that it does not find does not exist, so neither bytecode nor extension
modules of a snapshot can be executed by another finder. An entry is replaced in its own module right after that was executed,
before anything else can import it: whoever imports it, from the package or from its `workflow` module, gets the same wrapper.
The other spelling, `openprogram.…`, names the same things.

Finders and loaders here have no base class: `importlib.abc` costs as much as starting the interpreter.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from cloche import _package, _scopes

Wrap = Callable[[str, Callable[..., Any]], Callable[..., Any]]
"""Gets a package's id and entry, gives what its module will hold instead."""

Compile = Callable[[bytes, str], Any]
"""Source bytes and path to a code object."""

_PROGRAMS = ("openprogram.programs.tools", "openprogram.programs.workflow")


installed = False
"""True where packages come from a snapshot, and calls of dependencies' entries open scopes."""


def install(snapshot: str, *, wrap: Wrap, compile_tests: Compile | None = None) -> None:
    """Make the packages of `snapshot` importable. `compile_tests` is used for modules below a package's `tests`."""
    global installed
    installed = True
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, _Finder(snapshot, wrap, compile_tests))
    sys.meta_path.insert(1, _OtherSpelling())


def scoped(workflow_id: str, entry: Callable[..., Any]) -> Callable[..., Any]:
    """A dependency's entry that opens a scope around each of its calls."""

    @functools.wraps(entry)
    def enter(*args: Any, **kwargs: Any) -> Any:
        scope = _scopes.current().child(workflow_id, package=workflow_id, site=_package.site(sys._getframe(1)))
        token = _scopes.current_scope.set(scope)
        try:
            return entry(*args, **kwargs)
        finally:
            _scopes.current_scope.reset(token)

    return enter


class _Finder:
    def __init__(self, snapshot: str, wrap: Wrap, compile_tests: Compile | None) -> None:
        self._snapshot = snapshot
        self._wrap = wrap
        self._compile_tests = compile_tests

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parts = fullname.split(".")
        if parts[0] != "workflows":
            return None
        base = os.path.join(self._snapshot, *parts)
        if all(part.isidentifier() for part in parts):
            for file, search in ((os.path.join(base, "__init__.py"), [base]), (f"{base}.py", None)):
                if os.path.isfile(file):
                    loader = _SourceOnly(fullname, file, self._wrap, self._compile_tests)
                    return importlib.util.spec_from_file_location(
                        fullname, file, loader=loader, submodule_search_locations=search
                    )
            if os.path.isdir(base):
                spec = ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations = [base]
                return spec
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


class _SourceOnly(SourceFileLoader):
    def __init__(self, fullname: str, path: str, wrap: Wrap, compile_tests: Compile | None) -> None:
        super().__init__(fullname, path)
        self._wrap = wrap
        in_tests = fullname.split(".")[2:3] == ["tests"]
        self._compile = compile_tests if in_tests else None

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        data = self.get_data(path)
        if self._compile is not None:
            return self._compile(data, path)  # type: ignore[no-any-return]
        return compile(data, path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _, workflow_id, *rest = module.__name__.split(".")
        if rest == ["workflow"]:
            entry = getattr(module, workflow_id, None)
            if callable(entry):
                setattr(module, workflow_id, self._wrap(workflow_id, entry))


class _OtherSpelling:
    """`openprogram.agentic_programming` is `cloche`; a program's own module gives it from `cloche.programs`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.split(".")[0] != "openprogram":
            return None
        known = fullname in ("openprogram", "openprogram.programs", "openprogram.agentic_programming", *_PROGRAMS)
        if not known and fullname.rpartition(".")[0] not in _PROGRAMS:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        itself: Any = self
        return ModuleSpec(fullname, itself, is_package=True)

    def create_module(self, spec: ModuleSpec) -> None:
        """The interpreter makes it."""

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "openprogram.agentic_programming":
            source = importlib.import_module("cloche")
        elif module.__name__.rpartition(".")[0] in _PROGRAMS:
            source = importlib.import_module("cloche.programs")
        else:
            return

        def lookup(name: str) -> Any:
            return getattr(source, name)

        module.__dict__["__getattr__"] = lookup
