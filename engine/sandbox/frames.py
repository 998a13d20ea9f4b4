"""What a cell says, as typed values: checked field by field, parts put together, values decoded without package classes.

Built only by `engine.sandbox.exchange`. Nothing in here is a path, class name or format string to be used as such.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class GuestError:
    """An exception that ended the workflow or left a call: names and text, never rebuilt as a class."""

    type: str
    message: str
    traceback: str


@dataclass(frozen=True)
class Hello:
    """The supervisor's answer to the nonce, with what it sees from inside (see `engine.sandbox.attest`)."""

    nonce: str
    attestation: dict[str, Any]


@dataclass(frozen=True)
class Ready:
    """The worker exists, has dropped its rights and is about to run the job."""


@dataclass(frozen=True)
class Call:
    """One use of a recorded callable.

    `number` counts the calls of this pass from 1; `n` counts those of `fn` in `scope` from 1. `encoded` is the codec form of
    the dict of bound arguments (defaults and labels left out), `args` the same decoded. `site` is `file:line` in the snapshot.
    `waits`: nothing of the program goes on before it gets an answer, as after `Quiet`.
    """

    number: int
    scope: str
    fn: str
    n: int
    encoded: Any
    args: dict[str, Any]
    label: str
    phase: tuple[str, ...]
    site: str
    waits: bool = True


@dataclass(frozen=True)
class Quiet:
    """Nothing of the program goes on before it gets an answer; `upto` is the number of its last call.

    `ahead`: None, or how many of the replies sent ahead it took; those behind them are void.
    """

    upto: int
    ahead: int | None = None


@dataclass(frozen=True)
class Drop:
    """The program no longer waits for the answer to the call `call`."""

    call: int


@dataclass(frozen=True)
class Output:
    """Bytes of stdout or stderr at an offset of the whole stream; a gap between frames is what was cut."""

    stream: Literal["stdout", "stderr"]
    offset: int
    data: bytes


@dataclass(frozen=True)
class Artifact:
    """A whole file of /tmp/output; `path` is a checked relative POSIX path (no `..`, no empty part, ≤ 200 characters)."""

    path: str
    data: bytes


@dataclass(frozen=True)
class CaseResult:
    """One test case or probe attempt, reported by the supervisor. `case` is the index in the job's list.

    `outcome`: passed, failed, skipped, error, timeout, unscripted, crashed, not_collected. `entered`: the entry was called.
    """

    case: int
    outcome: str
    detail: str
    duration_s: float
    output: str
    entered: bool


@dataclass(frozen=True)
class Result:
    """What the entry returned (`error` is None; `encoded` may be None, which is a value) or the exception that left it."""

    encoded: Any
    error: GuestError | None


@dataclass(frozen=True)
class End:
    """The supervisor's last word. `calls` are the numbers of the calls whose CallError left the entry, the first one first."""

    cause: str
    detail: str
    exit: int
    calls: tuple[int, ...]
    stragglers: int
    usage: dict[str, Any] = field(default_factory=dict)


CellFrame = Hello | Ready | Call | Quiet | Drop | Output | Artifact | CaseResult | Result | End
