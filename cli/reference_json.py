"""docs/reference/json.md: every object that `--json` prints, as tables, rendered from the models that `cli.schemas` lists."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from cli.schema_errors import ErrorObject
from cli.schemas import SCHEMAS

_PLAIN = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    Path: "path",
    Any: "any",
    NoneType: "null",
}


def json_page() -> str:
    """The whole page."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield "# JSON\n"
    yield "With `--json` a verb prints one object to stdout, also when it fails. `ok` says whether it did what it was asked."
    yield "Fields are never left out unless the table says so; new ones come with a line in the changelog. Ctrl-C prints none.\n"
    yield "| verb | object |\n|---|---|"
    yield from (f"| `{verb}` | {type_name(model)} |" for verb, model in SCHEMAS.items())
    yield f"| any, when it fails | {type_name(ErrorObject)} |"
    for model in models():
        yield f"\n## {title(model)}\n\n{_about(model)}\n\n| field | type | |\n|---|---|---|"
        for name, field in model.model_fields.items():
            described = (field.description or "").replace("|", "\\|")
            yield f"| `{field.alias or name}` | {type_name(field.annotation)} | {described} |"
    yield ""


def models() -> list[type[BaseModel]]:
    """Every model that a verb's object holds, each once, where it is first needed."""
    found: list[type[BaseModel]] = []

    def visit(annotation: Any) -> None:
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            for part in get_args(annotation):
                visit(part)
        elif annotation not in found:
            found.append(annotation)
            for field in annotation.model_fields.values():
                visit(field.annotation)

    for model in (ErrorObject, *SCHEMAS.values()):
        visit(model)
    return found


def title(model: type[BaseModel]) -> str:
    """The name of a model on the page."""
    return model.__name__.removesuffix("Object").removesuffix("View")


def _about(model: type[BaseModel]) -> str:
    return inspect.cleandoc(model.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def type_name(annotation: Any) -> str:
    """A type in words; models as links to their table."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(parts[0])
    if origin is Literal:
        return ", ".join(_value(part) for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(type_name(part) for part in parts)
    if origin in (list, tuple):
        return f"list of {type_name(parts[0])}"
    if origin is dict:
        return "object" if parts[1] is Any else f"object of {type_name(parts[1])}"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return ", ".join(_value(member.value) for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{title(annotation)}](#{title(annotation).lower()})"
    return _PLAIN[annotation]


def _value(value: Any) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
