"""Pins inside pyproject.toml: read them, and rewrite them with nothing else changed.

A package has one tool table, `[tool.cloche]` or its other spelling `[tool.openprogram]`; pins are written under the one
that is there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from engine.errors import EngineFailure, InvalidPackage
from engine.ids import REVISION, WORKFLOW_ID
from engine.package import bounds
from engine.package.contract import Spelling

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

PINS: Final = "workflow-dependencies"
SPELLINGS: Final[tuple[Spelling, ...]] = ("cloche", "openprogram")
_STRINGS: Final = re.compile(
    r"#[^\n]*"
    r"|\"\"\"[^\"\\]*+(?:(?:\\.|\"(?!\"\"))[^\"\\]*+)*+(?:\"{3,5}|\Z)"
    r"|'{3}(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r"|\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\"?"
    r"|'[^'\n]*+'?",
    re.DOTALL,
)
"""Comments and strings of TOML; what is none may be left over."""


def parse(data: bytes) -> dict[str, Any]:
    """The document.

    Raises:
        ValueError: no UTF-8, no TOML, nested too deep to read, or past a bound of a pyproject.toml.
    """
    if len(data) > bounds.PYPROJECT_BYTES:
        raise ValueError(f"larger than {bounds.PYPROJECT_BYTES // bounds.KIB} KiB")
    text = data.decode("utf-8")
    if _STRINGS.sub("", text).count(".") > bounds.PYPROJECT_DOTS:
        raise ValueError(f"more than {bounds.PYPROJECT_DOTS} dots outside strings")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def spelling_of(document: Mapping[str, Any]) -> Spelling:
    """The spelling of the tool table; without one, that of the entry point group; without both, `cloche`."""
    tools = document.get("tool")
    project = document.get("project")
    groups = project.get("entry-points") if isinstance(project, dict) else None
    for table, suffix in ((tools, ""), (groups, ".workflows")):
        for spelling in SPELLINGS:
            if isinstance(table, dict) and f"{spelling}{suffix}" in table:
                return spelling
    return "cloche"


def is_pin(name: object, revision: object) -> bool:
    """True for a workflow id and a 40-hex revision."""
    return (
        isinstance(name, str)
        and isinstance(revision, str)
        and WORKFLOW_ID.fullmatch(name) is not None
        and REVISION.fullmatch(revision) is not None
    )


def pins_of(data: bytes) -> dict[str, str]:
    """The well-formed pins in a pyproject.toml; none when it is damaged (validation says so)."""
    try:
        document = parse(data)
    except ValueError:
        return {}
    return pins_in(document)


def pins_in(document: Mapping[str, Any]) -> dict[str, str]:
    """`pins_of` for a document that is parsed already."""
    tools = document.get("tool")
    tool = tools.get(spelling_of(document)) if isinstance(tools, dict) else None
    table = tool.get(PINS) if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        return {}
    return {name: revision for name, revision in table.items() if is_pin(name, revision)}


def with_pins_in(data: bytes | None, pins: Mapping[str, str]) -> bytes:
    """A pyproject.toml whose pins are exactly `pins`; every other byte stays, and so do all when they are equal.

    Raises:
        InvalidPackage: `data` is None, no TOML, or has something else where the tables belong.
    """
    import tomlkit  # only for rewriting: whoever reads the catalog does not load it
    from tomlkit.exceptions import TOMLKitError

    if data is None:
        raise InvalidPackage("the package has no pyproject.toml.", fix="Run `cloche workflows validate`.")
    try:
        before = parse(data)
        if pins_of(data) == dict(pins):
            return data
        text = tomlkit.dumps(_rewritten(tomlkit.parse(data.decode("utf-8")), spelling_of(before), pins))
        if data.count(b"\r\n") == data.count(b"\n"):
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        rewritten = text.encode("utf-8")
        _check_nothing_else_changed(before, parse(rewritten), pins)
    except (ValueError, TypeError, TOMLKitError) as error:
        raise InvalidPackage(f"pyproject.toml: {error}", fix="Run `cloche workflows validate`.") from error
    return rewritten


def _rewritten(document: TOMLDocument, spelling: Spelling, pins: Mapping[str, str]) -> TOMLDocument:
    tool = _table(_table(document, "tool", hidden=True), spelling, hidden=True)
    table = _table(tool, PINS, hidden=False)
    for name in [name for name in table if name not in pins]:
        del table[name]
    for name, revision in sorted(pins.items()):
        if table.get(name) != revision:
            table[name] = revision
    return document


def _table(parent: Any, name: str, *, hidden: bool) -> Any:
    """The table `name` in `parent`, made when absent; `hidden` tables get no header of their own."""
    import tomlkit
    from tomlkit.container import OutOfOrderTableProxy
    from tomlkit.items import InlineTable, Table

    if name not in parent:
        inline = isinstance(parent, InlineTable)
        parent[name] = tomlkit.inline_table() if inline else tomlkit.table(is_super_table=hidden)
    table = parent[name]
    if not isinstance(table, Table | InlineTable | OutOfOrderTableProxy):
        raise TypeError(f"{name} is no table")
    if not hidden and isinstance(table, OutOfOrderTableProxy):
        raise TypeError(f"{name} is written in several places")
    return table


def _check_nothing_else_changed(before: dict[str, Any], after: dict[str, Any], pins: Mapping[str, str]) -> None:
    written = after["tool"][spelling_of(after)].pop(PINS, {})
    without = {key: value for key, value in before.items() if key != "tool"}
    tools = dict(before.get("tool", {}))
    tool = {key: value for key, value in tools.get(spelling_of(after), {}).items() if key != PINS}
    expected = {**without, "tool": {**tools, spelling_of(after): tool}}
    if written != dict(pins) or _comparable(after) != _comparable(expected):
        raise EngineFailure(
            "pyproject.toml could not be rewritten without changing something else.",
            fix=f"Write the table {PINS} as a plain [tool.cloche.{PINS}] section.",
        )


def _comparable(value: Any) -> Any:
    """The value with `nan` as text: it equals nothing, not even itself."""
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return repr(value) if isinstance(value, float) else value
