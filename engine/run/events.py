"""The events of a journal, format 2, as typed values and as lines. Described in docs/reference/journal.md.

A line is `{"s":…,"at":…,"g":…,"e":…,…,"p":…}`: sequence from 1, seconds since 1970 (UTC), generation, type, the event's own
fields and a hash of the line before. This module reads no file and knows no order between events; `history` does.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, Strict, TypeAdapter, ValidationError, model_validator

from engine.jsontext import compact
from engine.run.calls import CallKey
from engine.run.status import Status

FORMAT = 2
READABLE = frozenset({1, 2})
"""Formats whose journals this version reads and goes on with. What came with 2 never stands in an older one that nobody resumed."""

FIRST_HASH = "0" * 32
"""What stands in `p` of the first line."""

LINE_BYTES = 1024 * 1024
"""No line is longer; larger values lie in blobs."""

WORDS = 300
"""Characters of a name, and of what is wrong with it, in a message: a damaged line may hold a mebibyte in one."""

_VALUES = frozenset({"args", "result", "value"})


class BadLine(ValueError):
    """A line that is none of this format; the text says what is wrong with it."""


@cache
def _own_fields(kind: type[BaseModel]) -> tuple[tuple[str, Any], ...]:
    """Names and defaults, without the type's own name."""
    fields = kind.model_fields.items()
    return tuple((name, field.get_default(call_default_factory=True)) for name, field in fields if name != "e")


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def body(self) -> dict[str, Any]:
        """The event's own fields in their order; those at their default are left out, given values never (None is one)."""
        found: dict[str, Any] = {}
        given = self.model_fields_set
        for name, default in _own_fields(type(self)):
            if name in given:
                value = getattr(self, name)
                if name in _VALUES or value != default:
                    found[name] = _plain(value)
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    return list(value) if type(value) is CallKey else value


def _key(found: Any) -> CallKey:
    match found:
        case [str(scope), str(fn), int(n), str(digest)]:
            return CallKey(scope, fn, n, digest)
    raise ValueError("a key is scope, function, number and digest")


