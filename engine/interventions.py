"""What the owner of a run decides about it from outside: cancelling it, a call of unknown outcome, an answer to a question.

It checks what was given and opens the run; what a decision does is `engine.run.decisions`'. It executes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import UsageError
from engine.parts import Parts

if TYPE_CHECKING:
    from engine.run.view import RunView


@dataclass(frozen=True)
class Interventions:
    """In the runs of one home. Behind `engine.app.App`, whose methods of these names have no other contract."""

    parts: Parts

    async def cancel(self, run_id: str, *, by: str = "") -> RunView:
        """Cancel a run for good, whoever executes it. Raises RunNotFound, RunEndedAlready, SandboxError."""
        from engine.run.decisions import cancel

        return await cancel(self.parts.runs.open(run_id), by=by, prove_gone=self.parts.cells.prove_gone)

    def decide(self, run_id: str, seq: int, what: str, *, value: Any = None, by: str = "") -> RunView:
        """Decide about the call of unknown outcome that `runs show` numbers `seq`: `rerun`, `treat-as-failed`, `value`.

        `value` is in codec form. Raises RunNotFound, and as `engine.run.decisions.decide_unknown`; UsageError for a bad value.
        """
        from engine.run.decisions import decide_unknown
        from engine.run.projection import view_of

        run = self.parts.runs.open(run_id)
        decide_unknown(run, seq, what=what, value=self._given(value), by=by)
        return view_of(run)

    def answer(self, run_id: str, seq: int | None, value: Any, *, by: str = "") -> bool:
        """Answer the question that `runs show` numbers `seq`, or the only open one, with `value` in codec form.

        True when a resume goes on with it; False when another process executes the run, takes the answer and goes on by itself.

        Raises RunNotFound, and as `engine.run.decisions.answer`; UsageError for a value that the question does not allow.
        """
        from engine.agents.waits import checked_answer
        from engine.run.decisions import answer, open_question

        run = self.parts.runs.open(run_id)
        number = open_question(run) if seq is None else seq
        return answer(run, number, self._given(value), check=checked_answer, by=by)

    def _given(self, value: Any) -> Any:
        from cloche_guest import codec

        from engine.run.blobs import text_of

        try:
            codec.check(value)
        except codec.CodecError as error:
            raise UsageError(
                f"the value cannot be recorded: {error}.", fix="docs/reference/codec.md lists the types."
            ) from error
        if (size := len(text_of(value))) > self.parts.settings.value_bytes:
            raise UsageError(f"the value has {size:,} bytes; a value has at most {self.parts.settings.value_bytes:,}.")
        return value
