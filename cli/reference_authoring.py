"""docs/reference/authoring.md: what a package and its tests may call, rendered from signatures and docstrings of the guest.

Refuses nothing and runs nothing: only text of the source is read.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import cloche
from cloche import programs, testing

PIECES = ("Page", "Entries", "Entry", "Paths", "Matches", "Match")
"""What the file tools return, in the order of the page."""


def authoring_page() -> str:
    """The whole page."""
    return "\n".join(_page())


def documented() -> dict[str, list[str]]:
    """Module → names that have an entry on the page, in its order."""
    return {
        "cloche": sorted(cloche.__all__, key=str.lower),
        "cloche.programs": [*sorted(programs.__all__), *PIECES],
        "cloche.testing": sorted(testing.__all__, key=str.lower),
    }


def _page() -> Iterator[str]:
    yield "# What code may call\n"
    yield "Everything that a package and its tests import from Cloche. How it is used: [write a package](../guide/write-a-package.md)."
    yield "Arguments and results are [values](codec.md) that can be recorded; others are refused before the call. The same text is in"
    yield "the docstrings: in a Python that has Cloche installed, `import cloche` works, with types, and calls outside a run say so.\n"
    yield "A `Prompt` is text, or a list of content blocks. A `ResponseFormat` is a JSON Schema as a dict, or `JsonSchemaOutput`."
    for title, module in (("cloche", cloche), ("cloche.programs", programs), ("cloche.testing", testing)):
        yield f"\n## {title}"
        if module is not cloche:
            yield ""
            yield from _prose(_after_first_line(module))
        for name in documented()[title]:
            thing = getattr(module, name)
            yield f"\n### {name}\n\n```python\n{signature(thing)}\n```\n"
            yield from _prose(inspect.cleandoc(thing.__doc__ or ""))
    yield ""


def _after_first_line(module: ModuleType) -> str:
    """The module's own words without their first line, which is for readers of the source, and without code blocks."""
    paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")[1:]
    return "\n\n".join(text for text in paragraphs if not text.startswith("    "))


def signature(thing: Any) -> str:
    """How it is written in source: a function with its parameters, a class with what it is made of or holds."""
    node = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(thing)))).body[0]
    if isinstance(node, ast.FunctionDef):
        manager = any("contextmanager" in ast.unparse(one) for one in node.decorator_list)
        return (
            f"with {_call(node)}: ..." if manager else f"{_call(node)} -> {ast.unparse(node.returns or ast.Name(''))}"
        )
    if isinstance(node, ast.AsyncFunctionDef):
        return f"await {_call(node)} -> {ast.unparse(node.returns or ast.Name(''))}"
    assert isinstance(node, ast.ClassDef)
    made = [
        one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__" and one.args.args[1:]
    ]
    if made:
        made[0].args.args.pop(0)
        return f"{node.name}({ast.unparse(made[0].args)})"
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    fields = [f"    {ast.unparse(one)}" for one in node.body if isinstance(one, ast.AnnAssign)]
    methods = [f"    {_call(one)} -> {ast.unparse(one.returns or ast.Name(''))}" for one in _public_methods(node)]
    head = f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    return "\n".join([head, *(fields + methods or ["    ..."])])


def _public_methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]


def _call(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return f"{node.name}({ast.unparse(node.args)})"


def _prose(text: str) -> Iterator[str]:
    """Paragraphs as they are; what is raised as a list."""
    for number, paragraph in enumerate(text.split("\n\n") if text else []):
        if number:
            yield ""
        if not paragraph.startswith("Raises:\n"):
            yield paragraph
            continue
        told = textwrap.dedent(paragraph.removeprefix("Raises:\n"))
        yield "Raises:\n"
        yield from (f"- {' '.join(entry.split())}" for entry in re.split(r"\n(?=\S)", told))
