"""A small look at whether a scripted reply has the shape that its response format asks for.

Checks `type enum const required properties additionalProperties items minItems maxItems minLength maxLength minimum maximum`
and nothing else: a test that scripts a reply no run would let through is a mistake worth showing, but the validator is the
host's (all of JSON Schema). Keywords it does not know are passed over.
"""

from __future__ import annotations

from typing import Any, Final

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}


def problem(value: Any, schema: Any, at: str = "$") -> str:
    """What keeps `value` from fitting `schema`, e.g. `$.items[2]: is no string`; "" when nothing was found."""
    if not isinstance(schema, dict):
        return f"{at}: nothing is allowed" if schema is False else ""
    if "const" in schema and not _equal(value, schema["const"]):
        return f"{at}: is not {schema['const']!r}"
    if "enum" in schema and not any(_equal(value, allowed) for allowed in schema["enum"]):
        return f"{at}: is not one of {schema['enum']!r:.200}"
    return _type_problem(value, schema, at) or _bound_problem(value, schema, at) or _inner_problem(value, schema, at)


def _equal(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _type_problem(value: Any, schema: dict[str, Any], at: str) -> str:
    named = schema.get("type", [])
    names = [named] if isinstance(named, str) else named
    if not names or any(_is(value, name) for name in names):
        return ""
    return f"{at}: is no {' or '.join(names)}"


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) and name != "boolean":
        return False
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, ()))


def _bound_problem(value: Any, schema: dict[str, Any], at: str) -> str:
    if isinstance(value, (str, list)):
        least, most = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        measured: float = len(value)
        what = "length"
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        least, most, measured, what = "minimum", "maximum", value, "value"
    else:
        return ""
    if least in schema and measured < schema[least]:
        return f"{at}: its {what} is below {schema[least]}"
    if most in schema and measured > schema[most]:
        return f"{at}: its {what} is above {schema[most]}"
    return ""


def _inner_problem(value: Any, schema: dict[str, Any], at: str) -> str:
    if isinstance(value, list):
        found = (problem(item, schema.get("items", True), f"{at}[{i}]") for i, item in enumerate(value))
        return next(filter(None, found), "")
    if not isinstance(value, dict):
        return ""
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{at}: {missing[0]!r} is missing"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    found = (problem(item, known.get(name, others), f"{at}.{name}") for name, item in value.items())
    return next(filter(None, found), "")
