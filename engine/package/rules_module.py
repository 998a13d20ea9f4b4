"""Rules about module level and class bodies: which statements, which decorators, constant expressions only.

A module is read from top to bottom, so that a name counts as bound only below the line that binds it, and means what
it was last bound to: a class of one's own called `date` is not the allowed constructor `date`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from engine.package.bindings import Binding, Kind, imports_of, resolve, target_names
from engine.package.constants import Constants
from engine.package.layout import is_test
from engine.package.rules import Findings
from engine.package.source import Module, parameters, written
from engine.package.vocabulary import (
    AGENTIC,
    CALLED_AT_IMPORT,
    CALLED_OF_MODULES,
    DECORATORS,
    TEST_DECORATORS,
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_ACCESSORS: Final = frozenset({"setter", "getter", "deleter"})
_METACLASSES: Final = frozenset({"abc.ABCMeta", "builtins.type"})


def check_module_level(module: Module, findings: Findings, *, entry: str = "") -> None:
    """Report everything at module level that is not a declaration. The decorators of `entry` have their own rules."""
    _ModuleLevel(module, findings, entry).check()


class _ModuleLevel:
    def __init__(self, module: Module, findings: Findings, entry: str) -> None:
        self._module = module
        self._findings = findings
        self._entry = entry
        self._constants = Constants(module, findings)
        self._evaluates_annotations = not module.postpones_annotations

    def check(self) -> None:
        for statement in self._module.tree.body:
            self._statement(statement)
        self._check_all()

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._bind_imports(node)
            case ast.If() if self._is_type_checking(node):
                for inner in node.body:
                    self._statement(inner)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
            case ast.ClassDef():
                self._class(node)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assignment(node)
            case ast.Expr(value=ast.Constant(value=value)) if isinstance(value, str):
                return
            case ast.Pass() | ast.Expr(value=ast.Constant(value=_)) if self._constants.in_class:
                return
            case _:
                self._refuse(node)

    def _refuse(self, node: ast.stmt) -> None:
        where = "a class body" if self._constants.in_class else "module level"
        told = f"a statement of the kind `{type(node).__name__.lower()}` stands at {where}."
        fix = "Module level declares; put what runs into a function."
        self._findings.add("module.statement", self._module.path, told, line=node.lineno, fix=fix)

    def _is_type_checking(self, node: ast.If) -> bool:
        """`if TYPE_CHECKING:` with nothing but imports in it, and no else."""
        condition = resolve(node.test, self._constants.names) == "typing.TYPE_CHECKING"
        only_imports = all(isinstance(inner, ast.Import | ast.ImportFrom) for inner in node.body)
        return condition and only_imports and not node.orelse and not self._constants.in_class

    def _bind_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        for imported in imports_of(node, self._module.path):
            self._bind(imported.bound, Binding(Kind.imported, imported.target), node)

    def _bind(self, name: str, binding: Binding, node: ast.stmt) -> None:
        if name in (CALLED_AT_IMPORT if self._constants.in_class else CALLED_OF_MODULES):
            told = f"Python calls {name} by itself while the module is imported."
            fix = "Leave it out; write down what it would compute."
            self._findings.add("module.special", self._module.path, told, line=node.lineno, fix=fix)
        self._constants.bind(name, binding)

    def _function(self, node: _Function) -> None:
        checked = not (node.name == self._entry and not self._constants.in_class)
        decorators = [self._decorator(decorator, checked=checked) for decorator in node.decorator_list]
        arguments = node.args
        for default in [*arguments.defaults, *(value for value in arguments.kw_defaults if value is not None)]:
            self._constants.check(default)
        annotations = [parameter.annotation for parameter in parameters(arguments)]
        for annotation in [*annotations, node.returns]:
            if annotation is not None:
                self._constants.check(annotation, evaluated=self._evaluates_annotations)
        target = "functools.singledispatch" if "functools.singledispatch" in decorators else None
        self._bind(node.name, Binding(Kind.function, target), node)

    def _class(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self._decorator(decorator, checked=True)
        for base in node.bases:
            self._constants.check(base)
        for keyword in node.keywords:
            self._constants.check(keyword.value)
            if keyword.arg == "metaclass" and resolve(keyword.value, self._constants.names) not in _METACLASSES:
                told = f"class {node.name} has a metaclass of its own, which would run at import."
                fix = "Leave the metaclass out; ABCMeta is allowed."
                self._findings.add("module.metaclass", self._module.path, told, line=keyword.value.lineno, fix=fix)
        self._constants.open_class()
        for statement in node.body:
            self._statement(statement)
        self._constants.close_class()
        self._bind(node.name, Binding(Kind.klass), node)

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AnnAssign):
            self._constants.check(node.annotation, evaluated=self._evaluates_annotations)
        if node.value is not None:
            self._constants.check(node.value)
        if not all(_binds_names_only(target) for target in targets):
            self._refuse(node)
            return
        if isinstance(node, ast.AugAssign):
            self._constants.check(ast.copy_location(ast.Name(next(target_names(targets)), ast.Load()), node))
        if node.value is None and not self._constants.in_class:
            return
        target = resolve(node.value, self._constants.names) if node.value is not None else None
        known = self._constants.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
        kind = known.kind if known is not None else Kind.imported if target else Kind.value
        for name in target_names(targets):
            self._bind(name, Binding(kind, target), node)

    def _decorator(self, node: ast.expr, *, checked: bool) -> str | None:
        """Check one decorator and its arguments; returns its canonical name."""
        called = node.func if isinstance(node, ast.Call) else node
        name = resolve(called, self._constants.names)
        if isinstance(node, ast.Call):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                self._constants.check(argument)
        if checked and not self._is_allowed_decorator(called, name):
            told = f"@{written(called)} is no decorator that packages may use."
            fix = "Use one of the decorators in docs/reference/rules.md, or call a function inside the body."
            self._findings.add("module.decorator", self._module.path, told, line=node.lineno, fix=fix)
        return name

    def _is_allowed_decorator(self, called: ast.expr, name: str | None) -> bool:
        if name in DECORATORS or name == AGENTIC:
            return True
        if is_test(self._module.path) and (name in TEST_DECORATORS or (name or "").startswith("pytest.mark.")):
            return name in TEST_DECORATORS or name in ("pytest.mark.xfail", "pytest.mark.skipif")
        if not (isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)):
            return False
        owner = self._constants.local(called.value.id)
        if owner is None or owner.kind is not Kind.function:
            return False
        return called.attr in _ACCESSORS or (called.attr == "register" and owner.target == "functools.singledispatch")

    def _check_all(self) -> None:
        """`__all__` is written down once, as strings."""
        rebound = "__all__" in self._module.globals
        bodies = [node for node in self._module.tree.body if "__all__" in _assigned(node)]
        for node in bodies:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            plain = isinstance(value, ast.List | ast.Tuple) and _are_strings(value.elts)
            if not plain or len(bodies) > 1 or rebound:
                fix = 'Write it once: __all__ = ["name"].'
                told = "`__all__` is no literal list of strings."
                self._findings.add("module.all", self._module.path, told, line=node.lineno, fix=fix)


def _binds_names_only(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(_binds_names_only(inner) for inner in target.elts)
    return isinstance(target.value if isinstance(target, ast.Starred) else target, ast.Name)


def _assigned(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return list(target_names(node.targets))
    return list(target_names([node.target])) if isinstance(node, ast.AnnAssign | ast.AugAssign) else []


def _are_strings(nodes: Sequence[ast.expr]) -> bool:
    return all(isinstance(node, ast.Constant) and isinstance(node.value, str) for node in nodes)
