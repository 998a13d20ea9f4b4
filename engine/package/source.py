"""Python files as syntax trees, made so that no source can take the validator down.

Brackets are counted before the parser sees the text, the depth of the tree before anything recurses over it; what the
parser itself gives up on (memory, recursion, odd values) is a diagnostic. Nothing is executed.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from engine.package import bounds
from engine.package.bindings import Binding, known_names
from engine.package.contract import SourceFile
from engine.package.layout import is_test, is_test_module
from engine.package.rules import Findings

_TOKENS: Final = re.compile(
    r"#[^\r\n]*"
    r"|\"\"\"[^\"\\]*(?:(?:\\.|\"(?!\"\"))[^\"\\]*)*(?:\"\"\"|\\?\Z)"
    r"|'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'{3}|\\?\Z)"
    r"|\"[^\"\\\r\n]*(?:\\.[^\"\\\r\n]*)*\"?"
    r"|'[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*'?"
    r"|\w+"
    r"|[^\s\w]",
    re.DOTALL,
)
_NESTING: Final = (ast.stmt, ast.expr, ast.pattern)
_CODE: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.comprehension)
_COMPILED_FUNCTIONS: Final = 2000
"""Compiling takes time quadratic in the number of functions (8,000 empty ones: 9 s), and only finds what the parser
cannot see, such as `return` outside a function. Larger modules are left to the gate, which imports them."""
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_F_STRING_EFFORT: Final = 500_000_000
"""Length times expressions; Python 3.11 reads an f-string anew for each (1 MiB with 300,000: minutes)."""
_WARNINGS: Final = threading.Lock()


@dataclass(frozen=True)
class Module:
    """One parsed Python file: its tree, and every node of it in no particular order."""

    path: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    @cached_property
    def names(self) -> Mapping[str, Binding]:
        """What imported names and aliases stand for, in any scope."""
        return known_names(self.nodes, self.path)

    @cached_property
    def imports(self) -> tuple[ast.Import | ast.ImportFrom, ...]:
        """Every import statement, wherever it stands."""
        return tuple(node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom))

    @cached_property
    def globals(self) -> frozenset[str]:
        """Names that some function declares `global`: they may be bound at any time."""
        return frozenset(name for node in self.nodes if isinstance(node, ast.Global) for name in node.names)

    @property
    def is_test(self) -> bool:
        """True for every module under `tests/`."""
        return is_test(self.path)

    @property
    def is_test_module(self) -> bool:
        """True for `tests/test_*.py`."""
        return is_test_module(self.path)

    @property
    def postpones_annotations(self) -> bool:
        """True with `from __future__ import annotations`: annotations are not evaluated."""
        return any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in self.tree.body
        )


@dataclass
class Budget:
    """Tokens that the Python files of one package may still hold; below 0 when they held more."""

    left: int = bounds.TOKENS


def parse_module(file: SourceFile, findings: Findings, budget: Budget) -> Module | None:
    """The syntax tree of `file`, or None with a `text.nesting`, `text.tokens` or `text.syntax` diagnostic.

    The text must be UTF-8. Without a diagnostic when a file before it spent the budget.
    """
    if budget.left < 0 or _is_too_much(file, findings, budget):
        return None
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = compile(file.data, file.path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
            assert isinstance(tree, ast.Module)
            nodes = _flatten(tree)
            if nodes is None:
                _too_deep(file.path, findings)
                return None
            if sum(isinstance(node, _CODE) for node in nodes) <= _COMPILED_FUNCTIONS:
                compile(tree, file.path, "exec", dont_inherit=True)
        except SyntaxError as error:
            line = error.lineno or 0
            findings.add("text.syntax", file.path, f"{error.msg}.", line=line, fix="Correct the Python syntax.")
            return None
        except (MemoryError, RecursionError):
            _too_deep(file.path, findings)
            return None
        except (ValueError, OverflowError) as error:
            findings.add("text.syntax", file.path, f"does not compile: {error}.", fix="Write it simpler.")
            return None
    return Module(file.path, tree, nodes)


def _too_deep(path: str, findings: Findings) -> None:
    message = f"nests more than {bounds.NESTING} levels deep."
    findings.add("text.nesting", path, message, fix="Name the inner parts and use the names.")


def _too_many(path: str, findings: Findings) -> None:
    message = f"with this file the Python code holds more than {bounds.TOKENS:,} words and signs."
    fix = "Move data into resources/ and read it with `resource()`, or make several workflows of it."
    findings.add("text.tokens", path, message, fix=fix)


def _is_too_much(file: SourceFile, findings: Findings, budget: Budget) -> bool:
    """Report what must not reach the parser: too much code, deep brackets, and f-strings it needs quadratic time for."""
    depth = deepest = effort = count = 0
    text = file.data.decode("utf-8")
    for token in _TOKENS.finditer(text):
        written = token.group()
        if written[0] != "#":
            count += 1
        if count > budget.left:
            budget.left -= count
            _too_many(file.path, findings)
            return True
        if written in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif written in _CLOSING:
            depth -= 1
        elif written[0] in "\"'" and "f" in text[max(0, token.start() - 2) : token.start()].lower():
            effort += len(written) * written.count("{")
    budget.left -= count
    if deepest > bounds.NESTING:
        _too_deep(file.path, findings)
    elif effort > _F_STRING_EFFORT:
        told = "an f-string has too many expressions for its length."
        findings.add("text.syntax", file.path, told, fix="Join the parts of a list instead.")
    else:
        return False
    return True


def _flatten(tree: ast.AST) -> tuple[ast.AST, ...] | None:
    """Every node but contexts (`Load`), without recursion; None past the allowed depth of statements and expressions."""
    nodes: list[ast.AST] = []
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > bounds.NESTING:
            return None
        nodes.append(node)
        for field in node._fields:
            value = getattr(node, field, None)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST) and field != "ctx":
                    waiting.append((child, depth + isinstance(child, _NESTING)))
    return tuple(nodes)


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Every parameter, variadic ones included."""
    variadic = [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *variadic]


def written(node: ast.expr) -> str:
    """The start of an expression as code, for a message."""
    try:
        return ast.unparse(node)[:80]
    except ValueError:  # it holds an integer that is longer than Python writes out
        return "…"


def line_of(node: ast.AST) -> int:
    """The line a node starts on."""
    return getattr(node, "lineno", 0)
