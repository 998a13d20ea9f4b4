"""Rules about pyproject.toml and the identity of a package: types, bounds, one entry point, declared permissions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from engine.ids import WORKFLOW_ID
from engine.package.bounds import LOCATED, UNKNOWN_KEYS
from engine.package.contract import Candidate, Metadata, Spelling
from engine.package.pins import PINS, SPELLINGS, is_pin, parse, spelling_of
from engine.package.rules import Findings
from engine.package.vocabulary import DEFAULT_PERMISSIONS, PERMISSIONS, is_reserved

PYPROJECT: Final = "pyproject.toml"
DESCRIPTION_CHARACTERS: Final = 500
KEYWORDS: Final = 20
KEYWORD_CHARACTERS: Final = 60
_VERSION_CHARACTERS: Final = 100
_PROGRAM_PERMISSION: Final = re.compile(r"program:[a-z][a-z0-9_]{0,79}")
_PROJECT_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,),
    "version": (str,),
    "description": (str,),
    "keywords": (list,),
    "dependencies": (list,),
    "entry-points": (dict,),
    "requires-python": (str,),
    "readme": (str, dict),
    "license": (str, dict),
    "authors": (list,),
    "maintainers": (list,),
    "classifiers": (list,),
    "dynamic": (list,),
    "urls": (dict,),
    "optional-dependencies": (dict,),
}
_TOOL_TYPES: Final[Mapping[str, tuple[type, ...]]] = {"display-name": (str,), "permissions": (list,), PINS: (dict,)}
_TYPE_NAMES: Final[Mapping[type, str]] = {str: "a string", list: "an array", dict: "a table"}


def check_identity(workflow_id: str, findings: Findings) -> None:
    """Report a directory name that cannot be a workflow id."""
    if not WORKFLOW_ID.fullmatch(workflow_id):
        told = "the directory's name is no workflow id."
        findings.add("identity.pattern", "", told, fix="Use [a-z][a-z0-9_]{0,79}, such as weekly_report.")
    elif is_reserved(workflow_id):
        told = f"the name {workflow_id} is taken by Python or by Cloche."
        findings.add("identity.reserved", "", told, fix="Choose another name.")


def check_metadata(candidate: Candidate, findings: Findings) -> Metadata | None:
    """Report what is wrong in pyproject.toml; the metadata as far as it can be read, None when it cannot."""
    data = candidate.file(PYPROJECT)
    if data is None:
        return None
    try:
        document = parse(data)
    except ValueError as error:
        findings.add("metadata.toml", PYPROJECT, f"cannot be read as TOML: {error}.", fix="Correct it.")
        return None
    return _Metadata(candidate.workflow_id, document, data.decode("utf-8"), findings).check()


class _Metadata:
    def __init__(self, workflow_id: str, document: dict[str, Any], text: str, findings: Findings) -> None:
        self._id = workflow_id
        self._document = document
        self._lines = text.splitlines()
        self._findings = findings
        self._spelling: Spelling = spelling_of(document)
        self._located: dict[str, int] = {}

    def _report(self, rule: str, key: str, message: str, fix: str) -> None:
        self._findings.add(rule, PYPROJECT, message, line=self._line(key), fix=fix)

    def _line(self, key: str) -> int:
        """Where `key`, or the table of that name, is written; 0 when nowhere, in an unusual form, or past `LOCATED` keys."""
        if key not in self._located:
            self._located[key] = self._search(key) if len(self._located) < LOCATED else 0
        return self._located[key]

    def _search(self, key: str) -> int:
        written = re.compile(rf"\s*(?:\[[^\]]*)?[\"']?{re.escape(key)}[\"']?\s*(?:=|\]|\.)")
        return next((number for number, line in enumerate(self._lines, 1) if written.match(line[:400])), 0)

    def check(self) -> Metadata | None:
        project = self._typed(self._document, "project", (dict,), required=True) or {}
        tools = self._typed(self._document, "tool", (dict,)) or {}
        self._typed(self._document, "build-system", (dict,))
        values = {key: self._typed(project, key, types) for key, types in _PROJECT_TYPES.items()}
        tool = self._tool(tools)
        if not isinstance(self._document.get("project"), dict):
            return None
        self._check_project(values)
        self._check_entry_point(values["entry-points"] or {})
        return Metadata(
            name=values["name"] or "",
            version=values["version"] or "",
            description=(values["description"] or "").strip(),
            keywords=tuple(word for word in values["keywords"] or () if isinstance(word, str)),
            permissions=self._permissions(tool),
            spelling=self._spelling,
        )

    def _typed(self, table: Mapping[str, Any], key: str, types: tuple[type, ...], *, required: bool = False) -> Any:
        """The value of `key` when it has one of the types; None, and a report when it is there, otherwise."""
        value = table.get(key)
        if isinstance(value, types):
            return value
        if key in table or required:
            wanted = " or ".join(_TYPE_NAMES[one] for one in types)
            self._report("metadata.type", key, f"{key} is not {wanted}.", f"Make {key} {wanted}.")
        return None

    def _check_project(self, values: Mapping[str, Any]) -> None:
        name = values["name"]
        if name != self._id:
            told = f"project.name is {name!r}, the directory {self._id}."
            self._report("identity.project", "name", told[:300], f'Write name = "{self._id}".')
        version = (values["version"] or "").strip()
        if not 0 < len(version) <= _VERSION_CHARACTERS:
            self._report("metadata.version", "version", "there is no version.", 'Write version = "0.1.0".')
        self._check_description(values["description"])
        self._check_keywords(values["keywords"])
        if values["dependencies"]:
            told = "dependencies on distributions cannot be installed in a cell."
            fix = "Remove them; import workflows and the standard modules in docs/reference/rules.md."
            self._report("metadata.dependencies", "dependencies", told, fix)

    def _check_description(self, description: str | None) -> None:
        length = len((description or "").strip())
        if not 0 < length <= DESCRIPTION_CHARACTERS:
            told = f"the description has {length} characters."
            self._report("metadata.description", "description", told, "Say in 1-500 characters what it does.")

    def _check_keywords(self, keywords: list[Any] | None) -> None:
        fix = f"Write keywords = […] with at most {KEYWORDS} strings of 1-{KEYWORD_CHARACTERS} characters."
        if keywords is None:
            self._report("metadata.keywords", "keywords", "there are no keywords.", fix)
            return
        if not all(isinstance(word, str) for word in keywords):
            self._report("metadata.type", "keywords", "keywords holds something else than strings.", fix)
            return
        fits = all(word.strip() and len(word) <= KEYWORD_CHARACTERS for word in keywords)
        if len(keywords) > KEYWORDS or not fits:
            self._report("metadata.keywords", "keywords", "keywords are too many, empty or too long.", fix)

    def _check_entry_point(self, groups: Mapping[str, Any]) -> None:
        wanted = {self._id: f"workflows.{self._id}:{self._id}"}
        found = {f"{spelling}.workflows": groups.get(f"{spelling}.workflows") for spelling in SPELLINGS}
        written = [group for group in found.values() if group is not None]
        if written != [wanted]:
            told = "the entry point group does not hold exactly the entry."
            line = f'[project.entry-points."{self._spelling}.workflows"]'
            self._report(
                "metadata.entry_point",
                "entry-points",
                told,
                f'Write {line} with the one line {self._id} = "{wanted[self._id]}".',
            )

    def _tool(self, tools: Mapping[str, Any]) -> Mapping[str, Any]:
        if all(spelling in tools for spelling in SPELLINGS):
            told = "there are two tool tables, in two spellings."
            self._report("metadata.spelling", "openprogram", told, "Keep one of them.")
        tool = self._typed(tools, self._spelling, (dict,)) or {}
        for key in sorted(set(tool) - set(_TOOL_TYPES))[:UNKNOWN_KEYS]:
            told = f"tool.{self._spelling} has no key {key}."
            self._report("metadata.unknown_key", key, told[:300], f"There are: {', '.join(_TOOL_TYPES)}.")
        values = {key: self._typed(tool, key, types) for key, types in _TOOL_TYPES.items()}
        name = values["display-name"]
        if name is not None and name != self._id:
            told = f"display-name is {name!r}, the workflow {self._id}."
            self._report("metadata.display_name", "display-name", told[:300], "Remove it or make them equal.")
        if any(not is_pin(key, revision) for key, revision in (values[PINS] or {}).items()):
            fix = "Remove the table; publication writes it."
            self._report("metadata.pins", PINS, f"{PINS} holds something else than id = revision.", fix)
        return {key: value for key, value in values.items() if value is not None}

    def _permissions(self, tool: Mapping[str, Any]) -> tuple[str, ...]:
        declared = tool.get("permissions")
        if declared is None:
            return DEFAULT_PERMISSIONS
        if not all(isinstance(permission, str) for permission in declared):
            told = "permissions holds something else than strings."
            self._report("metadata.type", "permissions", told, 'Write permissions = ["workspace.read"].')
            return ()
        for permission in dict.fromkeys(declared):
            if permission not in PERMISSIONS and not _PROGRAM_PERMISSION.fullmatch(permission):
                fix = f"There are: {', '.join(sorted(PERMISSIONS))} and program:<name>."
                self._report("metadata.permissions", "permissions", f"there is no permission {permission[:80]!r}.", fix)
        return tuple(dict.fromkeys(declared))
