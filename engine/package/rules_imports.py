"""Rules about imports: where they stand, and that they name nothing but what a package may use.

Also says what the imports mean for others: which workflows and programs the package reaches.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from engine.ids import WORKFLOW_ID
from engine.package.bindings import (
    Imported,
    bound_names,
    imports_of,
    relative_module,
    resolve,
)
from engine.package.contract import Metadata
from engine.package.layout import REQUIRED, TESTS
from engine.package.rules import Findings
from engine.package.source import Module
from engine.package.vocabulary import (
    MANAGEMENT,
    PRIMITIVE_PERMISSION,
    PRIMITIVES_MODULE,
    PROGRAM_PERMISSION,
    PROGRAMS_MODULE,
    STANDARD,
    TESTING_MODULE,
    UNRECORDED,
    instead_of,
    primitives,
    programs,
)

_WORKFLOWS: Final = "workflows"
_RULES_DOC: Final = "docs/reference/rules.md lists what may be imported."


@dataclass(frozen=True)
class Reached:
    """What non-test code imports: workflow ids and registered programs, sorted."""

    dependencies: tuple[str, ...]
    programs: tuple[str, ...]


def reached(modules: Iterable[Module]) -> Reached:
    """What the imports of non-test modules reach, also those under `if TYPE_CHECKING:`."""
    dependencies: set[str] = set()
    called: set[str] = set()
    for module in modules:
        for imported in _all_imports(module) if not module.is_test else ():
            if imported.module == PROGRAMS_MODULE and imported.name:
                called.add(imported.name)
            elif imported.level == 0 and imported.module.startswith(f"{_WORKFLOWS}."):
                dependencies.add(imported.module.removeprefix(f"{_WORKFLOWS}."))
    return Reached(tuple(sorted(dependencies)), tuple(sorted(called)))


def _all_imports(module: Module) -> Iterable[Imported]:
    for node in module.imports:
        yield from imports_of(node, module.path)


def check_imports(
    modules: Mapping[str, Module],
    findings: Findings,
    *,
    workflow_id: str,
    present: Collection[str],
    metadata: Metadata | None,
) -> None:
    """Report every import that the contract does not allow. `present`: paths of all files, parsed or not."""
    tree = _Tree(modules, frozenset(present) | frozenset(REQUIRED), workflow_id)
    for module in modules.values():
        _Imports(module, findings, tree, workflow_id, metadata).check()


class _Tree:
    """Which modules the package has, and which names are bound in them."""

    def __init__(self, modules: Mapping[str, Module], present: frozenset[str], workflow_id: str) -> None:
        self._present = present
        self._workflow_id = workflow_id
        python = [path for path in present if path.endswith(".py")]
        self._folders = {path[:end] for path in python for end in range(len(path)) if path[end] == "/"} | {""}
        self._names: dict[str, frozenset[str] | None] = {}
        self._modules = modules

    def holds(self, name: str) -> bool:
        """True for the package's own name and for a module or folder at its top."""
        return name == self._workflow_id or name in self._folders or f"{name}.py" in self._present

    def missing(self, parts: list[str], name: str) -> bool:
        """True when `from <parts> import <name>` finds nothing."""
        path = "/".join(parts)
        if f"{path}.py" in self._present:
            return not self._binds(f"{path}.py", name)
        if path not in self._folders:
            return True
        inner = f"{path}/{name}" if path else name
        return not (f"{inner}.py" in self._present or inner in self._folders or self._binds_in_package(path, name))

    def _binds_in_package(self, path: str, name: str) -> bool:
        initial = f"{path}/__init__.py" if path else "__init__.py"
        return initial in self._present and self._binds(initial, name)

    def _binds(self, path: str, name: str) -> bool:
        """True as well when it cannot be known, or when the rules of the entry say it better."""
        if path in ("workflow.py", "__init__.py") and name == self._workflow_id:
            return True
        if path not in self._names:
            self._names[path] = self._bound_in(path)
        names = self._names[path]
        return names is None or name in names

    def _bound_in(self, path: str) -> frozenset[str] | None:
        module = self._modules.get(path)
        if module is None:
            return None
        return frozenset(name for node in module.tree.body for name in bound_names(node)) | module.globals


