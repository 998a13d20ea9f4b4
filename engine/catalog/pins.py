"""Pins: the exact revision of every workflow a package reaches.

A direct dependency's revision is chosen once, at publication: the one the active revision has for it, or its head when it is
new or `repin` is asked. What lies behind a dependency is never chosen; a dependency keeps its own pins, so it runs with
exactly what it was tested with. One name can therefore stand at two revisions, which refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.catalog.refs import CorruptEntry
from engine.catalog.repos import Catalog, UnknownRevision, UnknownWorkflow
from engine.errors import Conflict, InvalidPackage, NotFound
from engine.package.pins import pins_of

_OLD_FORMAT_FILES = ("code.py", "entry.py", "workflow.json", "snapshot", "state.json")


class MissingDependency(NotFound):
    """A workflow or revision that a package reaches is not in the catalog."""

    code = "dependency_missing"


class OldFormatDependency(InvalidPackage):
    """A package imports a project of the older format, which can be resumed but not imported."""

    code = "dependency_old_format"


class CyclicDependency(InvalidPackage):
    """A package reaches itself."""

    code = "dependency_cycle"


class PinConflict(Conflict):
    """Two pins for one name."""

    code = "pin_conflict"


def choose_pins(
    catalog: Catalog, workflow_id: str, *, dependencies: Iterable[str], active: Mapping[str, str], repin: bool
) -> dict[str, str]:
    """Pins for a package about to be tested or published: everything its `dependencies` reach, by id.

    `active` are the pins of its active revision (empty for a new package); with `repin` they do not count.

    Raises:
        MissingDependency, OldFormatDependency, CyclicDependency, PinConflict: as their names say.
        NotAuthorised, CorruptEntry: about a dependency.
    """
    direct: dict[str, str] = {}
    for name in sorted(dependencies):
        kept = None if repin or name == workflow_id else active.get(name)
        direct[name] = kept or ("" if name == workflow_id else _head(catalog, name, workflow_id))
    return closure(catalog, workflow_id, direct)


def closure(catalog: Catalog, workflow_id: str, pins: Mapping[str, str]) -> dict[str, str]:
    """`pins` and everything behind them, by id. Raises as `choose_pins`."""
    reached: dict[str, tuple[str, str]] = {}
    _visit(catalog, (workflow_id,), pins, reached)
    return {name: revision for name, (revision, _) in sorted(reached.items())}


def _visit(
    catalog: Catalog, chain: tuple[str, ...], pins: Mapping[str, str], reached: dict[str, tuple[str, str]]
) -> None:
    """Take in the pins of the last package of `chain`; names already in it come last, so that a loop is shown whole."""
    for name, revision in sorted(pins.items(), key=lambda pin: (pin[0] in chain, pin[0])):
        if name in chain:
            loop = " → ".join((*chain[chain.index(name) :], name))
            raise CyclicDependency(f"{name} reaches itself: {loop}.", fix="Take one of these imports out.")
        if name in reached:
            _check_same(name, (revision, chain[-1]), reached[name])
            continue
        reached[name] = (revision, chain[-1])
        _visit(catalog, (*chain, name), _pins_at(catalog, name, revision, chain[-1]), reached)


def _check_same(name: str, here: tuple[str, str], there: tuple[str, str]) -> None:
    if here[0] != there[0]:
        raise PinConflict(
            f"{name} is pinned at {there[0]} by {there[1]} and at {here[0]} by {here[1]}.",
            fix=f"Publish both with --repin, so that they take the head of {name}.",
        )


def _head(catalog: Catalog, name: str, wanted_by: str) -> str:
    try:
        _refuse_old_format(catalog, name)
        return catalog.head(name)
    except UnknownWorkflow as error:
        raise _missing(name, wanted_by) from error


def _pins_at(catalog: Catalog, name: str, revision: str, wanted_by: str) -> dict[str, str]:
    try:
        _refuse_old_format(catalog, name)
        catalog.resolve(f"{name}@{revision}")
        files = catalog.files(name, revision)
    except UnknownWorkflow as error:
        raise _missing(name, wanted_by) from error
    except UnknownRevision as error:
        raise _missing(f"{name}@{revision}", wanted_by) from error
    if "pyproject.toml" not in files:
        raise CorruptEntry(name, f"revision {revision} has no pyproject.toml")
    return pins_of(files["pyproject.toml"])


def _refuse_old_format(catalog: Catalog, name: str) -> None:
    project = catalog.project(name)
    if not (project / ".git").exists() and any((project / file).exists() for file in _OLD_FORMAT_FILES):
        raise OldFormatDependency(
            f"{name} is a project of the older format and cannot be imported.", fix="Publish it as a package first."
        )


def _missing(what: str, wanted_by: str) -> MissingDependency:
    return MissingDependency(
        f"{wanted_by} needs {what}, which is not in the catalog.", fix=f"Publish {what.split('@')[0]} first."
    )