class ErrorText(BaseModel):
    """An exception as names and text; never rebuilt as a class."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    type: str = Field(description="Name of its class.")
    message: str = Field(description="Its text.")
    traceback: str = Field("", description="As Python prints it; the end of a long one.")


class RunCreated(_Event):
    """The run exists. `spec` is the SHA-256 of its run.json, which never changes afterwards."""

    e: Literal["run.created"] = "run.created"
    format: int
    run: str
    spec: str


class RunStarted(_Event):
    """A generation begins. `torn` counts the bytes of an unfinished last line that were cut off before it."""

    e: Literal["run.started"] = "run.started"
    pid: int
    host: str
    torn: int = 0


class RunFinished(_Event):
    """A generation ended in a known way. `cause` is the `s` of the failed call whose CallError left the entry.

    `also` names further ones that left it together with that, as an exception group holds them. `unasked` lists completed
    records that a completed run never asked for (the first 100 of them).
    """

    e: Literal["run.finished"] = "run.finished"
    status: Annotated[Status, Strict(False)]
    reason: str = ""
    message: str = ""
    error: ErrorText | None = None
    cause: int = 0
    also: list[int] = Field(default_factory=list)
    result: Any = None
    blob: str = ""
    active_s: float = 0.0
    unasked: list[int] = Field(default_factory=list)

    @model_validator(mode="after")
    def _holds_a_result_exactly_when_completed(self) -> RunFinished:
        given = ("result" in self.model_fields_set) + bool(self.blob)
        if given != (self.status is Status.COMPLETED):
            raise ValueError("a result belongs to a completed run, once")
        return self


class RunWaiting(_Event):
    """The generation is over and its cell gone, since all that the program waits for takes long; the run goes on with an outcome.

    `reason`: `person` when only answers of people are missing, `slow` when something is still being executed. `calls` are the
    `s` of what is waited for.
    """

    e: Literal["run.waiting"] = "run.waiting"
    reason: Literal["person", "slow"]
    calls: list[int]
    active_s: float = 0.0


class CellStarted(_Event):
    """A cell was opened for this generation."""

    e: Literal["cell.started"] = "cell.started"
    cell: str
    image: str = ""
    runtime: str = ""


class CellEnded(_Event):
    """A cell is gone (`left` true: not yet, the reaper has it). `detail`, `exit`, `usage`: see `engine.sandbox.outcome`."""

    e: Literal["cell.ended"] = "cell.ended"
    cell: str
    cause: str
    detail: str = ""
    exit: int | None = None
    stragglers: int = 0
    left: bool = False
    notes: list[str] = Field(default_factory=list)
    usage: dict[str, Any] = Field(default_factory=dict)


class CallStarted(_Event):
    """A call is about to be executed. `counted`: towards the cap. The arguments stand in `args` or in the blob `args_blob`.

    `kind`: `timer`, `person` (a question that somebody answers), or "" for everything else.
    """

    e: Literal["call.started"] = "call.started"
    key: Annotated[CallKey, PlainValidator(_key)]
    args: Any = None
    args_blob: str = ""
    label: str = ""
    kind: str = ""
    caller: int = 0
    site: str = ""
    phase: list[str] = Field(default_factory=list)
    counted: bool = False

    @model_validator(mode="after")
    def _holds_its_arguments_once(self) -> CallStarted:
        if ("args" in self.model_fields_set) == bool(self.args_blob):
            raise ValueError("arguments stand in args or in args_blob, in one of them")
        return self


class CallCompleted(_Event):
    """The call `of` gave a value: `result`, the blob `blob`, or one that cannot be recorded (`unencodable` says why)."""

    e: Literal["call.completed"] = "call.completed"
    of: int
    result: Any = None
    blob: str = ""
    unencodable: str = ""
    facts: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _holds_one_outcome(self) -> CallCompleted:
        if ("result" in self.model_fields_set) + bool(self.blob) + bool(self.unencodable) != 1:
            raise ValueError("a completed call has a result, a blob or a reason why there is none, one of them")
        return self


class CallFailed(_Event):
    """The call `of` failed; raised in the program as CallError, the same on replay."""

    e: Literal["call.failed"] = "call.failed"
    of: int
    type: str
    message: str
    traceback: str = ""
    facts: dict[str, Any] = Field(default_factory=dict)


class CallUnknown(_Event):
    """The call `of` was started and nobody will learn how it ended: the owner died or stopped it."""

    e: Literal["call.unknown"] = "call.unknown"
    of: int


class CallDropped(_Event):
    """The program stopped waiting for the call `of` before it had an outcome; its execution was ended."""

    e: Literal["call.dropped"] = "call.dropped"
    of: int


class Output(_Event):
    """What one stream of this generation amounted to: `size` bytes written, `cut` of them not kept in logs/."""

    e: Literal["output"] = "output"
    stream: Literal["stdout", "stderr"]
    size: int
    cut: int = 0


class Artifact(_Event):
    """A file in output/, as this generation left it."""

    e: Literal["artifact"] = "artifact"
    path: str
    size: int
    sha256: str


class Decision(_Event):
    """Something a person decided: `raise_cap` (value), `cancel`, `accept_divergence`, `on_unknown` (value), or about one call

    (`of`): `rerun`, `treat-as-failed` or `value` for one of unknown outcome, `answer` for a question. All but `rerun` are followed
    by that call's outcome.
    """

    e: Literal["decision"] = "decision"
    what: Literal[
        "raise_cap", "cancel", "accept_divergence", "on_unknown", "rerun", "treat-as-failed", "value", "answer"
    ]
    by: str = ""
    of: int = 0
    value: Any = None

    @model_validator(mode="after")
    def _raises_the_cap_to_a_number(self) -> Decision:
        if self.what == "raise_cap" and type(self.value) is not int:
            raise ValueError("a cap is raised to an integer")
        return self


Event = (
    RunCreated
    | RunStarted
    | RunFinished
    | RunWaiting
    | CellStarted
    | CellEnded
    | CallStarted
    | CallCompleted
    | CallFailed
    | CallUnknown
    | CallDropped
    | Output
    | Artifact
    | Decision
)

_EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="e")])
_ENVELOPE = ("s", "at", "g", "e", "p")


@dataclass(frozen=True)
class Line:
    """One event with its place. `at` is in seconds since 1970, UTC, to the microsecond; `after` hashes the line before."""

    seq: int
    at: float
    generation: int
    event: Event
    after: str


def dump(line: Line) -> bytes:
    """The line with its newline.

    Raises:
        BadLine: longer than `LINE_BYTES`.
    """
    fields = {
        "s": line.seq,
        "at": line.at,
        "g": line.generation,
        "e": line.event.e,
        **line.event.body(),
        "p": line.after,
    }
    try:
        raw = compact(fields) + b"\n"
    except ValueError as error:
        raise BadLine(f"cannot be written as JSON ({error})") from error
    if len(raw) > LINE_BYTES:
        raise BadLine(f"{len(raw)} bytes in a line, at most {LINE_BYTES}")
    return raw


def parse(raw: bytes) -> Line:
    """The event of a line, without its newline.

    Raises:
        BadLine: no UTF-8, no JSON object, a missing or unknown field, one of another type, or an unknown event.
    """
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadLine(f"is no JSON ({type(error).__name__})") from error
    if not isinstance(fields, dict) or list(fields)[:4] != list(_ENVELOPE[:4]) or list(fields)[-1] != "p":
        raise BadLine("does not have the form of an event")
    seq, at, generation, after = (fields.pop(name) for name in ("s", "at", "g", "p"))
    if type(seq) is not int or type(at) is not float or type(generation) is not int or type(after) is not str:
        raise BadLine("does not have the form of an event")
    try:
        return Line(seq, at, generation, _EVENTS.validate_python(fields), after)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "e"
        raise BadLine(f"{where[:WORDS]}: {first['msg'][:WORDS]}") from error


def hash_line(raw: bytes) -> str:
    """128 bits of SHA-256 over a line with its newline, 32 hex digits."""
    return hashlib.sha256(raw).hexdigest()[:32]
