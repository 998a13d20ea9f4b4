"""Rules about the entry: the one public function of workflow.py, and its re-export in `__init__.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from engine.package.bindings import bound_names, imports_of, resolve
from engine.package.layout import CODE_FOLDERS, RESOURCES, TESTS
from engine.package.rules import Findings
from engine.package.source import Module, parameters, written
from engine.package.vocabulary import AGENTIC

WORKFLOW: Final = "workflow.py"
INIT: Final = "__init__.py"
_FOLDERS: Final = CODE_FOLDERS | {RESOURCES, TESTS}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_entry(modules: Mapping[str, Module], findings: Findings, *, workflow_id: str) -> None:
    """Report everything that keeps `workflows.<id>` from having exactly one entry of that name."""
    if WORKFLOW in modules:
        _Entry(modules[WORKFLOW], findings, workflow_id).check()
    if INIT in modules:
        _check_export(modules[INIT], findings, workflow_id)
    for module in modules.values():
        _check_second_agentic(module, findings, workflow_id)


class _Entry:
    """The entry in workflow.py."""

    def __init__(self, module: Module, findings: Findings, workflow_id: str) -> None:
        self._module = module
        self._findings = findings
        self._id = workflow_id
        self._names = module.names

    def _report(self, rule: str, line: int, message: str, fix: str) -> None:
        self._findings.add(rule, WORKFLOW, message, line=line, fix=fix)

    def check(self) -> None:
        public = [node for node in self._module.tree.body if _is_public_function(node) or self._is_agent(node)]
        if len(public) != 1:
            line = public[1].lineno if public else 0
            told = f"there are {len(public)} public functions instead of one."
            self._report("entry.count", line, told, f"Keep {self._id}; start the names of all others with _.")
            return
        entry = public[0]
        name = entry.name if isinstance(entry, _Function) else self._id
        if name != self._id:
            told = f"the public function is called {name}, the workflow {self._id}."
            self._report("entry.name", entry.lineno, told, f"Call it {self._id}.")
            return
        if isinstance(entry, _Function):
            self._check_function(entry)
        self._check_bound_once(entry)

    def _is_agent(self, node: ast.stmt) -> bool:
        """`<id> = Agent(…).<method>`."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(value=ast.Call(func=called))):
                return name == self._id and resolve(called, self._names) == "cloche.Agent"
        return False

    def _check_function(self, entry: _Function) -> None:
        if isinstance(entry, ast.AsyncFunctionDef) or any(_yields(entry)):
            told = "the entry is async or a generator."
            self._report("entry.kind", entry.lineno, told, "Make it a plain `def` that returns its result.")
        arguments = entry.args
        plain = len(arguments.args) == 1 and arguments.args[0].arg == "task" and len(parameters(arguments)) == 1
        if not plain or not all(isinstance(default, ast.Constant) for default in arguments.defaults):
            told = "the entry has other parameters than one plain `task` with at most a literal default."
            self._report("entry.signature", entry.lineno, told, f"Write `def {self._id}(task):`.")
        self._check_decorators(entry)

    def _check_decorators(self, entry: _Function) -> None:
        agentic = 0
        for node in entry.decorator_list:
            called = node.func if isinstance(node, ast.Call) else node
            own_name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            real = resolve(called, self._names) == AGENTIC and own_name == "agentic_function"
            agentic += real
            if not real or agentic > 1 or (isinstance(node, ast.Call) and _renames(node)):
                told = f"@{written(called)} on the entry is not the plain @agentic_function of cloche."
                fix = "Import agentic_function from cloche under its own name, use it once without a name, or leave it."
                self._report("entry.decorator", node.lineno, told, fix)

    def _check_bound_once(self, entry: ast.stmt) -> None:
        for node in self._module.tree.body:
            if node is not entry and self._id in bound_names(node):
                self._report("entry.rebound", node.lineno, f"{self._id} is bound again.", "Use another name.")
        for declared in self._module.nodes:
            if isinstance(declared, ast.Global) and self._id in declared.names:
                told = f"{self._id} is declared global, so it can be bound again."
                self._report("entry.rebound", declared.lineno, told, "Use another name.")


def _is_public_function(node: ast.stmt) -> bool:
    return isinstance(node, _Function) and not node.name.startswith("_")


def _renames(decorator: ast.Call) -> bool:
    """A positional argument, a `name`, or something that could hide one."""
    return bool(decorator.args) or any(keyword.arg in (None, "name") for keyword in decorator.keywords)


def _yields(function: _Function) -> Iterator[ast.AST]:
    """The yields of the function itself, not those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            yield node
        if not isinstance(node, _Function | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def is_generator(function: _Function) -> bool:
    """True when calling the function gives a generator."""
    return any(_yields(function))


def _check_export(module: Module, findings: Findings, workflow_id: str) -> None:
    """`from .workflow import <id>` once, and nothing else under that name."""
    exports = [
        imported
        for node in module.tree.body
        if isinstance(node, ast.ImportFrom)
        for imported in imports_of(node, INIT)
        if imported.target == f".workflow.{workflow_id}" and imported.bound == workflow_id
    ]
    bound = [node for node in module.tree.body if workflow_id in bound_names(node)]
    fix = f"Write `from .workflow import {workflow_id}` once and use the name for nothing else."
    if not exports:
        findings.add("entry.export", INIT, f"{workflow_id} is not imported from .workflow.", fix=fix)
    elif len(bound) > 1 or len(exports) > 1 or workflow_id in module.globals:
        line = bound[-1].lineno
        findings.add("entry.export", INIT, f"{workflow_id} is bound more than once.", line=line, fix=fix)
    elif workflow_id in _FOLDERS:
        told = f"the folder {workflow_id}/ shadows the entry of that name."
        findings.add("entry.export", INIT, told, line=bound[-1].lineno, fix="Choose another workflow id.")


def _check_second_agentic(module: Module, findings: Findings, workflow_id: str) -> None:
    names = module.names
    top = {id(node) for node in module.tree.body} if module.path == WORKFLOW else set()
    for function in module.nodes:
        if not isinstance(function, _Function):
            continue
        entry = function.name == workflow_id and id(function) in top
        for node in function.decorator_list:
            called = node.func if isinstance(node, ast.Call) else node
            if not entry and resolve(called, names) == AGENTIC:
                told = f"{function.name} carries @agentic_function as well."
                fix = "Only the entry may carry it; call the function from there."
                findings.add("entry.second_agentic", module.path, told, line=node.lineno, fix=fix)
