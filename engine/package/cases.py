"""The test cases of a package, listed from its source: what the gate expects to be reported, exactly once each.

pytest's own naming decides what is a test (functions `test*`, classes `Test*` in `test_*.py`); whatever would make
pytest collect more or less than the source shows is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from engine.package.bounds import CASES
from engine.package.contract import TestCase
from engine.package.parametrize import Parametrized
from engine.package.rules import Findings
from engine.package.source import Module

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Test:
    """One test function as written: the class it is in (or None), and its node."""

    __test__ = False

    klass: ast.ClassDef | None
    function: _Function


def tests_in(module: Module) -> Iterator[Test]:
    """The test functions of a test module, in source order."""
    for node in module.tree.body:
        if is_test_function(node):
            yield Test(None, node)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for inner in node.body:
                if is_test_function(inner):
                    yield Test(node, inner)


def is_test_function(node: ast.stmt) -> TypeGuard[_Function]:
    """True for a function pytest would collect by its name."""
    return isinstance(node, _Function) and node.name.startswith("test")


def list_cases(modules: Iterable[Module], findings: Findings) -> tuple[TestCase, ...]:
    """Every case of every test module, by file and source order; reports parameters that cannot be counted.

    Past `bounds.CASES` the rest is left out, and that is reported.
    """
    cases: list[TestCase] = []
    for module in sorted(modules, key=lambda module: module.path):
        if module.is_test_module:
            parametrized = Parametrized(module, findings)
            for test in tests_in(module):
                cases.extend(_cases(module, test, parametrized))
                if len(cases) > CASES:
                    told = f"with {test.function.name} the package has more than {CASES:,} test cases."
                    fix = "Test fewer values."
                    findings.add("tests.count", module.path, told, line=test.function.lineno, fix=fix)
                    return tuple(cases)
    return tuple(cases)


def _cases(module: Module, test: Test, parametrized: Parametrized) -> Iterator[TestCase]:
    around = test.klass.decorator_list if test.klass else []
    skips = parametrized.skips([*around, *test.function.decorator_list])
    for index, reason in enumerate(skips):
        name = test.klass.name if test.klass else ""
        yield TestCase(module.path, name, test.function.name, index, len(skips), reason)
