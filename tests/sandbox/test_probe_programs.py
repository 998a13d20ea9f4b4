"""The probe's programs: each is ended by what must end it, and by nothing once that is taken away."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.sandbox import farewell
from engine.sandbox.attempts import attempts, select
from engine.sandbox.evidence import Evidence, Verdict
from engine.sandbox.outcome import Cause
from engine.sandbox.policy import CellPolicy, Runtime
from engine.sandbox.probe_programs import probe_programs
from engine.sandbox.probe_report import ProbeRow
from engine.sandbox.service import Sandbox
from tests.helpers.weak_guest import Change, weakened, with_guest

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("changes to the guest's own code and to limits; the probe itself runs under both"),
]

GIB = 1024**3
Probe = Callable[..., Any]


@pytest.fixture
def verdicts(sandbox: Sandbox, image_id: str) -> Probe:
    """Make the named attempts; verdicts by name, and all rows when something got through unforeseen."""

    async def made(*names: str, change: Callable[[CellPolicy], CellPolicy]) -> dict[str, ProbeRow]:
        rows = await probe_programs(sandbox, image_id=image_id, chosen=select(only=names), change=change)
        return {row.name: row for row in rows}

    return made


GVISOR = (
    "fork_bomb",
    "thread_bomb",
    "memory_hog",
    "memory_in_children",
    "cpu_hog",
    "output_flood",
    "daemon",
    "linger",
    "ignore_signals",
    "signal_supervisor",
    "kill_everything",
    "exit_137",
    "forged_end",
    "write_exchange",
    "read_replies",
)
"""Those that gVisor's kernel, its accounting or its files could answer differently. What is left is the guest's own code."""


@pytest.mark.both_runtimes
async def test_every_program_is_ended_by_what_must_end_it_and_gets_through_without_protection(
    runtime: Runtime, sandbox: Sandbox, image_id: str
) -> None:
    chosen = [one for one in attempts() if one.kind == "program" and one.applies(runtime)]
    if runtime == "runsc":
        chosen = [one for one in chosen if one.name in GVISOR]
    rows = await probe_programs(sandbox, image_id=image_id, chosen=chosen)
    wanted = {one.name: "blocked" for one in chosen}
    assert {row.name: row.verdict for row in rows} == wanted, [row for row in rows if row.verdict != "blocked"]
    assert len(rows) >= (len(GVISOR) if runtime == "runsc" else 40)


def limits(policy: CellPolicy, **changed: int) -> CellPolicy:
    return replace(policy, limits=replace(policy.limits, **changed))


UNBOUNDED: dict[str, tuple[tuple[str, ...], Callable[[CellPolicy], CellPolicy]]] = {
    "processes": (
        ("fork_bomb", "thread_bomb"),
        lambda policy: limits(policy, processes=1000).with_ulimit("nproc", 1000).with_pids(2000).with_memory(2 * GIB),
    ),
    "memory": (("memory_hog", "memory_in_children", "kernel_buffers"), lambda policy: policy.with_memory(GIB)),
    "cpu": (("cpu_hog",), lambda policy: policy.with_cpus(os.cpu_count() or 1)),
    "output": (
        ("output_flood", "output_many_files", "output_large_files", "message_flood"),
        lambda policy: limits(
            policy, output_bytes=GIB, output_files=10_000, output_files_bytes=GIB, messages=1_000_000
        ),
    ),
}


@pytest.mark.parametrize("bound", UNBOUNDED)
async def test_a_cell_without_a_bound_lets_through_what_that_bound_stops(bound: str, verdicts: Probe) -> None:
    names, change = UNBOUNDED[bound]
    rows = await verdicts(*names, change=change)
    assert {name: row.verdict for name, row in rows.items()} == dict.fromkeys(names, "through"), [*rows.values()]


WEAKER: dict[str, tuple[tuple[str, ...], tuple[Change, ...]]] = {
    "every kind of frame is taken": (
        ("forged_end", "forged_artifact", "forged_acknowledgement"),
        (
            ("channel.py", "wire.WORKER_FRAMES, envelope", "wire.CELL_FRAMES, envelope"),
            ("channel.py", "self._TAKE[kind](self, frame)", "self._TAKE.get(kind, lambda *_: None)(self, frame)"),
        ),
    ),
    "numbers of calls are not counted": (
        ("replayed_call", "skipped_call"),
        (
            ("channel.py", "if number <= self.calls:", "if False:"),
            ("channel.py", "if number != self.calls + 1:", "if False:"),
        ),
    ),
    "values are not checked": (
        ("forged_class",),
        (
            (
                "channel.py",
                'if not fits:\n            raise wire.WireError("value',
                'if False:\n            raise wire.WireError("value',
            ),
        ),
    ),
    "members of one hash are compared": (
        ("costly_comparison",),
        (("codec_members.py", "if len(different) < len(members):", "if False:"),),
    ),
    "keys lie in keys at any depth": (
        ("keys_in_keys",),
        (("codec.py", "MEMBER_LEVELS = 20", "MEMBER_LEVELS = 1"),),
    ),
    "the result does not end the program": (("early_result",), (("channel.py", "if self.finished:", "if False:"),)),
    "half a message is forgotten": (("unfinished_line",), (("channel.py", "if self._buffer:", "if False:"),)),
    "the supervisor keeps no deadline": (
        ("ignore_signals",),
        (("control.py", "if now >= self.deadline:", "if False:"),),
    ),
    "what is left is not killed": (
        ("daemon", "stdout_holder"),
        (("running.py", "stragglers = self._control.reaper.end_all()\n", "stragglers = 0\n"),),
    ),
    "the worker keeps the supervisor's identity": (
        ("kill_everything", "write_exchange", "read_replies"),
        (("children.py", "if rights.uid is not None:", "if False:"),),
    ),
}


@pytest.mark.parametrize("protection", WEAKER)
async def test_a_guest_without_a_protection_is_found_out_by_its_program(
    protection: str, verdicts: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, changes = WEAKER[protection]
    guest = weakened(tmp_path, *changes)
    rows = await verdicts(*names, change=lambda policy: with_guest(policy, guest, monkeypatch))
    assert {row.verdict for row in rows.values()} <= {"through", "unexpected"}, rows


async def test_a_host_that_believes_exit_codes_is_found_out_by_programs_that_choose_them(
    verdicts: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def believing(seen: Evidence) -> Verdict:
        assert seen.end is not None
        return Verdict(Cause.LIMIT_MEMORY if seen.end.exit == 137 else Cause.EXIT, "")

    monkeypatch.setattr(farewell, "decide", believing)
    rows = await verdicts("exit_137", "kill_itself", change=lambda policy: policy)
    assert {row.verdict for row in rows.values()} == {"unexpected"}
