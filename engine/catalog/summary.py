"""What a published revision says about itself, read leniently: rules may tighten later, a published revision still runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.package.pins import parse, pins_in, spelling_of
from engine.package.vocabulary import DEFAULT_PERMISSIONS


@dataclass(frozen=True)
class Summary:
    """Metadata and pins from one pyproject.toml; what is absent or of another type is empty."""

    name: str
    version: str
    description: str
    keywords: tuple[str, ...]
    permissions: tuple[str, ...]
    pins: Mapping[str, str] = field(hash=False)

    def to_dict(self) -> dict[str, object]:
        """The public JSON form."""
        return {
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "keywords": list(self.keywords),
            "permissions": list(self.permissions),
            "pins": dict(self.pins),
        }


def summarise(pyproject: bytes) -> Summary:
    """The summary in a pyproject.toml.

    Raises:
        ValueError: it is no TOML or has no `[project]` table.
    """
    document = parse(pyproject)
    project = document.get("project")
    if not isinstance(project, dict):
        raise ValueError("pyproject.toml has no [project] table")
    tools = document.get("tool")
    tool = tools.get(spelling_of(document)) if isinstance(tools, dict) else None
    return Summary(
        name=_text(project, "name"),
        version=_text(project, "version"),
        description=_text(project, "description").strip(),
        keywords=_texts(project, "keywords"),
        permissions=_permissions(tool),
        pins=pins_in(document),
    )


def _permissions(tool: object) -> tuple[str, ...]:
    """What is declared; a package that declares nothing has the default."""
    if isinstance(tool, dict) and "permissions" in tool:
        return _texts(tool, "permissions")
    return DEFAULT_PERMISSIONS


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
