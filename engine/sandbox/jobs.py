"""What a cell is asked to do. One job per cell; the supervisor reads the same fields (docs/reference/protocol.md, `job`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class RunJob:
    """Call `workflows.<entry>`'s entry with `task` (codec form). `seed` is hex; `deadline_s` counts from delivery.

    `at` is the time that the program's clock shows before its first reply, in seconds since 1970.
    """

    entry: str
    task: Any
    seed: str
    deadline_s: float
    at: float = 0.0

    def to_wire(self, *, task_part: int | None = None) -> dict[str, Any]:
        """The `job` field of the frame; with the number of the part that holds a large task instead of it."""
        task = {"task": self.task} if task_part is None else {"task_part": task_part}
        return {
            "kind": "run",
            "entry": self.entry,
            **task,
            "seed": self.seed,
            "deadline_s": self.deadline_s,
            "at": self.at,
        }


@dataclass(frozen=True)
class Case:
    """One test case, listed by the host: `index` of `total` that the function gives in collection order."""

    file: str
    cls: str
    function: str
    index: int
    total: int


@dataclass(frozen=True)
class GateJob:
    """Run the cases of `workflows.<entry>`, each in a child of its own; with `replace_entry` the entry raises instead."""

    entry: str
    cases: tuple[Case, ...]
    replace_entry: bool
    deadline_s: float
    case_timeout_s: float
    output_bytes: int

    def to_wire(self) -> dict[str, Any]:
        """The `job` field of the frame; a case's place in the list is the `case` of its `test` frame."""
        return {"kind": "gate", **asdict(self), "cases": [asdict(case) for case in self.cases]}


@dataclass(frozen=True)
class ProbeJob:
    """Run attempts `probes/<name>.py` of the snapshot, each as untrusted code in a child of its own, reported like cases.

    An attempt defines `attempt() -> str`: returning means that it got through (text: how); raising means that it was stopped
    (`failed`, detail: "CAUSE: message", see `cloche_guest.attempt`).
    """

    attempts: tuple[str, ...]
    deadline_s: float
    case_timeout_s: float
    output_bytes: int

    def to_wire(self) -> dict[str, Any]:
        """The `job` field of the frame."""
        return {"kind": "probe", **asdict(self), "attempts": list(self.attempts)}


Job = RunJob | GateJob | ProbeJob