class _Imports:
    """The imports of one module."""

    def __init__(
        self, module: Module, findings: Findings, tree: _Tree, workflow_id: str, metadata: Metadata | None
    ) -> None:
        self._module = module
        self._findings = findings
        self._tree = tree
        self._workflow_id = workflow_id
        self._metadata = metadata

    def check(self) -> None:
        placed = set(_at_module_level(self._module.tree))
        for node in self._module.imports:
            if node not in placed:
                told = "an import stands inside something else."
                self._report("import.placement", node.lineno, told, "Move it to the top of the module.")
            for imported in imports_of(node, self._module.path):
                self._check_one(imported)
        self._check_attributes()

    def _report(self, rule: str, line: int, message: str, fix: str) -> None:
        self._findings.add(rule, self._module.path, message, line=line, fix=fix)

    def _check_one(self, imported: Imported) -> None:
        last = imported.module.rsplit(".", 1)[-1]
        if imported.name == "*":
            self._report("import.star", imported.line, "imports everything.", "Name what you import.")
        elif imported.level:
            self._check_relative(imported)
        elif imported.name in MANAGEMENT or last in MANAGEMENT:
            told = f"{imported.name or last} manages workflows or sessions."
            self._report("import.management", imported.line, told, "Leave it out; whoever runs the package does that.")
        elif imported.module == PRIMITIVES_MODULE:
            self._check_primitive(imported.name, imported.line)
        elif imported.module == PROGRAMS_MODULE:
            self._check_program(imported)
        elif imported.module == _WORKFLOWS or imported.module.startswith(f"{_WORKFLOWS}."):
            self._check_workflow(imported)
        elif imported.module in ("pytest", TESTING_MODULE):
            self._require_test(imported.line, imported.module)
        else:
            self._check_standard(imported)

    def _check_relative(self, imported: Imported) -> None:
        assert isinstance(imported.node, ast.ImportFrom)
        parts = relative_module(self._module.path, imported.node)
        name = imported.name or ""
        if parts is None:
            told = "a relative import leaves the package."
            self._report("import.relative", imported.line, told, "Use fewer dots.")
        elif [*parts, name][0] == TESTS and not self._module.is_test:
            self._require_test(imported.line, "a test module")
        elif self._tree.missing(parts, name):
            told = f"there is no {name} in {'/'.join(parts) or 'the package'}."
            self._report("import.relative", imported.line, told, "Correct the name, or add what is missing.")

    def _check_primitive(self, name: str | None, line: int) -> None:
        if name is None or name in primitives():
            self._check_permission(name, PRIMITIVE_PERMISSION, line)
            return
        if name == "testing":
            self._require_test(line, TESTING_MODULE)
            return
        told = f"cloche has no primitive {name}."
        self._report("import.primitive", line, told, f"There are: {', '.join(sorted(primitives()))}.")

    def _check_program(self, imported: Imported) -> None:
        if imported.name is None or imported.name not in programs():
            told = f"{imported.name or imported.module} is no registered program."
            fix = f"Write `from cloche.programs import <name>` with one of: {', '.join(sorted(programs()))}."
            self._report("import.program", imported.line, told, fix)
            return
        self._check_permission(imported.name, PROGRAM_PERMISSION, imported.line)

    def _check_permission(self, name: str | None, table: Mapping[str, str], line: int) -> None:
        needed = table.get(name or "")
        if needed and self._metadata and not self._module.is_test and needed not in self._metadata.permissions:
            told = f"{name} needs the permission {needed}, which is not declared."
            fix = f'Add "{needed}" to `permissions` in pyproject.toml, or do without.'
            self._report("import.permission", line, told, fix)

    def _check_workflow(self, imported: Imported) -> None:
        name = imported.module.removeprefix(f"{_WORKFLOWS}.")
        alone = isinstance(imported.node, ast.ImportFrom) and len(imported.node.names) == 1
        if not (alone and name == imported.name and WORKFLOW_ID.fullmatch(name)):
            told = "a workflow is imported in another form than `from workflows.<x> import <x>`."
            fix = "Import one workflow per line, by its name; inside your own package use relative imports."
            self._report("import.workflow", imported.line, told, fix)
        elif name == self._workflow_id and not self._module.is_test:
            told = "the package imports itself."
            self._report("import.workflow", imported.line, told, "Use a relative import.")

    def _require_test(self, line: int, what: str) -> None:
        if not self._module.is_test:
            told = f"{what} is imported outside of tests/."
            self._report("import.test_only", line, told, "Use it in tests/ only.")

    def _check_standard(self, imported: Imported) -> None:
        module = imported.module
        whole = f"{module}.{imported.name}" if imported.name else module
        if module in STANDARD or whole in STANDARD:
            return
        if module.split(".")[0] in UNRECORDED:
            told = f"{module} has effects that a replay cannot repeat."
            self._report("import.unrecorded", imported.line, told, instead_of(module))
            return
        self._report(
            "import.refused", imported.line, f"{module} may not be imported.", self._instead_of_refused(module)
        )

    def _instead_of_refused(self, module: str) -> str:
        top, *below = module.split(".")
        if top == "unittest":
            return "Use cloche.testing: it scripts what the code calls."
        if not self._tree.holds(top):
            return _RULES_DOC
        dots = "." * (self._module.path.count("/") + 1)
        inside = ".".join(below if top == self._workflow_id else [top, *below])
        return f"Inside the package imports are relative: `from {dots}{inside} import …`."

    def _check_attributes(self) -> None:
        """`import cloche` offers the primitives as attributes, and nothing else."""
        names = self._module.names
        for node in self._module.nodes:
            if isinstance(node, ast.Attribute) and resolve(node.value, names) == PRIMITIVES_MODULE:
                self._check_primitive(node.attr, node.lineno)


def _at_module_level(tree: ast.Module) -> Iterable[ast.stmt]:
    for node in tree.body:
        yield node
        if isinstance(node, ast.If):
            yield from (*node.body, *node.orelse)
