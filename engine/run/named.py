"""The call that a person names: by the number that `cloche runs show` prints, the `s` of its `call.started`."""

from __future__ import annotations

from engine.errors import NotFound
from engine.run.folder import Run
from engine.run.history import History, Record


class CallNotFound(NotFound):
    """No call of the run has this number."""

    code = "call_not_found"


def named_call(run: Run, history: History, seq: int) -> Record:
    """The record whose `s` is `seq`.

    Raises:
        CallNotFound: there is none.
    """
    record = history.records.get(seq)
    if record is None:
        raise CallNotFound(
            f"run {run.run_id} has no call {seq}.", fix=f"`cloche runs show {run.run_id} --all` shows their numbers."
        )
    return record
