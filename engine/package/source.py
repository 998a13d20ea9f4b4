"""Python files as syntax trees, made so that no source can take the validator down.

Brackets are counted before the parser sees the text, the depth of the tree before anything recurses over it; what the
parser itself gives up on (memory, recursion, odd values) is a diagnostic. Nothing is executed.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engine.package import bounds
from engine.package.contract import SourceFile
from engine.package.layout import is_test, is_test_module
from engine.package.rules import Findings

_TOKENS: Final = re.compile(
    r"#[^\r\n]*"
    r"|\"\"\"[^\"\\]*(?:(?:\\.|\"(?!\"\"))[^\"\\]*)*(?:\"\"\"|\\?\Z)"
    r"|'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'{3}|\\?\Z)"
    r"|\"[^\"\\\r\n]*(?:\\.[^\"\\\r\n]*)*\"?"
    r"|'[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*'?"
    r"|[\[\](){}]",
    re.DOTALL,
)
_WARNINGS = threading.Lock()


@dataclass(frozen=True)
class Module:
    """One parsed Python file."""

    path: str
    tree: ast.Module

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


def parse_module(file: SourceFile, findings: Findings) -> Module | None:
    """The syntax tree of `file`, or None with a `text.nesting` or `text.syntax` diagnostic. The text must be UTF-8."""
    if _bracket_depth(file.data.decode("utf-8")) > bounds.NESTING:
        _too_deep(file.path, findings)
        return None
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = compile(file.data, file.path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
            assert isinstance(tree, ast.Module)
            if _tree_depth(tree) > bounds.NESTING:
                _too_deep(file.path, findings)
                return None
            compile(tree, file.path, "exec", dont_inherit=True)
        except SyntaxError as error:
            line = error.lineno or 0
            findings.add("text.syntax", file.path, f"{error.msg}.", line=line, fix="Correct the Python syntax.")
            return None
        except (MemoryError, RecursionError, ValueError, OverflowError) as error:
            told = f"the parser gives up ({type(error).__name__})."
            findings.add("text.syntax", file.path, told, fix="Write it simpler; split the file.")
            return None
    return Module(file.path, tree)


def _too_deep(path: str, findings: Findings) -> None:
    message = f"nests more than {bounds.NESTING} levels deep."
    findings.add("text.nesting", path, message, fix="Name the inner parts and use the names.")


def _bracket_depth(text: str) -> int:
    """Deepest bracket nesting outside strings and comments; exact for text that Python accepts."""
    depth = deepest = 0
    for token in _TOKENS.finditer(text):
        character = token.group()
        if character in ("(", "[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif character in (")", "]", "}"):
            depth -= 1
    return deepest


def _tree_depth(tree: ast.AST) -> int:
    """Depth of statements and expressions, counted without recursion."""
    deepest = 0
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting.extend(
            (child, depth + isinstance(child, ast.stmt | ast.expr | ast.pattern)) for child in children(node)
        )
    return deepest


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Direct children in source order."""
    return ast.iter_child_nodes(node)


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Every parameter, variadic ones included."""
    variadic = [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *variadic]


def line_of(node: ast.AST) -> int:
    """The line a node starts on."""
    return getattr(node, "lineno", 0)
