"""What the run loop needs of a recorded callable: how it counts, what an unknown outcome means, and its execution.

`engine.agents` implements these; the run loop knows no function by name.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

Kind = Literal["", "timer", "person"]


class CallKey(NamedTuple):
    """Identity of a call in a run: place in the program and arguments. `digest` is SHA-256 hex of the canonical arguments."""

    scope: str
    fn: str
    n: int
    digest: str


def key_digest(key: CallKey) -> str:
    """One word for a key: SHA-256 hex over scope, function, n and digest, each followed by a newline."""
    return hashlib.sha256("".join(f"{part}\n" for part in key).encode()).hexdigest()


class Effects(StrEnum):
    """What executing a call again after an unknown outcome means."""

    NONE = "none"
    IDEMPOTENT = "idempotent"
    SOME = "some"


@dataclass(frozen=True)
class RunContext:
    """What handlers may know of the run. `permissions` is package ∩ session; `workspace` is an absolute directory."""

    run_id: str
    workflow_id: str
    snapshot: Path
    workspace: Path
    permissions: frozenset[str]
    model: str


@dataclass(frozen=True)
class CallRequest:
    """One execution. `args` are the decoded bound arguments, still untrusted; `idempotency_key` is run id + call key.

    `replies_used` are the indexes of scripted replies that calls of this run took, as told in their facts `replies`. `since` is
    when the call was first begun, in any generation (seconds since 1970).
    """

    key: CallKey
    args: dict[str, Any]
    label: str
    idempotency_key: str
    context: RunContext
    replies_used: frozenset[int] = frozenset()
    since: float = 0.0


@dataclass(frozen=True)
class CallResult:
    """What a handler gives: a value for the codec, and facts for the record that the program never sees (e.g. `replies`, `usage`)."""

    value: Any
    facts: dict[str, Any]


class CallFailed(Exception):
    """The call itself failed; recorded as `call.failed` and raised in the program as CallError. Not for our own bugs.

    `facts` go into the record beside the failure, as those of a CallResult do.
    """

    def __init__(
        self, type_name: str, message: str, traceback: str = "", *, facts: dict[str, Any] | None = None
    ) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name
        self.message = message
        self.traceback = traceback
        self.facts = facts or {}


class CallHandler(Protocol):
    """One recorded callable.

    `kind`: `timer` (waits for a time and takes no place among the calls executed at once), `person` (a question: `execute` only
    checks it, and the answer comes later, from outside the run) or "". `instant`: it never waits for anything, so that it needs
    no task of its own. `counted`: executions count towards the
    cap. `effects`: see Effects. `permission`: what the run must hold, "" for none (the run loop refuses the call with
    CallFailed("PermissionError", …) when it is missing).
    """

    @property
    def kind(self) -> Kind: ...

    @property
    def instant(self) -> bool: ...

    @property
    def counted(self) -> bool: ...

    @property
    def effects(self) -> Effects: ...

    @property
    def permission(self) -> str: ...

    async def execute(self, request: CallRequest) -> CallResult:
        """Do it. Raises CallFailed for a failure of the call; cancellation passes through untouched."""
        ...
