"""The probe's programs: attempts that need a cell of their own, each judged by how that cell ended.

A file of `sandbox_images/probes/programs` is the entry of a package in a cell, and a plain program below a careless supervisor in
the unprotected container. It may set, as literals: SETTINGS (settings and limits of its cell), DEADLINE_S, and NEIGHBOUR (a
second cell must do its work meanwhile).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from cloche_guest import codec

from engine.errors import CellLost, ExchangeError
from engine.sandbox.at_once import at_once
from engine.sandbox.attempts import Attempt, select
from engine.sandbox.bait import Bait, laid_out
from engine.sandbox.cell import open_cell
from engine.sandbox.control import in_control
from engine.sandbox.frames import End, Result
from engine.sandbox.incoming import Limits
from engine.sandbox.jobs import RunJob
from engine.sandbox.outcome import Cause, CellEnd
from engine.sandbox.policy import CellPolicy, Runtime
from engine.sandbox.probe_report import ProbeRow, Said, judged

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

DEADLINE_S = 60.0
CELLS = 4
"""So many cells at once; most of the time they start, wait or end."""

THROTTLED_S = 0.05
"""So long a cell with next to no share was made to wait, at least, however busy the machine is otherwise."""

Change = Callable[[CellPolicy], CellPolicy]

_ENTRY = """from cloche_guest.attempt import outcome


def {name}(task):
    return list(outcome("/cloche/in/snapshot/probes/" + task + ".py"))
"""
_NEIGHBOUR = """def neighbour(task):
    return sum(number * number for number in range(task))
