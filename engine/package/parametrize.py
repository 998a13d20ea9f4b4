"""How many cases a test has, read from its decorators without running anything.

Values of `pytest.mark.parametrize` are a list or tuple display, or a module-level name that is bound to one, once.
Stacked decorators multiply in pytest's order: the decorator next to the function varies slowest.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from itertools import product

from engine.package.bindings import Binding, bound_names, resolve
from engine.package.bounds import CASES
from engine.package.rules import Findings
from engine.package.source import Module

_SKIP = "pytest.mark.skip"
_COUNT_FIX = "Write the values as a list in the decorator, or as a module-level list bound once."


class Parametrized:
    """Counts the cases of the tests of one module."""

    def __init__(self, module: Module, findings: Findings) -> None:
        self._module = module
        self._findings = findings
        self._names: Mapping[str, Binding] = module.names
        self._displays = _module_displays(module)
        self._axes: dict[int, list[str | None]] = {}

    def resolve(self, node: ast.expr) -> str | None:
        """The canonical name of an expression in this module."""
        return resolve(node, self._names)

    def skips(self, decorators: Sequence[ast.expr]) -> list[str | None]:
        """One skip reason (None: runs) for each case of a test with these decorators, class decorators last."""
        whole: str | None = None
        axes: list[list[str | None]] = []
        for node in reversed(decorators):
            called = node.func if isinstance(node, ast.Call) else node
            name = self.resolve(called)
            if name == _SKIP:
                whole = self._reason(node) or whole
            elif name == "pytest.mark.parametrize":
                axes.append(self._axis(node))
        count = 1
        for axis in axes:
            count *= len(axis)
            if count > CASES:  # never multiplied out: the number may have thousands of digits
                self._uncountable(decorators[0], f"the test has more than {CASES:,} cases.", "Test fewer values.")
                return [whole]
        reasons = [next((reason for reason in picked if reason), None) for picked in product(*axes)]
        return [whole or reason for reason in reasons]

    def _reason(self, node: ast.expr) -> str:
        """The literal reason of a skip mark."""
        values: list[ast.expr] = []
        if isinstance(node, ast.Call):
            values = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "reason")]
        match values:
            case [ast.Constant(value=str(reason))] if reason.strip():
                return reason
        told = "a test is skipped without a literal reason."
        fix = 'Write @pytest.mark.skip(reason="why").'
        self._findings.add("tests.skip_reason", self._module.path, told, line=node.lineno, fix=fix)
        return "no reason"

    def _axis(self, node: ast.expr) -> list[str | None]:
        values = self._values(node)
        if not values or any(isinstance(value, ast.Starred) for value in values):
            self._uncountable(node, "the parameters of a test cannot be counted.", _COUNT_FIX)
            return [None]
        if len(values) > CASES:  # refused by whoever counts
            return [None] * (CASES + 1)
        # Thousands of tests may share one list of thousands; the tree, and with it its lists, lives as long as this.
        if id(values) not in self._axes:
            self._axes[id(values)] = [self._value_skip(value) for value in values]
        return self._axes[id(values)]

    def _values(self, node: ast.expr) -> list[ast.expr]:
        """The elements of the second argument; empty when it is no display or the call hides something."""
        if not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords):
            return []
        named = [keyword.value for keyword in node.keywords if keyword.arg == "argvalues"]
        positional = node.args[1:2] if not any(isinstance(arg, ast.Starred) for arg in node.args) else []
        match [*positional, *named]:
            case [ast.List(elts=elements) | ast.Tuple(elts=elements)]:
                return elements
            case [ast.Name(id=name)]:
                return self._displays.get(name, [])
        return []

    def _value_skip(self, value: ast.expr) -> str | None:
        """The skip reason of one `pytest.param(…, marks=…)`; other marks are not allowed."""
        if not (isinstance(value, ast.Call) and self.resolve(value.func) == "pytest.param"):
            return None
        marks = next((keyword.value for keyword in value.keywords if keyword.arg == "marks"), None)
        if marks is None:
            return None
        listed = marks.elts if isinstance(marks, ast.List | ast.Tuple) else [marks]
        reasons: list[str] = []
        for mark in listed:
            if self.resolve(mark.func if isinstance(mark, ast.Call) else mark) == _SKIP:
                reasons.append(self._reason(mark))
            else:
                self._uncountable(mark, "a parameter has another mark than skip.", "Remove the mark.")
        return reasons[0] if reasons else None

    def _uncountable(self, node: ast.expr, message: str, fix: str) -> None:
        self._findings.add("tests.parametrize", self._module.path, message, line=node.lineno, fix=fix)


def _module_displays(module: Module) -> dict[str, list[ast.expr]]:
    """Module-level names that are bound once, to a list or tuple display."""
    counts: dict[str, int] = dict.fromkeys(module.globals, 1)
    displays: dict[str, list[ast.expr]] = {}
    for node in module.tree.body:
        for name in bound_names(node):
            counts[name] = counts.get(name, 0) + 1
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=elements) | ast.Tuple(elts=elements))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.List(elts=elements) | ast.Tuple(elts=elements))
            ):
                displays[name] = elements
    return {name: elements for name, elements in displays.items() if counts[name] == 1}
