"""What names in a module mean: imports in both spellings as one canonical dotted name, and aliases of them.

Canonical: `cloche.agent` for a primitive however it was imported, `cloche.programs.read` for a registered program,
`builtins.set` for a builtin, `.steps.x.f` for something of the package itself.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from engine.package.vocabulary import PRIMITIVES_MODULE, PROGRAMS_MODULE

BUILTINS: Final = frozenset(dir(builtins))
_OTHER_PRIMITIVES = "openprogram.agentic_programming"
_OTHER_PROGRAMS = ("openprogram.programs.tools.", "openprogram.programs.workflow.")


_ALIAS_ROUNDS = 3
"""How long a chain of aliases is followed against the order of the source."""


class Kind(Enum):
    """How a name came to be bound."""

    imported = "imported"
    klass = "class"
    function = "function"
    value = "value"


@dataclass(frozen=True)
class Binding:
    """What a name stands for; `target` is the canonical dotted name when it is known."""

    kind: Kind
    target: str | None = None


@dataclass(frozen=True)
class Imported:
    """One imported name. `module` is canonical; `name` is None for `import module`; `level` counts leading dots."""

    node: ast.Import | ast.ImportFrom
    module: str
    name: str | None
    bound: str
    level: int
    target: str

    @property
    def line(self) -> int:
        return self.node.lineno


def imports_of(node: ast.Import | ast.ImportFrom, path: str) -> list[Imported]:
    """The names one import statement of the module at `path` binds."""
    if isinstance(node, ast.Import):
        return [_plain(node, alias) for alias in node.names]
    return [_from(node, alias, path) for alias in node.names]


def _plain(node: ast.Import, alias: ast.alias) -> Imported:
    module = PRIMITIVES_MODULE if alias.name == _OTHER_PRIMITIVES and alias.asname else alias.name
    bound = alias.asname or alias.name.split(".")[0]
    return Imported(node, module, None, bound, 0, module if alias.asname else bound)


def _from(node: ast.ImportFrom, alias: ast.alias, path: str) -> Imported:
    bound = alias.asname or alias.name
    if node.level:
        own = relative_module(path, node)
        target = f".{'.'.join([*own, alias.name])}" if own is not None else ".?"
        return Imported(node, node.module or "", alias.name, bound, node.level, target)
    module = canonical_module(node.module or "", alias.name)
    return Imported(node, module, alias.name, bound, 0, f"{module}.{alias.name}")


def canonical_module(module: str, name: str) -> str:
    """The module a name is imported from, in Cloche's own spelling."""
    if module == _OTHER_PRIMITIVES:
        return PRIMITIVES_MODULE
    if any(module == f"{prefix}{name}" for prefix in _OTHER_PROGRAMS):
        return PROGRAMS_MODULE
    return module


def relative_module(path: str, node: ast.ImportFrom) -> list[str] | None:
    """The components, from the package's root, of what a relative import names; None when it leaves the package."""
    folders = path.split("/")[:-1]
    up = node.level - 1
    if up > len(folders):
        return None
    return [*folders[: len(folders) - up], *(node.module.split(".") if node.module else [])]


def resolve(node: ast.expr, names: Mapping[str, Binding]) -> str | None:
    """The canonical dotted name an expression like `a.b.c` stands for; None when it is not known."""
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id].target
        return f"builtins.{node.id}" if node.id in BUILTINS else None
    if isinstance(node, ast.Attribute):
        base = resolve(node.value, names)
        return f"{base}.{node.attr}" if base else None
    return None


def known_names(nodes: Iterable[ast.AST], path: str) -> dict[str, Binding]:
    """Every imported name and every alias made of one, in any scope; classes stand for their first base.

    `nodes` are all nodes of the module at `path`.
    """
    names: dict[str, Binding] = {}
    aliases: list[tuple[str, ast.expr]] = []
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update((one.bound, Binding(Kind.imported, one.target)) for one in imports_of(node, path))
        else:
            aliases.extend(_aliases(node))
    for _round in range(_ALIAS_ROUNDS):
        for name, value in aliases:
            target = resolve(value, names)
            if target and name not in names and not target.startswith("builtins."):
                names[name] = Binding(Kind.value, target)
    return names


def _aliases(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names that one node binds to a name or attribute."""
    match node:
        case ast.Assign(targets=targets, value=ast.Name() | ast.Attribute() as value):
            yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Name() | ast.Attribute() as value):
            yield name, value
        case ast.NamedExpr(target=ast.Name(id=name), value=ast.Name() | ast.Attribute() as value):
            yield name, value
        case ast.ClassDef(name=name, bases=[base, *_]):
            yield name, base


def target_names(targets: Iterable[ast.expr]) -> Iterator[str]:
    """The plain names among assignment targets, unpacked ones included."""
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Tuple | ast.List):
            yield from target_names(target.elts)
        elif isinstance(target, ast.Starred):
            yield from target_names([target.value])


def bound_names(statement: ast.stmt) -> list[str]:
    """The names one module-level statement binds, `if` bodies included."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=aliases):
            return [alias.asname or alias.name.split(".")[0] for alias in aliases]
        case ast.ImportFrom(names=aliases):
            return [alias.asname or alias.name for alias in aliases]
        case ast.Assign(targets=targets):
            return list(target_names(targets))
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return list(target_names([target]))
        case ast.If(body=body, orelse=orelse):
            return [name for inner in (*body, *orelse) for name in bound_names(inner)]
    return []
