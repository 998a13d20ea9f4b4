"""Rules about names and attributes in code: what reaches around the recorder, the validator or the clock.

Hygiene for replay and review, no boundary: the cell is the boundary.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from engine.package.bindings import Binding, imports_of, resolve
from engine.package.rules import Findings
from engine.package.source import Module, parameters
from engine.package.vocabulary import (
    ALLOWED_MEMBERS,
    CLOCKS,
    HIDDEN,
    HIDDEN_MEMBERS,
    REFUSED_ATTRIBUTES,
    REFUSED_NAMES,
    STANDARD,
    UNORDERED_MEMBERS,
)

_BY_NAME: Final = frozenset({"builtins.getattr", "builtins.setattr", "builtins.delattr", "builtins.hasattr"})
_GETTERS: Final = frozenset({"operator.attrgetter", "operator.methodcaller"})
_TOP_LEVEL: Final = frozenset(name.split(".")[0] for name in STANDARD)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_names(module: Module, findings: Findings) -> None:
    """Report refused names that are loaded, refused attributes, hidden modules and clocks, in any scope."""
    names = module.names
    visitor = _Names(module, findings, names)
    visitor.visit(module.tree)
    for node in module.imports:
        for imported in imports_of(node, module.path):
            if imported.level == 0 and imported.name:
                visitor.check_member(imported.target, node.lineno)


class _Names(ast.NodeVisitor):
    """Walks with the parameters in sight: a parameter called `input` is not the builtin. Depth is bounded before.

    Parameters are counted in and out, since sets made anew for each of thousands of functions cost minutes. A name that any
    function of the module declares `global` or `nonlocal` is never taken for a parameter.
    """

    def __init__(self, module: Module, findings: Findings, names: Mapping[str, Binding]) -> None:
        self._module = module
        self._findings = findings
        self._names = names
        self._parameters: Counter[str] = Counter()
        self._declared = frozenset(
            name for node in module.nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
        )

    def _report(self, rule: str, line: int, message: str, fix: str) -> None:
        self._findings.add(rule, self._module.path, message, line=line, fix=fix)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _visit_function(self, node: _Function) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self.visit(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        with self._inside(node.args):
            for statement in node.body:
                self.visit(statement)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        with self._inside(node.args):
            self.visit(node.body)

    @contextmanager
    def _inside(self, arguments: ast.arguments) -> Iterator[None]:
        names = [parameter.arg for parameter in parameters(arguments)]
        self._parameters.update(names)
        yield
        self._parameters.subtract(names)

    def _is_parameter(self, name: str) -> bool:
        return self._parameters[name] > 0 and name not in self._declared

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and node.id in REFUSED_NAMES and not self._is_parameter(node.id):
            fix = "Do without; files are read with `read` from cloche.programs, resources with `resource()`."
            self._report("name.refused", node.lineno, f"{node.id} is not available to packages.", fix)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._check_attribute_name(node.attr, node.lineno)
        target = self._resolve(node)
        if target is not None:
            self.check_member(target, node.lineno)
        self.visit(node.value)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for attribute in node.kwd_attrs:
            self._check_attribute_name(attribute, node.lineno)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self._resolve(node.func)
        literals = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if called in _BY_NAME and len(node.args) > 1:
            owner = self._resolve(node.args[0])
            for literal in literals:
                self._check_attribute_name(literal, node.lineno)
                if owner is not None:
                    self.check_member(f"{owner}.{literal}", node.lineno)
        elif called in _GETTERS:
            for literal in literals:
                for part in literal.split("."):
                    self._check_attribute_name(part, node.lineno)
        self.generic_visit(node)

    def _resolve(self, node: ast.expr) -> str | None:
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and self._is_parameter(root.id):
            return None
        return resolve(node, self._names)

    def _check_attribute_name(self, name: str, line: int) -> None:
        if name in REFUSED_ATTRIBUTES:
            told = f"the attribute {name} reaches into the interpreter."
            self._report("name.attribute", line, told, "Do without it.")

    def check_member(self, target: str, line: int) -> None:
        """Report a dotted name that is a clock, or reaches a refused module through an allowed one."""
        parts = tuple(target.split("."))
        if parts[0] not in _TOP_LEVEL:
            return
        if parts[-3:] in CLOCKS:
            self._report("name.clock", line, f"{target} reads the machine's clock.", "Use `now()` from cloche.")
        elif target in UNORDERED_MEMBERS:
            told = f"{target} starts a thread or a process, which a run does not have."
            self._report("name.hidden", line, told, "Use `parallel()`, `pipeline()` or asyncio's tasks.")
        elif target in HIDDEN_MEMBERS or (parts[-1] in HIDDEN and len(parts) > 1 and target not in ALLOWED_MEMBERS):
            told = f"{target} reaches something that packages may not import."
            self._report("name.hidden", line, told, "Use the recorded primitives of cloche instead.")
