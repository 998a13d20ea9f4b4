"""A run with an effect in each call, begun or resumed, to its end. For `tests.benchmarks.lives`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio

import engine.run.lifecycle
import engine.sandbox.cell
import engine.sandbox.service  # noqa: F401  what a resume loads, loaded before the lives begin
from engine.app import App
from engine.clock import SystemClock
from engine.run.calls import CallHandler, CallRequest, CallResult, Effects
from engine.run.status import Status
from tests.benchmarks.house import settings_of
from tests.benchmarks.ledger import Reporter


@dataclass(frozen=True)
class ReportingHandler:
    """`emit` with an effect that nobody can take back: one line in the ledger."""

    reporter: Reporter
    kind: Literal["", "timer", "person"] = ""
    instant: bool = False
    counted: bool = False
    effects: Effects = Effects.SOME
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        self.reporter.report(request.args["event"])
        return CallResult(None, {})


@dataclass
class ReportingApp(App):
    """An application whose `emit` reports."""

    ledger: Path = Path()

    def handlers(self, *given: Any, **named: Any) -> Mapping[str, CallHandler]:
        return {**super().handlers(*given, **named), "emit": ReportingHandler(Reporter(self.ledger))}


def main(home: str, run_id: str, ledger: str) -> None:
    """Go on with the run; a call that was interrupted is executed again, as its owner decided."""
    app = ReportingApp(settings_of(Path(home)), SystemClock(), ledger=Path(ledger))
    try:
        view = anyio.run(partial(app.resume, run_id, on_unknown="rerun"))
    finally:
        app.close()
    assert view.status is Status.COMPLETED, view
