"""Rules about tests: what pytest collects is what the source shows, and no outcome is bent.

Counting cases is in `cases`; here is what would make that count wrong or a pass worthless.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from engine.package.bindings import Binding, bound_names, resolve
from engine.package.cases import is_test_function, tests_in
from engine.package.contract import TestCase
from engine.package.layout import TEST_FILE
from engine.package.rules import Findings
from engine.package.rules_entry import is_generator
from engine.package.source import Module, line_of
from engine.package.vocabulary import MARKS

_INIT: Final = "tests/__init__.py"
_CONFTEST: Final = "tests/conftest.py"
_FIXTURE: Final = "pytest.fixture"
_BENT: Final = ("pytest.skip", "pytest.xfail", "pytest.importorskip", "pytest.exit")
_BENT_MARKS: Final = ("pytest.mark.xfail", "pytest.mark.skipif")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_tests(modules: Mapping[str, Module], cases: Sequence[TestCase], findings: Findings) -> None:
    """Report what is wrong with the modules under tests/ and with the cases they hold."""
    for module in modules.values():
        if module.is_test:
            _TestModule(module, findings).check()
    if _INIT in modules and modules[_INIT].tree.body:
        findings.add("tests.init", _INIT, "is not empty.", fix="Empty it; fixtures go to tests/conftest.py.")
    if TEST_FILE in modules:
        _check_counts(cases, findings)


def _check_counts(cases: Sequence[TestCase], findings: Findings) -> None:
    skipped = sum(case.skip_reason is not None for case in cases)
    if not cases:
        findings.add("tests.none", TEST_FILE, "holds no test.", fix="Write a function test_… that calls the entry.")
    elif skipped * 2 > len(cases):
        told = f"{skipped} of {len(cases)} cases are skipped, more than half."
        findings.add("tests.skip_share", TEST_FILE, told, fix="Make them pass, or remove them.")


class _TestModule:
    def __init__(self, module: Module, findings: Findings) -> None:
        self._module = module
        self._findings = findings
        self._names: Mapping[str, Binding] = module.names

    def check(self) -> None:
        self._check_hooks()
        self._check_outcomes()
        self._check_fixtures()
        if self._module.path == _CONFTEST:
            self._check_conftest()
        if self._module.is_test_module:
            self._check_module_names()
            self._check_tests()
            self._check_classes()

    def _report(self, rule: str, line: int, message: str, fix: str) -> None:
        self._findings.add(rule, self._module.path, message, line=line, fix=fix)

    def _name_of(self, decorator: ast.expr) -> str | None:
        return resolve(decorator.func if isinstance(decorator, ast.Call) else decorator, self._names)

    def _check_hooks(self) -> None:
        for node in self._module.tree.body:
            for name in bound_names(node):
                if name.startswith("pytest_"):
                    told = f"{name} changes how pytest works."
                    self._report("tests.hook", node.lineno, told, "Remove it; tests run with pytest's defaults.")

    def _check_outcomes(self) -> None:
        allowed = {id(node) for node in self._mark_places()}
        for node in self._module.nodes:
            if not isinstance(node, ast.Attribute | ast.Name):
                continue
            name = resolve(node, self._names) or ""
            if name in _BENT or name in _BENT_MARKS or (name == "pytest.mark.skip" and id(node) not in allowed):
                told = f"{name} decides an outcome at run time or turns a failure into a pass."
                fix = 'Let the test pass or fail; a fixed skip is @pytest.mark.skip(reason="why") on the test.'
                self._report("tests.outcome", node.lineno, told, fix)

    def _mark_places(self) -> Iterator[ast.expr]:
        """Where a skip mark may stand: decorators, and `marks` of a parameter."""
        for node in self._module.nodes:
            if isinstance(node, _Function | ast.ClassDef):
                for decorator in node.decorator_list:
                    yield decorator.func if isinstance(decorator, ast.Call) else decorator
            elif isinstance(node, ast.Call) and resolve(node.func, self._names) == "pytest.param":
                for keyword in node.keywords:
                    marks = keyword.value
                    for mark in marks.elts if isinstance(marks, ast.List | ast.Tuple) else [marks]:
                        yield mark.func if isinstance(mark, ast.Call) else mark

    def _check_fixtures(self) -> None:
        for node in self._module.nodes:
            if not (isinstance(node, ast.Call) and resolve(node.func, self._names) == _FIXTURE):
                continue
            if any(keyword.arg in (None, "params") for keyword in node.keywords):
                fix = "Parametrise the tests instead, so that their cases can be counted."
                self._report("tests.fixture_params", node.lineno, "a fixture has params.", fix)

    def _check_conftest(self) -> None:
        for node in self._module.tree.body:
            if isinstance(node, _Function):
                fixture = any(self._name_of(decorator) == _FIXTURE for decorator in node.decorator_list)
                wrong = not fixture and not node.name.startswith(("_", "pytest_"))
            else:
                wrong = isinstance(node, ast.ClassDef) or any(
                    name.startswith("collect_ignore") for name in bound_names(node)
                )
            if wrong:
                told = "something else than a fixture stands in conftest.py."
                self._report("tests.conftest", node.lineno, told, "Move it to helpers/ or make it a fixture.")

    def _collect(self, node: ast.AST, message: str, fix: str) -> None:
        self._report("tests.collect", line_of(node), message, fix)

    def _check_module_names(self) -> None:
        """Names that pytest would collect, but that are not written here as functions and classes, or twice."""
        for node in self._module.tree.body:
            for name in bound_names(node):
                defined = isinstance(node, _Function | ast.ClassDef)
                known = self._names.get(name)
                if known is not None and known.target == "cloche.testing":
                    continue
                if name in ("pytestmark", "__test__") or (not defined and name.startswith(("test", "Test"))):
                    self._collect(node, f"{name} changes what pytest collects.", "Use another name.")
        self._check_twice(self._module.tree.body)

    def _check_twice(self, body: Sequence[ast.stmt]) -> None:
        counts = Counter(name for node in body for name in bound_names(node))
        for node in body:
            for name in bound_names(node):
                if counts[name] > 1 and name.startswith(("test", "Test")):
                    self._collect(node, f"{name} is bound more than once; only the last counts.", "Rename one.")

    def _check_tests(self) -> None:
        for test in tests_in(self._module):
            node = test.function
            if isinstance(node, ast.AsyncFunctionDef) or is_generator(node):
                self._collect(node, f"{node.name} is async or a generator.", "Use asyncio.run inside a plain test.")
            for decorator in node.decorator_list:
                name = self._name_of(decorator)
                if name not in MARKS and name not in _BENT_MARKS and name != "builtins.staticmethod":
                    told = f"{node.name} has another decorator than the allowed marks."
                    self._collect(decorator, told, "Use parametrize, skip and usefixtures only.")

    def _check_classes(self) -> None:
        for klass in self._module.tree.body:
            if not (isinstance(klass, ast.ClassDef) and klass.name.startswith("Test")):
                continue
            if klass.bases or klass.keywords:
                self._collect(klass, f"{klass.name} inherits.", "Use a class without bases, or another name.")
            for decorator in klass.decorator_list:
                if self._name_of(decorator) not in (*MARKS, *_BENT_MARKS):
                    self._collect(decorator, f"{klass.name} has another decorator than marks.", "Remove it.")
            self._check_twice(klass.body)
            for node in klass.body:
                self._check_member(klass, node)

    def _check_member(self, klass: ast.ClassDef, node: ast.stmt) -> None:
        special = {"__init__", "__new__", "__test__", "pytestmark"}
        nested = isinstance(node, ast.ClassDef) and node.name.startswith("Test")
        names = bound_names(node)
        aliased = not is_test_function(node) and any(name.startswith("test") for name in names)
        if nested or aliased or special.intersection(names):
            told = f"{klass.name} holds something that changes what pytest collects."
            self._collect(node, told, "Keep plain test methods and fixtures only.")
