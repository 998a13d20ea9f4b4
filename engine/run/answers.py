"""Answers to questions of a run that another process executes: left in its folder, and recorded by that process within a second.

An answer that its owner did not live to record is taken by the next one. Only the owner of a run writes its journal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cloche_guest import codec

from engine.files import NotAFile, read_regular, write_atomic
from engine.run.claim import Recorder
from engine.run.events import CallCompleted, Decision
from engine.run.folder import Run


def leave(run: Run, seq: int, value: Any, *, by: str) -> None:
    """Leave the answer to the question `seq`, in codec form, for whoever executes the run; a second one replaces it.

    Raises:
        StorageFull, EngineFailure: it could not be written.
    """
    write_atomic(_path(run, seq), codec.text({"by": by, "value": value}).encode())


def record(recorder: Recorder, seq: int, value: Any, *, by: str) -> None:
    """Record the answer to a question.

    Raises:
        StorageFull, EngineFailure: it could not be recorded.
    """
    given = recorder.run.keep(value)
    recorder.record(Decision(what="answer", of=seq, by=by), CallCompleted(of=seq, **given.named("result", "blob")))


def is_there(run: Run, questions: Iterable[int]) -> bool:
    """True when somebody left an answer to one of these."""
    return any(_path(run, seq).exists() for seq in questions)


def take(recorder: Recorder, questions: Iterable[int]) -> list[int]:
    """Record what was left for these questions, as far as they are still open; gives those that are answered now.

    Raises:
        StorageFull, EngineFailure: an answer could not be recorded; it stays where it is.
    """
    answered = []
    for seq in questions:
        path = _path(recorder.run, seq)
        if not path.exists():
            continue
        found = recorder.history.records.get(seq)
        left = _left(path)
        if left is not None and found is not None and found.is_question and found.outcome is None:
            record(recorder, seq, left[0], by=left[1])
            answered.append(seq)
        path.unlink(missing_ok=True)
    return answered


def _left(path: Path) -> tuple[Any, str] | None:
    """The answer and who gave it; None for what no `leave` wrote."""
    try:
        left = json.loads(read_regular(path))
        codec.check(left["value"])
        return left["value"], str(left["by"])
    except (ValueError, KeyError, TypeError, NotAFile):
        return None


def _path(run: Run, seq: int) -> Path:
    return run.folder / f"answer.{seq}"
