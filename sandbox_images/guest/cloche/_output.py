"""What a model's reply must look like: a bare JSON Schema, or one with a name, a fallback and a number of retries.

Also its form as a recorded argument: a bare schema is sent as it is, a JsonSchemaOutput as a dict with the one key
`json_schema_output`, in which fields at their default are left out.
"""

from __future__ import annotations

from typing import Any, Final

_KEY: Final = "json_schema_output"


class _Unset:
    """The type of `UNSET`, which says that there is no value: None is a value."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET: Final = _Unset()


class JsonSchemaOutput:
    """A reply that must satisfy `schema` (JSON Schema 2020-12, local `$ref` only).

    `name` labels the schema for the provider. A reply that does not fit is sent back with the reason at most
    `max_validation_retries` times; after that the call gives `fallback`, or fails with CallError when there is none.
    `fallback` is given to the program unchanged and may be any value that can be recorded, None included.
    """

    # Written out: `dataclasses` brings `inspect` and `ast` along, and every cell would wait for them.
    __slots__ = ("fallback", "max_validation_retries", "name", "schema")

    def __init__(
        self, schema: dict[str, Any], name: str = "", fallback: Any = UNSET, max_validation_retries: int = 2
    ) -> None:
        self.schema: Final = schema
        self.name: Final = name
        self.fallback: Final = fallback
        self.max_validation_retries: Final = max_validation_retries

    def _fields(self) -> tuple[Any, ...]:
        return (self.schema, self.name, self.fallback, self.max_validation_retries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSchemaOutput) and self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "JsonSchemaOutput({!r}, name={!r}, fallback={!r}, max_validation_retries={!r})".format(*self._fields())


def to_argument(response_format: dict[str, Any] | JsonSchemaOutput | None) -> dict[str, Any] | None:
    """The recorded form of a `response_format`.

    Raises:
        TypeError: neither a dict nor a JsonSchemaOutput nor None.
    """
    if response_format is None or isinstance(response_format, dict):
        return response_format
    if not isinstance(response_format, JsonSchemaOutput):
        raise TypeError(f"response_format is a JSON Schema or JsonSchemaOutput, not {type(response_format).__name__}")
    sent: dict[str, Any] = {"schema": response_format.schema}
    if response_format.name:
        sent["name"] = response_format.name
    if response_format.fallback is not UNSET:
        sent["fallback"] = response_format.fallback
    if response_format.max_validation_retries != 2:
        sent["max_validation_retries"] = response_format.max_validation_retries
    return {_KEY: sent}


def from_argument(argument: dict[str, Any] | None) -> JsonSchemaOutput | None:
    """What `to_argument` sent; a bare schema becomes a JsonSchemaOutput with the defaults, None (text) stays None.

    Raises:
        ValueError: not a form that `to_argument` makes.
    """
    if argument is None:
        return None
    if not isinstance(argument, dict):
        raise ValueError(f"response_format is {type(argument).__name__}, not a JSON Schema")
    if set(argument) != {_KEY}:
        return JsonSchemaOutput(argument)
    sent = argument[_KEY]
    if not isinstance(sent, dict) or not isinstance(sent.get("schema"), dict) or not set(sent) <= _FIELDS:
        raise ValueError("json_schema_output does not hold what JsonSchemaOutput sends")
    made = JsonSchemaOutput(**sent)
    retries: object = made.max_validation_retries
    if not isinstance(made.name, str) or type(retries) is not int or retries < 0:
        raise ValueError("json_schema_output does not hold what JsonSchemaOutput sends")
    return made


_FIELDS = frozenset(("schema", "name", "fallback", "max_validation_retries"))
