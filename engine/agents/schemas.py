"""JSON Schemas that come out of a cell, compiled without fetching anything and bounded before they are.

A `$ref` that leaves the schema is refused: nothing a cell sends makes the host open a file or a connection.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from engine.agents.schema_cost import REPLY_DEPTH, check_cost, depth_of

if TYPE_CHECKING:
    import jsonschema_rs

BYTES = 256 * 1024
DEPTH = 64
NODES = 20_000
PATTERN_BYTES = 1024 * 1024
"""Memory of one compiled pattern, at most."""

PROBLEMS_TOLD = 5


class BadSchema(ValueError):
    """A schema that is none, is too large, or refers to something outside itself."""


@dataclass(frozen=True)
class OutputSchema:
    """A compiled schema. Made by `compile_schema`."""

    schema: dict[str, Any]
    _validator: jsonschema_rs.Validator

    def problems(self, value: Any) -> str:
        """What is wrong with a JSON value, a line each, the first few; "" when it satisfies the schema."""
        if depth_of(value) > REPLY_DEPTH:
            return f"the reply is nested deeper than {REPLY_DEPTH}"
        told: list[str] = []
        for error in self._validator.iter_errors(value):
            if len(told) == PROBLEMS_TOLD:
                told.append("and more")
                break
            where = "".join(f"/{part}" for part in error.instance_path) or "the reply"
            told.append(f"{where}: {str(error.message)[:500]}")
        return "\n".join(told)


def compile_schema(schema: dict[str, Any]) -> OutputSchema:
    """The validator of a JSON Schema (2020-12 unless `$schema` says otherwise; patterns are linear-time).

    Raises:
        BadSchema: it is larger, deeper or has more parts than the bounds, is no JSON Schema, or refers outside itself.
    """
    import jsonschema_rs  # 20 ms, which only a run that asks for a form needs

    _bound(schema)
    try:
        check_cost(schema)
        validator = jsonschema_rs.validator_for(
            schema,
            retriever=_refuse,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES),
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        reason = str(error).partition("\n")[0][:500]
        raise BadSchema(f"the response format is not usable: {reason}") from error
    return OutputSchema(schema, validator)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri[:200]} lies outside the schema; nothing is fetched")


def _bound(schema: dict[str, Any]) -> None:
    nodes, level = 0, [(schema, 1)]
    while level:
        node, depth = level.pop()
        nodes += 1
        if depth > DEPTH or nodes > NODES:
            raise BadSchema(f"a response format is nested at most {DEPTH} deep and has at most {NODES:,} parts")
        if isinstance(node, dict):
            if not all(isinstance(name, str) for name in node):
                raise BadSchema("a response format is JSON: its names are text")
            level += [(item, depth + 1) for item in node.values()]
        elif isinstance(node, list):
            level += [(item, depth + 1) for item in node]
        elif not (node is None or isinstance(node, str | int | float)):
            raise BadSchema(f"a response format is JSON: {type(node).__name__} is not")
    try:
        size = len(json.dumps(schema, allow_nan=False, ensure_ascii=False).encode())
    except (ValueError, RecursionError) as error:
        raise BadSchema("a response format is JSON: this is not") from error
    if size > BYTES:
        raise BadSchema(f"a response format has at most {BYTES:,} bytes, this one {size:,}")
