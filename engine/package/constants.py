"""Constant expressions: what may stand at module level, in class bodies, defaults, annotations, decorator arguments.

They can be understood without running anything: literals, names already bound, attributes of imported things and of
classes, operators, f-strings, subscripts, displays, and calls of a few constructors.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Final

from engine.package.bindings import BUILTINS, Binding, Kind, resolve
from engine.package.rules import Findings
from engine.package.source import Module, written
from engine.package.vocabulary import CLASS_CONSTRUCTORS, CONSTRUCTORS, REFUSED_NAMES, TEST_CONSTRUCTORS

_MODULE_NAMES: Final = frozenset({"__name__", "__doc__", "__file__", "__package__", "__qualname__", "__module__"})
_PLAIN: Final = (
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.Dict,
    ast.Starred,
)
"""Expressions that are constant when their parts are."""
_CALL_FIX: Final = "Call it inside a function; module level may call the constructors in docs/reference/rules.md only."


class Constants:
    """Checks expressions of one module against the names bound so far; the caller binds and opens class scopes."""

    def __init__(self, module: Module, findings: Findings) -> None:
        self._module = module
        self._findings = findings
        self._scopes: list[dict[str, Binding]] = [{}]

    @property
    def names(self) -> Mapping[str, Binding]:
        """Names visible here, inner scopes first."""
        return ChainMap(*reversed(self._scopes))

    def bind(self, name: str, binding: Binding) -> None:
        """Record that `name` is bound from here on, in the innermost scope."""
        self._scopes[-1][name] = binding

    def local(self, name: str) -> Binding | None:
        """What `name` stands for in the innermost scope."""
        return self._scopes[-1].get(name)

    def open_class(self) -> None:
        self._scopes.append({})

    def close_class(self) -> None:
        self._scopes.pop()

    @property
    def in_class(self) -> bool:
        return len(self._scopes) > 1

    def check(self, node: ast.expr, *, evaluated: bool = True) -> None:
        """Report what in `node` is not constant. `evaluated=False`: an annotation that is never evaluated."""
        match node:
            case ast.Constant():
                return
            case ast.Name():
                self._check_name(node, evaluated=evaluated)
            case ast.Attribute():
                self._check_attribute(node, evaluated=evaluated)
            case ast.Call():
                self._check_call(node, evaluated=evaluated)
            case _ if isinstance(node, _PLAIN):
                for part in _parts(node):
                    self.check(part, evaluated=evaluated)
            case _:
                told = f"{_described(node)} is no constant expression."
                self._report("module.expression", node, told, "Move it into a function.")

    def _check_name(self, node: ast.Name, *, evaluated: bool) -> None:
        known = node.id in self.names or node.id in BUILTINS or node.id in _MODULE_NAMES or node.id in REFUSED_NAMES
        if evaluated and not known:
            self._report("module.unbound", node, f"{node.id} is not bound yet.", "Bind or import it above this line.")

    def _check_attribute(self, node: ast.Attribute, *, evaluated: bool) -> None:
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Call) and resolve(root.func, self.names) == "cloche.Agent":
            self.check(root, evaluated=evaluated)
            return
        if not isinstance(root, ast.Name) or not self._has_attributes(root.id):
            told = f"the attribute {node.attr} of a value is no constant expression."
            self._report("module.expression", node, told, "Take it inside a function.")
            return
        self._check_name(root, evaluated=evaluated)

    def _has_attributes(self, name: str) -> bool:
        """Imported things and classes have attributes that are there before anything runs."""
        binding = self.names.get(name)
        return binding is None or binding.kind in (Kind.imported, Kind.klass)

    def _check_call(self, node: ast.Call, *, evaluated: bool) -> None:
        called = resolve(node.func, self.names)
        if called not in self._allowed():
            told = f"{written(node.func)}() is called at module level."
            self._report("module.call", node, told, _CALL_FIX)
            return
        for argument in node.args:
            self.check(argument, evaluated=evaluated)
        for keyword in node.keywords:
            if not (called == "pytest.param" and keyword.arg == "marks"):
                self.check(keyword.value, evaluated=evaluated)

    def _allowed(self) -> frozenset[str]:
        allowed = CONSTRUCTORS
        if self.in_class:
            allowed |= CLASS_CONSTRUCTORS
        if self._module.is_test:
            allowed |= TEST_CONSTRUCTORS
        return allowed

    def _report(self, rule: str, node: ast.expr, message: str, fix: str) -> None:
        self._findings.add(rule, self._module.path, message, line=node.lineno, fix=fix)


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child


def _described(node: ast.expr) -> str:
    names = {
        ast.Lambda: "a lambda",
        ast.ListComp: "a comprehension",
        ast.SetComp: "a comprehension",
        ast.DictComp: "a comprehension",
        ast.GeneratorExp: "a comprehension",
        ast.NamedExpr: "an assignment expression",
    }
    return names.get(type(node), f"{type(node).__name__.lower()}")
