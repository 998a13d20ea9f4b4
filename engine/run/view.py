"""What people and tools see of a run: frozen values, the content of state.json and of `--json`. Version 1."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.run.events import ErrorText
from engine.run.status import Status


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DecisionView(_View):
    """What a person decided."""

    what: str = Field(description="As `decision` in docs/reference/journal.md.")
    by: str = Field(description="Who; empty where the machine did not know.")
    of: int = Field(0, description="The attempt at a call that it is about, by `seq`; 0 for the run as a whole.")
    value: Any = Field(None, description="The cap, or how calls of unknown outcome are taken; else null.")


class CallView(_View):
    """A call. `attempts` counts its executions over all generations; `replayed`: the current one took an earlier record.

    `arguments` and `result` are JSON text, clipped. Times in seconds since 1970 and seconds.
    """

    kind: Literal["call"] = Field("call", description="Always `call`.")
    seq: int = Field(description="Sequence number of its newest `call.started` in the journal.")
    scope: str = Field(description="Where it stands, as docs/reference/journal.md says; `/` for the main line.")
    fn: str = Field(description="The recorded function.")
    n: int = Field(description="The how-many-eth call of it in this scope, from 1.")
    digest: str = Field(description="SHA-256 of the arguments.")
    status: Literal["running", "completed", "failed", "unknown", "waiting", "dropped"] = Field(
        description="How it stands; `unknown`: started, and nobody will learn how it ended; `waiting`: a question to a person; "
        "`dropped`: the program stopped waiting for it."
    )
    replayed: bool = Field(description="The newest generation took an earlier record.")
    attempts: int = Field(description="Executions over all generations.")
    generation: int = Field(description="The generation that executed it last.")
    counted: bool = Field(description="Counts towards the cap.")
    label: str = Field(description="The program's own name for it.")
    site: str = Field(description="File and line in the package.")
    arguments: str = Field(description="JSON text, clipped.")
    result: str = Field(description="JSON text, clipped; empty without a result.")
    error: ErrorText | None = Field(description="How it failed.")
    started_at: float = Field(description="Seconds since 1970.")
    duration_s: float | None = Field(description="Null while nobody saw its end.")
    facts: dict[str, Any] = Field(description="What the host noted beside the result, such as the model.")
    waits_for: Literal["", "timer", "person"] = Field("", description="A time, or an answer of a person; else empty.")
    ended_generation: int = Field(
        0, description="The generation whose program ended by this failure; 0 for a failure that was handled, so far."
    )
    decisions: list[DecisionView] = Field(default_factory=list, description="About it, in order.")


class GroupView(_View):
    """Calls that belong together, in order."""

    kind: Literal["phase", "dependency", "parallel", "pipeline", "task"] = Field(
        description="A `phase()` block, one call of a dependency, one branch of `parallel`, one item of `pipeline`, one asyncio task."
    )
    name: str = Field(description="The phase's name; else the place that made it, and its number.")
    items: list[Node] = Field(description="Calls and groups inside, in order.")


Node = Annotated[CallView | GroupView, Field(discriminator="kind")]
GroupView.model_rebuild()


class GenerationView(_View):
    """One attempt. `cause`, `detail`, `exit`, `usage` say how its cell ended; empty when it had none or nobody saw its end."""

    number: int = Field(description="From 1.")
    started_at: float = Field(description="Seconds since 1970.")
    active_s: float = Field(description="Time with a cell.")
    status: Status = Field(description="How it ended.")
    reason: str = Field(description="As of the run.")
    message: str = Field("", description="The reason in a sentence, as it was recorded.")
    replayed: int = Field(
        0, description="Calls whose earlier outcome it could give back; fewer when it died on the way."
    )
    executed: int = Field(0, description="Calls that it began to execute.")
    unknown: int = Field(0, description="Of these, without an outcome that anybody saw.")
    decisions: list[DecisionView] = Field(default_factory=list, description="What people decided for it as a whole.")
    pid: int = Field(description="The process that executed it.")
    host: str = Field(description="That process's machine.")
    torn: int = Field(description="Bytes of an unfinished last journal line that were cut off before it.")
    cell: str = Field(description="The cell's id.")
    image: str = Field(description="The image's id.")
    runtime: str = Field(description="The OCI runtime.")
    cause: str = Field(description="How the cell ended, from evidence.")
    detail: str = Field(description="More about the cause.")
    exit: int | None = Field(description="Exit code of the worker; proves nothing.")
    stragglers: int = Field(description="Processes left over that were ended.")
    notes: list[str] = Field(description="What else was seen of the cell's end.")
    usage: dict[str, Any] = Field(description="What the cell took: seconds and bytes.")
    stdout_bytes: int = Field(description="Written to stdout.")
    stderr_bytes: int = Field(description="Written to stderr.")
    cut_bytes: int = Field(description="Of both, not kept in logs/.")


class ArtifactView(_View):
    """A file in output/."""

    path: str = Field(description="Below output/.")
    size: int = Field(description="Bytes.")
    sha256: str = Field(description="Of the content.")


class Clipped(_View):
    """JSON text of a value, clipped; `size` is that of the whole text in bytes, `whole` says that nothing was cut."""

    text: str = Field(description="JSON text, at most about 2 KiB.")
    size: int = Field(description="Bytes of the whole text.")
    whole: bool = Field(description="Nothing was cut.")


class OriginView(_View):
    """Where a fork took its first records from."""

    run: str = Field(description="The run.")
    seq: int = Field(description="The first call of it that was not taken over.")


class RunView(_View):
    """A run, folded from its journal."""

    version: Literal[1] = Field(1, description="Format of this object.")
    seq: int = Field(description="Lines of the journal.")
    run_id: str = Field(description="UTC time and a random suffix.")
    kind: str = Field(description="`package` in this version.")
    session: str = Field(description="The session it belongs to.")
    forked_from: OriginView | None = Field(None, description="Null for a run that is no fork.")
    workflow_id: str = Field(description="The package.")
    revision: str = Field(description="Commit id, 40 hex digits.")
    tree_id: str = Field(description="Git tree id of the package, 40 hex digits.")
    snapshot_digest: str = Field(description="Names the bytes that ran.")
    pins: dict[str, str] = Field(description="Workflow id to revision, of every dependency.")
    permissions: list[str] = Field(description="What the package asked for and the session granted.")
    workspace: str = Field(description="Absolute directory that file calls see.")
    model: str = Field(description="Model of agent() and llm(); empty for none.")
    task: Clipped = Field(description="What it was asked to do.")
    status: Status = Field(description="How it stands.")
    reason: str = Field(description="Why it is not completed; empty when running or completed.")
    message: str = Field(description="The reason in a sentence.")
    error: ErrorText | None = Field(description="The exception that ended it.")
    result: Clipped | None = Field(description="Present when completed.")
    created_at: float = Field(description="Seconds since 1970.")
    ended_at: float | None = Field(description="Seconds since 1970; null while it has not ended.")
    active_s: float = Field(description="Of all generations together.")
    executions: int = Field(description="Executions that count towards the cap.")
    cap: int = Field(description="How many of them it may make.")
    calls_made: int = Field(description="Calls in the tree.")
    failed_calls: int = Field(description="Of these, failed.")
    generations: list[GenerationView] = Field(description="Attempts, oldest first.")
    calls: list[Node] = Field(description="The call tree.")
    artifacts: list[ArtifactView] = Field(description="Files in output/.")
    deliveries: list[int] = Field(description="`seq` of the calls that delivered something.")
    unasked: list[int] = Field(
        description="`seq` of completed records that the completed run never asked for, the first 100."
    )

    def __repr__(self) -> str:
        """Short: an event loop shows the result of its task when it closes, and all calls of a run are many."""
        return f"RunView({self.run_id!r}, {self.status.value!r})"

    __str__ = __repr__

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
