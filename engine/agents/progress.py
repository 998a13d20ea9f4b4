"""`emit` and `deliver`: what a run tells and hands out. The record is the effect; nothing else happens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from engine.run.calls import CallFailed, CallRequest, CallResult, Effects, Kind


@dataclass(frozen=True)
class EmitHandler:
    """Any value, kept in the journal."""

    counted: bool = False
    kind: Kind = ""
    instant: bool = True
    effects: Effects = Effects.NONE
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        return CallResult(None, {})


@dataclass(frozen=True)
class DeliverHandler:
    """`path` names a file of /tmp/output, which arrives as an artifact; `result` is the value that may leave the run.

    The fact `delivers` says which of the two it was.
    """

    counted: bool = False
    kind: Kind = ""
    instant: bool = True
    effects: Effects = Effects.NONE
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        if "result" in request.args:
            return CallResult(None, {"delivers": "result"})
        path = request.args.get("path")
        parts = PurePosixPath(path).parts if isinstance(path, str) else ()
        if not parts or parts[0] == "/" or ".." in parts:
            raise CallFailed("ValueError", "deliver() takes result= or the relative path of a file in /tmp/output")
        return CallResult(None, {"delivers": "path"})
