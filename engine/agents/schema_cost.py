"""How much work a schema with references can make of a small reply, bounded before it is compiled.

`$ref` lets a schema of a few hundred bytes stand for 2^40 checks of one value; no validator defends itself against that. This
counts, for the worst reply of `REPLY_DEPTH`, the checks along one path of it, and resolves only references into the schema itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

REPLY_DEPTH = 64
"""Nesting of a reply that has a schema, at most."""

CHECKS = 20_000
NODES_WITH_REFERENCES = 2_000

_SAME = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_ONE_OF_PARTS = ("properties",)
_EVERY_PART = (
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "unevaluatedItems",
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class TooCostly(ValueError):
    """The schema refers outside itself, or its references multiply."""


def check_cost(schema: dict[str, Any]) -> None:
    """Pass for a schema whose references stay inside it and do not multiply.

    Raises:
        TooCostly: see there.
    """
    nodes = list(_nodes(schema))
    if not any(name in node for node in nodes for name in _REFERENCES):
        return
    if len(nodes) > NODES_WITH_REFERENCES:
        raise TooCostly(f"a schema with references has at most {NODES_WITH_REFERENCES:,} parts")
    if any("$id" in node for node in nodes[1:]):
        raise TooCostly("a part of the schema has an $id of its own; name parts with $defs")
    try:
        checks = _Counter(schema, nodes).checks(schema, REPLY_DEPTH, frozenset())
    except RecursionError as error:
        raise TooCostly("its references form too long a chain") from error
    if checks > CHECKS:
        raise TooCostly(f"its references multiply to more than {CHECKS:,} checks of one value")


def _nodes(top: Any) -> Iterator[dict[str, Any]]:
    """Every object in it, the outermost first; those that are no schemas do no harm."""
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


class _Counter:
    def __init__(self, schema: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
        self._schema = schema
        self._anchors: dict[str, dict[str, Any]] = {}
        for node in nodes:
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(name), str):
                    self._anchors.setdefault(node[name], node)
        self._known: dict[tuple[int, int], int] = {}

    def checks(self, node: Any, depth: int, around: frozenset[int]) -> int:
        """Checks of a value and of one path below it that has `depth` levels left; saturates above CHECKS."""
        if not isinstance(node, dict) or depth == 0 or id(node) in around:
            return 1
        known = self._known.get((id(node), depth))
        if known is None:
            inside = around | {id(node)}
            known = 1
            for child in self._same(node):
                known += self.checks(child, depth, inside)
                if known > CHECKS:
                    break
            for group in self._below(node):
                known += max((self.checks(child, depth - 1, frozenset()) for child in group), default=0)
            self._known[id(node), depth] = known = min(known, CHECKS + 1)
        return known

    def _same(self, node: dict[str, Any]) -> Iterator[Any]:
        for name in _REFERENCES:
            if name in node:
                yield self._target(node[name])
        for name in _SAME:
            yield from _children(node.get(name), named=name == "dependentSchemas")

    def _below(self, node: dict[str, Any]) -> Iterator[list[Any]]:
        for name in _ONE_OF_PARTS:
            yield _children(node.get(name), named=True)
        for name in _EVERY_PART:
            yield from ([child] for child in _children(node.get(name), named=name == "patternProperties"))

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise TooCostly(f"{str(reference)[:200]!r} lies outside the schema; nothing is fetched")
        name = reference[1:]
        if name and not name.startswith("/"):
            if name not in self._anchors:
                raise TooCostly(f"nothing in the schema has the anchor {name[:200]!r}")
            return self._anchors[name]
        found: Any = self._schema
        for part in name.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, dict) and part in found:
                found = found[part]
            else:
                raise TooCostly(f"{reference[:200]!r} points at nothing in the schema")
        return found


def _children(value: Any, *, named: bool) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return list(value.values()) if named else [value]
    return []


def depth_of(value: Any) -> int:
    """Nesting of a JSON value; 1 for a scalar."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(node, dict | list):
            waiting += [(item, depth + 1) for item in (node.values() if isinstance(node, dict) else node)]
    return deepest
