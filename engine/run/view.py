"""What people and tools see of a run: frozen values, the content of state.json and of `--json`. Version 1."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.run.events import ErrorText
from engine.run.status import Status


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CallView(_View):
    """A call. `attempts` counts its executions over all generations; `replayed`: the current one took an earlier record.

    `arguments` and `result` are JSON text, clipped. Times in seconds since 1970 and seconds.
    """

    kind: Literal["call"] = "call"
    seq: int
    scope: str
    fn: str
    n: int
    digest: str
    status: Literal["running", "completed", "failed", "unknown"]
    replayed: bool
    attempts: int
    generation: int
    counted: bool
    label: str
    site: str
    arguments: str
    result: str
    error: ErrorText | None
    started_at: float
    duration_s: float | None
    facts: dict[str, Any]


class GroupView(_View):
    """Calls of a `phase()` block or of one call of a dependency, in order."""

    kind: Literal["phase", "dependency"]
    name: str
    items: list[Node]


Node = Annotated[CallView | GroupView, Field(discriminator="kind")]


class GenerationView(_View):
    """One attempt. `cause`, `detail`, `exit`, `usage` say how its cell ended; empty when it had none or nobody saw its end."""

    number: int
    started_at: float
    active_s: float
    status: Status
    reason: str
    pid: int
    host: str
    torn: int
    cell: str
    image: str
    runtime: str
    cause: str
    detail: str
    exit: int | None
    stragglers: int
    notes: list[str]
    usage: dict[str, Any]
    stdout_bytes: int
    stderr_bytes: int
    cut_bytes: int


class ArtifactView(_View):
    """A file in output/."""

    path: str
    size: int
    sha256: str


class Clipped(_View):
    """JSON text of a value, clipped; `size` is that of the whole text in bytes, `whole` says that nothing was cut."""

    text: str
    size: int
    whole: bool


class RunView(_View):
    """A run, folded from its journal."""

    version: Literal[1] = 1
    seq: int
    run_id: str
    kind: str
    session: str
    workflow_id: str
    revision: str
    tree_id: str
    snapshot_digest: str
    pins: dict[str, str]
    permissions: list[str]
    workspace: str
    model: str
    task: Clipped
    status: Status
    reason: str
    message: str
    error: ErrorText | None
    result: Clipped | None
    created_at: float
    ended_at: float | None
    active_s: float
    executions: int
    cap: int
    calls_made: int
    failed_calls: int
    generations: list[GenerationView]
    calls: list[Node]
    artifacts: list[ArtifactView]
    deliveries: list[int]
    unasked: list[int]

    @property
    def exit_code(self) -> int:
        """The process exit code that says how the run stands (docs/reference/exit-codes.md)."""
        match self.status, self.reason:
            case Status.COMPLETED, _:
                return 0
            case Status.CANCELLED, _:
                return 6
            case Status.FAILED, "sandbox":
                return 3
            case Status.FAILED, "engine":
                return 7
        return 1


def calls_of(nodes: list[Node]) -> list[CallView]:
    """Every call below the nodes, in order."""
    found: list[CallView] = []
    for node in nodes:
        found += [node] if isinstance(node, CallView) else calls_of(node.items)
    return found
