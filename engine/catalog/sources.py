"""`catalog/sources.json`: the owner's record of what may run, and of what was revoked.

    {"version": 1,
     "entries": [{"scope": "programs", "path": "workflow/<id>"}],
     "revoked": [{"scope": "programs", "path": "workflow/<id>"}]}

A package is named by scope and a two-part relative path, never by where the home lies, so the record stays true when the
home moves. Rows and fields that this version does not know are kept as they are and authorise nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.errors import Conflict, EngineFailure, UsageError
from engine.files import lock, write_atomic
from engine.ids import WORKFLOW_ID

VERSION: Final = 1
SCOPE: Final = "programs"
FILE: Final = "sources.json"


class SourcesDamaged(EngineFailure):
    """`sources.json` cannot be read, so nothing counts as authorised and nothing is written to it."""

    code = "sources_damaged"


class SourceRevoked(Conflict):
    """The owner revoked this package; publishing does not take that back."""

    code = "source_revoked"


class BadIdentity(UsageError):
    """A persisted package location is absolute, climbs, or has an unknown scope."""

    code = "bad_identity"


@dataclass(frozen=True)
class Sources:
    """The record at one moment: authorised and revoked workflow ids, and rows that were refused, as sentences."""

    authorised: frozenset[str]
    revoked: frozenset[str]
    refused: tuple[str, ...] = ()

    def allows(self, workflow_id: str) -> bool:
        """True when the package may be listed as active, depended on and run."""
        return workflow_id in self.authorised and workflow_id not in self.revoked


def identity(workflow_id: str) -> dict[str, str]:
    """The persisted location of a package."""
    return {"scope": SCOPE, "path": f"workflow/{workflow_id}"}


def located(row: object) -> str:
    """The workflow id that a persisted location names.

    Raises:
        BadIdentity: anything but the scope `programs` and a path `workflow/<id>`.
    """
    if isinstance(row, dict) and row.get("scope") == SCOPE and isinstance(row.get("path"), str):
        folder, _, name = row["path"].partition("/")
        if folder == "workflow" and WORKFLOW_ID.fullmatch(name):
            return str(name)
    raise BadIdentity(
        f"{json.dumps(row, default=str)[:200]} is no location of a package.",
        fix='Write {"scope": "programs", "path": "workflow/<id>"}.',
    )


def read(catalog: Path) -> Sources:
    """The record of a catalog directory; an absent file authorises nothing.

    Raises:
        SourcesDamaged: no JSON, another version or wrong types.
    """
    document = _document(catalog)
    refused: list[str] = []

    def ids(field: str) -> Iterator[str]:
        for row in document[field]:
            try:
                yield located(row)
            except BadIdentity as error:
                refused.append(f"{field}: {error.message}")

    return Sources(frozenset(ids("entries")), frozenset(ids("revoked")), tuple(refused))


def authorise(catalog: Path, workflow_id: str) -> None:
    """Add a package to the record, in one step, under a lock; one that is there already changes nothing.

    Raises:
        SourceRevoked: the owner revoked it.
        SourcesDamaged, StorageFull, EngineFailure: the record cannot be read or written.
    """
    with _changing(catalog) as document:
        check_not_revoked(catalog, workflow_id)
        if workflow_id not in read(catalog).authorised:
            document["entries"].append(identity(workflow_id))


def check_not_revoked(catalog: Path, workflow_id: str) -> None:
    """Refuse a package that the owner revoked.

    Raises:
        SourceRevoked: it is in the record's `revoked`.
    """
    if workflow_id in read(catalog).revoked:
        raise SourceRevoked(
            f"{workflow_id} was revoked by its owner.", fix=f"Remove its row under `revoked` in catalog/{FILE} first."
        )


@contextmanager
def _changing(catalog: Path) -> Iterator[dict[str, Any]]:
    """The document under its lock; what the block changed is written at its end."""
    with lock(catalog / f".{FILE}.lock", what=FILE):
        document = _document(catalog)
        before = json.dumps(document)
        yield document
        if json.dumps(document) != before:
            text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
            write_atomic(catalog / FILE, text.encode("utf-8"))


def _document(catalog: Path) -> dict[str, Any]:
    path = catalog / FILE
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {"version": VERSION, "entries": [], "revoked": []}
    except (OSError, ValueError, RecursionError) as error:
        raise SourcesDamaged(f"{FILE} cannot be read: {error}.", fix=f"Correct {path}.") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise SourcesDamaged(f"{FILE} is not of version {VERSION}.", fix=f"Correct {path}.")
    for field in ("entries", "revoked"):
        if not isinstance(document.setdefault(field, []), list):
            raise SourcesDamaged(f"{FILE}: {field} is no list.", fix=f"Correct {path}.")
    return document
