"""`cloche sandbox probe` and `cloche cells`: what cells hold, and which there are."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from cli import output
from cli.app import Json, application, awaited
from engine.sandbox.attempts import GROUPS
from engine.sandbox.probe_report import ProbeReport

group = typer.Typer(help="The sandbox: attack it and see.", no_args_is_help=True, rich_markup_mode=None)
cells = typer.Typer(help="Cells of this home.", no_args_is_help=True, rich_markup_mode=None)


@group.callback()
def _sandbox() -> None:
    """The sandbox: attack it and see."""


Only = Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="This attempt; may be repeated.")]
Group = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help=f"One of {', '.join(GROUPS)}.")]


@group.command()
def probe(only: Only = None, of: Group = None, as_json: Json = False) -> int:
    """Attack a cell. Each attempt is also made in an unprotected container, where it must get through; exit 3 otherwise."""
    with application(as_json=as_json) as app:
        progress = output.note if output.on_terminal() else None
        report = awaited(partial(app.probe, only=only or (), groups=of or (), progress=progress))
        if output.mode.json:
            rows = [row.to_dict() for row in report.rows]
            output.data({"ok": report.held, "runtime": report.runtime, "image_id": report.image_id, "attempts": rows})
        else:
            _show(report)
        return 0 if report.held else 3


def _show(report: ProbeReport) -> None:
    output.table(
        ["attempt", "group", "verdict", "in the cell", "unprotected"],
        [[row.name, row.group, row.verdict, _first(row.cell), _first(row.control)] for row in report.rows],
    )
    blocked = len(report.of("blocked"))
    output.note(
        f"{blocked} of {len(report.rows)} attempts blocked under {report.runtime}, each through in the control."
    )
    for row in report.of("through", "unexpected", "unproven"):
        output.note(f"{row.name}: {row.tries} {_TOLD[row.verdict].format(row=row)}")


_TOLD = {
    "through": "It got through: {row.cell}. {row.why}",
    "unexpected": "It must be stopped by {row.expect}, and was by {row.cell}.",
    "unproven": "It was stopped in the unprotected container too ({row.control}), so that nothing follows.",
}


def _first(text: str) -> str:
    return text.splitlines()[0][:70] if text else ""


@cells.command("list")
def list_(as_json: Json = False) -> int:
    """List the cells there are."""
    with application(as_json=as_json) as app:
        rows = [vars(cell) for cell in app.list_cells()]
        if output.mode.json:
            output.data({"ok": True, "cells": rows, "pool": app.pool()})
        else:
            output.table(
                ["cell", "kind", "state", "owner", "container"],
                [[c["cell_id"], c["kind"], c["state"], _owner(c), c["container"][:12]] for c in rows],
            )
            output.note(_told(app.pool()))
        return 0


def _owner(cell: dict[str, Any]) -> str:
    if cell["idle"]:
        return "none, waits"
    if cell["expired"]:
        return "expired"
    return "alive" if cell["owned"] else "dead"


def _told(pool: dict[str, int]) -> str:
    return (
        f"jobs so far: {pool['warm']} in a cell that waited, {pool['cold']} in a new one; "
        f"{pool['made']} made to wait, {pool['dead']} found dead, {pool['stale']} out of date, {pool['failed']} failures."
    )


@cells.command()
def reap(
    idle: Annotated[bool, typer.Option("--idle", help="Also cells that wait, started, for a job.")] = False,
    as_json: Json = False,
) -> int:
    """End cells whose owner is dead or whose time is over, and prove them gone; exit 3 when one could not be ended."""
    with application(as_json=as_json) as app:
        reaped = app.reap(idle=idle)
        if output.mode.json:
            output.data({"ok": not any(one.problem for one in reaped), "reaped": [vars(one) for one in reaped]})
        else:
            output.table(["cell", "why", "problem"], [[one.cell_id, one.why, one.problem] for one in reaped])
        return 3 if any(one.problem for one in reaped) else 0