"""


@dataclass(frozen=True)
class _Program:
    """What a program says of the cell that it needs."""

    attempt: Attempt
    settings: dict[str, Any] = field(default_factory=dict)
    deadline_s: float = DEADLINE_S
    neighbour: bool = False

    @classmethod
    def read(cls, attempt: Attempt) -> _Program:
        said = {
            target.id: node.value
            for node in ast.parse(attempt.source).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        given = {
            name.lower(): ast.literal_eval(said[name])
            for name in ("SETTINGS", "DEADLINE_S", "NEIGHBOUR")
            if name in said
        }
        return cls(attempt, **given)

    def policy(self, sandbox: Sandbox, runtime: Runtime) -> CellPolicy:
        bounds = {name.name for name in fields(Limits)} - set(type(sandbox.settings).model_fields)
        settings = {name: value for name, value in self.settings.items() if name not in bounds}
        policy = CellPolicy.from_settings(sandbox.settings.model_copy(update=settings), runtime, "probe")
        limits = {name: value for name, value in self.settings.items() if name in bounds}
        return replace(policy, limits=replace(policy.limits, **limits))


async def probe_programs(
    sandbox: Sandbox,
    *,
    image_id: str,
    runtime: Runtime | None = None,
    chosen: Iterable[Attempt] | None = None,
    change: Change = lambda policy: policy,
    progress: Callable[[str], None] | None = None,
) -> tuple[ProbeRow, ...]:
    """Make every attempt of kind `program` (or those of that kind in `chosen`), each in a cell of its own, and in the control.

    `change` is applied to the policy of each cell: a test takes a protection away and sees an attempt get through.

    Raises:
        SandboxError: there was no cell, or no unprotected container.
    """
    used = runtime or await sandbox.choose_runtime(image_id)
    among = select() if chosen is None else chosen
    made = [_Program.read(one) for one in among if one.kind == "program" and one.applies(used)]
    if not made:
        return ()
    if progress:
        progress(f"{len(made)} programs, each in a cell of its own, and in an unprotected container")
    with laid_out(sandbox.settings.home, [one.attempt for one in made]) as bait:
        _write_packages(bait.snapshot)
        cells = [partial(_in_cell, sandbox, one, bait, image_id, change(one.policy(sandbox, used))) for one in made]
        names = [one.attempt.name for one in made]
        control = partial(in_control, sandbox, names, bait, image_id, script="_programs_control.py")
        said, controls = await at_once(
            [partial(at_once, cells, most=CELLS), partial(to_thread.run_sync, control)], most=2
        )
    lost = Said(False, "missing", "no outcome was reported")
    return tuple(
        judged(one.attempt, runtime=used, cell=cell, control=controls.get(one.attempt.name, lost))
        for one, cell in zip(made, said, strict=True)
    )


def _write_packages(snapshot: Path) -> None:
    for name, text in (("attack", _ENTRY.format(name="attack")), ("neighbour", _NEIGHBOUR)):
        package = snapshot / "workflows" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"from .workflow import {name}\n", encoding="utf-8")
        (package / "workflow.py").write_text(text, encoding="utf-8")


async def _in_cell(sandbox: Sandbox, program: _Program, bait: Bait, image_id: str, policy: CellPolicy) -> Said:
    attack = partial(_run, sandbox, "attack", program.attempt.name, bait, image_id, policy, program.deadline_s)
    if not program.neighbour:
        return said_of(program.attempt, policy.runtime, await attack())
    full = sandbox.policy("probe", policy.runtime)
    beside = partial(_run, sandbox, "neighbour", 10_000, bait, image_id, full, DEADLINE_S)
    heard, other = await at_once([attack, beside], most=2)
    said = said_of(program.attempt, policy.runtime, heard)
    worked = other.result is not None and other.result.error is None
    return said if worked else Said(False, "neighbour starved", said.text)


@dataclass(frozen=True)
class Heard:
    """What one cell gave: the result and the last word, if they came, and how it ended."""

    result: Result | None
    word: End | None
    end: CellEnd


async def _run(
    sandbox: Sandbox, entry: str, task: Any, bait: Bait, image_id: str, policy: CellPolicy, deadline_s: float
) -> Heard:
    result = word = None
    async with open_cell(sandbox, image_id=image_id, kind="probe", deadline_s=deadline_s, policy=policy) as cell:
        await cell.deliver(RunJob(entry, codec.encode(task), "00" * 16, deadline_s), bait.snapshot)
        try:
            while word is None:
                frame = await cell.receive()
                if isinstance(frame, Result):
                    result = frame
                elif isinstance(frame, End):
                    word = frame
        except (CellLost, ExchangeError):
            pass  # `finish` tells why, from evidence
        return Heard(result, word, await cell.finish())


def said_of(attempt: Attempt, runtime: str, heard: Heard) -> Said:
    """What stopped the program. One that came to its end got through, unless the host saw what EXPECT names all the same."""
    end, result = heard.end, heard.result
    match end.cause:
        case Cause.MESSAGE | Cause.SIGNAL:
            return Said(False, end.detail, str(end.cause))
        case Cause.DEADLINE if heard.word is None:
            return Said(False, "host deadline", "the supervisor did not keep its own")
        case Cause.EXIT if result is None:
            return Said(False, f"exit {end.exit}", "without a result")
        case Cause.EXIT:
            return _of_result(attempt, runtime, heard)
        case cause:
            return Said(False, str(cause), end.detail)


def _of_result(attempt: Attempt, runtime: str, heard: Heard) -> Said:
    assert heard.result is not None
    if heard.result.error is not None:
        return Said(False, heard.result.error.type, heard.result.error.message)
    told = codec.decode(heard.result.encoded)
    if not isinstance(told, list) or len(told) != 2 or told[0] not in ("passed", "failed"):
        return Said(True, "", f"gave a result of its own: {told!r}"[:200])
    word, detail = told[0], str(told[1])
    if word == "failed":
        cause, _, rest = detail.partition(": ")
        return Said(False, cause, rest)
    seen = [fact for fact in _facts(heard) if attempt.expected(runtime, fact)]
    return Said(not seen, ", ".join(seen), detail)


def _facts(heard: Heard) -> list[str]:
    """What the host saw of a program that came to its end."""
    usage = heard.word.usage if heard.word is not None else {}
    facts = {
        "output cut": usage.get("stdout_cut", 0) > 0,
        "left out": usage.get("skipped_files", 0) > 0,
        "stragglers killed": heard.end.stragglers > 0,
        "throttled": (heard.end.accounting.throttled_s or 0.0) > THROTTLED_S,
    }
    return [fact for fact, holds in facts.items() if holds]
