"""A cell: one container, one job, then destroyed.

    open_cell ──▶ intent written ──▶ created, read back ──▶ started ──▶ hello, attested ──▶ Cell
    Cell.deliver(job, snapshot) ──▶ receive() … End ──▶ finish(): killed, waited for, removed, seen absent ──▶ CellEnd

Whatever happens in between, an error, a cancellation or Ctrl-C, the block is left with no container, or with one that the
engine did not let go of and that `left_behind` and the reaper's list name. No code is delivered unless readback, attestation
and the host's cgroup files agree with the policy.

Waiting for a frame polls files, because notifications do not cross every runtime. Right after an answer it keeps the thread for
up to a millisecond, yielding the processor and then sleeping shortly: a run drives a loop of its own and has nothing else to do
until the program goes on, and a timer of the loop costs several times the round trip (0.2 ms). Otherwise it gives the loop away,
for 1 to 20 ms, until something is answered.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from engine import log
from engine.errors import AttestationFailed, CellLost, EngineTimeout, ExchangeError, SandboxError
from engine.points import reached
from engine.sandbox import attest, snapshot_copy
from engine.sandbox.cgroup import LimitsInForce
from engine.sandbox.docker import ContainerGone, EngineEvent
from engine.sandbox.evidence import Evidence, decide
from engine.sandbox.frames import CellFrame, End, Hello
from engine.sandbox.jobs import Job
from engine.sandbox.launch import Launch, Wish
from engine.sandbox.outcome import Accounting, Cause, CellEnd
from engine.sandbox.policy import CellPolicy, Kind, Runtime
from engine.sandbox.unbroken import Once, carried_out
from engine.sandbox.watch import Watch

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

SPIN_S = 500e-6
"""So long after a reply the loop only yields the processor: the shortest sleep takes as long as a whole answer."""

HOT_S, HOT_STEP_S = 1e-3, 50e-6
IDLE_S, IDLE_MOST_S = 0.001, 0.02
YIELD_S = 0.002
"""Frames that are there already are given without letting anything else run for so long."""

HELLO_S = 20.0
"""From the engine's "started" to the supervisor's hello, at most."""

JOB_WAIT_S = 60.0
"""How long a supervisor waits for its job before it ends by itself."""

HOST_MARGIN_S = 2.0
"""The host's deadline is later than the supervisor's by this, so that the better-informed one ends the cell."""

CANCEL_GRACE_S = 2.0
LAST_WORD_S = 2.0
"""From the acknowledged last word to the end of the supervisor, before it is killed."""


@dataclass
class _Times:
    opened: float = 0.0
    claimed: float = 0.0
    ready: float = 0.0
    delivered: float = 0.0
    ended: float = 0.0


class Cell:
    """A started and attested cell. Made by `open_cell`; used from one event loop."""

    def __init__(self, sandbox: Sandbox, launch: Launch) -> None:
        self._sandbox = sandbox
        self._launch = launch
        self._times = _Times(opened=sandbox.clock.monotonic_s())
        self._watch: Watch | None = None
        self._last_word: End | None = None
        self._violation = ""
        self._attestation: dict[str, Any] = {}
        self._limits_in_force: LimitsInForce | None = None
        self._notes: list[str] = []
        self._engine_hangs = False
        self._hot_until = self._yielded = 0.0
        self._answered: anyio.Event | None = None
        self._finishing = Once(self._finish)
        self._end: CellEnd | None = None

    @property
    def cell_id(self) -> str:
        """Also in the container's name and labels."""
        return self._launch.cell_id

    @property
    def image(self) -> str:
        """Image id, `sha256:…`."""
        return self._launch.wish.image_id

    @property
    def runtime(self) -> str:
        """OCI runtime, e.g. `runc`."""
        return self.policy.runtime

    @property
    def policy_digest(self) -> str:
        """SHA-256 of the policy that it was checked against, 64 hex digits."""
        return self._launch.wish.claimed.digest

    @property
    def container(self) -> str:
        """The container's id; "" before it was created."""
        return self._launch.container

    @property
    def policy(self) -> CellPolicy:
        """What it was created with."""
        return self._launch.wish.policy

    @property
    def uid(self) -> int:
        """The uid of untrusted code in it."""
        return self._launch.uid

    @property
    def attestation(self) -> dict[str, Any]:
        """What its supervisor saw from inside; compared with the policy already."""
        return self._attestation

    @property
    def limits_in_force(self) -> LimitsInForce | None:
        """What the kernel enforces, read on the host; None where that cannot be seen. Compared already."""
        return self._limits_in_force

    @property
    def end(self) -> CellEnd | None:
        """How it ended; None while it lives."""
        return self._end

    # start

    async def _start(self) -> None:
        await _in_thread(partial(self._launch.prepare, wait_s=JOB_WAIT_S))
        self._times.claimed = self._now()
        await _in_thread(self._launch.start)
        self._watch = Watch(
            self._sandbox.engine, self._sandbox.clock, container=self._launch.container, pid=self._launch.pid
        )
        with anyio.move_on_after(HELLO_S) as waiting:
            hello = await self.receive()
        if waiting.cancelled_caught:
            raise CellLost(f"cell {self.cell_id} did not say hello within {HELLO_S:g} s.", fix="Run `cloche doctor`.")
        self._check(hello)
        self._times.ready = self._now()
        reached("cell.attested")
        log.info("cell.started", cell=self.cell_id, kind=self._launch.wish.kind, runtime=self.policy.runtime)

    def _check(self, hello: CellFrame) -> None:
        if not isinstance(hello, Hello) or hello.nonce != self._launch.nonce:
            raise AttestationFailed(f"cell {self.cell_id} answered with another nonce than it was given.")
        claimed = self._launch.wish.claimed
        self._attestation = hello.attestation
        found = attest.differences(hello.attestation, claimed, uid=self._launch.uid)
        assert self._watch is not None
        if self._watch.cgroup is None:
            self._notes.append("the cgroup files are not visible from this machine")
        else:
            try:
                self._limits_in_force = self._watch.cgroup.limits()
                found += attest.cgroup_differences(self._limits_in_force, claimed)
            except (OSError, ValueError) as error:
                found += (f"the cgroup files could not be read ({error})",)
        if found:
            raise AttestationFailed(
                f"cell {self.cell_id} is not what the policy says: {'; '.join(found[:5])}.",
                fix="No code was delivered. Run `cloche doctor`.",
            )

    # the job

    async def deliver(self, job: Job, snapshot: Path) -> None:
        """Copy the snapshot in and send the job; the host's deadline starts to count.

        Raises:
            SnapshotRefused, StorageFull, EngineFailure: the snapshot could not be copied. CellLost: the cell is gone.
            ValueError: the task is larger than a value may be.
        """
        assert self._watch is not None
        await _in_thread(partial(snapshot_copy.deliver, snapshot, self._launch.link.inbox))
        self._times.delivered = self._now()
        self._launch.link.send_job(job)
        self._watch.arm(min(job.deadline_s, self._launch.wish.deadline_s) + HOST_MARGIN_S, Cause.DEADLINE)

    async def receive(self) -> CellFrame:
        """The next frame. `End` is the last one; then call `finish`. Raises as `receive_within`."""
        frame = await self.receive_within(math.inf)
        assert frame is not None
        return frame

    async def receive_within(self, seconds: float) -> CellFrame | None:
        """The next frame, or None when none came within `seconds`.

        Raises:
            CellLost: the container is gone without a last word, or the last word was given before; `finish` tells why.
            ExchangeError: the cell broke the exchange; it will be destroyed.
        """
        until = time.perf_counter() + seconds
        await self._let_others_run()
        idle_s = IDLE_S
        while True:
            assert self._watch is not None
            gone = self._watch.gone.is_set()  # asked before the files: what was written before the end is still read
            frame = self._poll()
            if frame is not None:
                return frame
            if gone or self._last_word is not None:
                raise CellLost(f"cell {self.cell_id} ended without a last word.", fix="Its end says why; run it again.")
            now = time.perf_counter()
            if now < self._hot_until:
                if now < self._hot_until - HOT_S + SPIN_S:
                    os.sched_yield()  # 0.6 µs; a sleep of 0 s takes 70
                else:
                    time.sleep(HOT_STEP_S)
                continue
            if now >= until:
                return None
            idle_s = min(idle_s, until - now)
            self._answered = anyio.Event()
            with anyio.move_on_after(idle_s):
                await self._answered.wait()
            idle_s = IDLE_S if self._answered.is_set() else min(idle_s * 1.05, IDLE_MOST_S)

    async def _let_others_run(self) -> None:
        """A program that never pauses must not keep the loop from everything else, nor pay for it with every frame."""
        now = time.perf_counter()
        if now - self._yielded >= YIELD_S:
            self._yielded = now
            await anyio.lowlevel.checkpoint()

    def _poll(self) -> CellFrame | None:
        assert self._watch is not None
        try:
            frame = self._launch.link.poll()
            if isinstance(frame, End):
                self._launch.link.check_finished()
        except ExchangeError as error:
            self._violation = error.code
            raise
        if isinstance(frame, End):
            # before the acknowledgement: once the supervisor ends, the counters disappear
            self._watch.sample()
            self._last_word = frame
            self._times.ended = self._now()
            self._launch.link.send_ack()
        return frame

    async def reply_ok(self, number: int, encoded: Any, *, at: float, ahead: str = "") -> None:
        """Answer a call with a value in codec form; `at` and `ahead` as for `HostLink.send_ok`.

        Raises:
            ValueError: it is larger than a value may be; answer with an error instead.
        """
        self._launch.link.send_ok(number, encoded, at=at, ahead=ahead)
        self._expect_more()

    async def reply_error(
        self, number: int, type_name: str, message: str, traceback: str = "", *, at: float, ahead: str = ""
    ) -> None:
        """Answer a call with an error, raised in the program as CallError; `at` and `ahead` as for `HostLink.send_ok`."""
        self._launch.link.send_error(
            number, type_name=type_name, message=message, traceback=traceback, at=at, ahead=ahead
        )
        self._expect_more()

    def _expect_more(self) -> None:
        """The program goes on: what it says next is waited for closely, also by a `receive` that waits already."""
        self._hot_until = time.perf_counter() + HOT_S
        if self._answered is not None:
            self._answered.set()

    async def reply_stop(self, number: int, reason: str) -> None:
        """End the program at this call, without an answer."""
        self._launch.link.send_stop(number, reason)

    async def cancel(self, reason: str) -> None:
        """Ask the supervisor to end the program; frames still come, the last one within seconds or the host kills."""
        assert self._watch is not None
        self._launch.link.send_cancel(reason)
        self._watch.arm(CANCEL_GRACE_S, Cause.CANCELLED)

    # the end

    async def finish(self) -> CellEnd:
        """End the cell if it lives, prove it gone, and tell how it ended. Safe to repeat; nothing cuts it off.

        A cancellation that comes meanwhile is due at the next await after it, so that the caller can still record the end.
        Raises nothing of the engine's: what could not be removed is said in `left_behind` and left to the reaper.
        """
        if self._end is None:
            self._end = await carried_out(self._finishing)
        return self._end

    def _finish(self) -> CellEnd:
        begun = self._now()
        evidence = self._evidence()
        gone = self._destroy()
        link = self._launch.open_link
        crossed = (link.bytes_in, link.bytes_out) if link is not None else (0, 0)
        if self._watch is not None:
            self._watch.stop()
        self._launch.release(gone=gone)
        verdict = decide(evidence)
        end = CellEnd(
            cell_id=self.cell_id,
            cause=verdict.cause,
            detail=verdict.detail,
            exit=None if evidence.end is None else evidence.end.exit,
            stragglers=0 if evidence.end is None else evidence.end.stragglers,
            accounting=self._accounting(begun, *crossed),
            left_behind=not gone,
            notes=(*verdict.notes, *self._notes),
        )
        log.info("cell.ended", cell=self.cell_id, cause=str(end.cause), left_behind=end.left_behind)
        return end

    def _destroy(self) -> bool:
        """True when the engine shows that nothing is left. An engine that hung a moment ago is not waited for again."""
        try:
            if self._engine_hangs:
                raise EngineTimeout("the engine hangs.")
            self._launch.destroy(ended=self._watch is not None and self._watch.gone.is_set())
        except SandboxError as error:
            self._notes.append(f"left behind: {error.message}")
            log.warning("cell.left_behind", cell=self.cell_id, error=error.code)
            return False
        return True

    def _evidence(self) -> Evidence:
        """Bring the cell to its end and collect what there is to know, while the container still exists."""
        watch = self._watch
        if watch is None:
            return Evidence(killed=Cause.CANCELLED)
        answers = True
        state: dict[str, Any] = {}
        events: tuple[EngineEvent, ...] = ()
        try:
            if self._last_word is None or not watch.gone.wait(LAST_WORD_S):
                watch.sample()
                watch.kill(Cause.CANCELLED)
            if self._last_word is None and not watch.killed:
                state, events = self._look_into()
        except SandboxError as error:
            answers = False
            self._engine_hangs = isinstance(error, EngineTimeout)
            self._notes.append(f"{error.code}: {error.message}")
        counters = watch.counters
        return Evidence(
            end=self._last_word,
            killed=watch.killed,
            violation=self._violation,
            oom_kills=counters.oom_kills,
            oom_flag=bool(state.get("OOMKilled")),
            pids_refused=counters.pids_refused,
            killed_by_other=not state or any(event.action in ("kill", "destroy") for event in events),
            engine_answers=answers,
        )

    def _look_into(self) -> tuple[dict[str, Any], tuple[EngineEvent, ...]]:
        """What the engine says of a container that ended without us; nothing when it does not even exist any more."""
        engine, container = self._sandbox.engine, self._launch.container
        try:
            engine.wait(container, timeout_s=5.0)
            state = dict(engine.inspect(container)["State"])
        except ContainerGone:
            return {}, ()
        return state, engine.events(container, since=self._launch.started_at_unix - 1, until=time.time() + 1)

    def _accounting(self, begun: float, bytes_in: int, bytes_out: int) -> Accounting:
        times = self._times
        ended = times.ended or begun
        counters = self._watch.counters if self._watch is not None else None
        return Accounting(
            queue_s=max(0.0, (times.claimed or begun) - times.opened),
            start_s=max(0.0, (times.ready or begun) - (times.claimed or begun)),
            run_s=max(0.0, ended - times.delivered) if times.delivered else 0.0,
            teardown_s=max(0.0, self._now() - ended),
            cpu_s=counters.cpu_s if counters else None,
            throttled_s=counters.throttled_s if counters else None,
            peak_memory_bytes=counters.peak_memory_bytes if counters else None,
            peak_processes=counters.peak_processes if counters else None,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
        )

    def _now(self) -> float:
        return self._sandbox.clock.monotonic_s()


@asynccontextmanager
async def open_cell(
    sandbox: Sandbox,
    *,
    image_id: str,
    kind: Kind,
    deadline_s: float,
    generation: int = 1,
    run_id: str = "",
    runtime: Runtime | None = None,
    policy: CellPolicy | None = None,
    claimed: CellPolicy | None = None,
) -> AsyncIterator[Cell]:
    """A started, attested cell without a job, destroyed when the block is left, however it is left.

    `deadline_s` bounds the job (a job's own deadline may be shorter). `runtime` None: the one chosen by the settings.
    `policy` None: the full one for this kind. `claimed` is compared with instead of `policy`: a test takes a protection away
    in one of them and sees it found.

    Raises:
        SandboxUnavailable: no engine, image, runtime or uid. EngineTimeout, EngineRefused: the engine.
        PolicyMismatch, AttestationFailed: the cell is not what the policy says. CellLost, ExchangeError: it died or lied
            before its hello. In every case nothing is left but what `Sandbox.reap` lists.
    """
    if policy is None:
        chosen = runtime or await sandbox.choose_runtime(image_id)
        policy = CellPolicy.from_settings(sandbox.settings, chosen, kind)
    wish = Wish(
        image_id=image_id,
        kind=kind,
        deadline_s=deadline_s,
        generation=generation,
        run_id=run_id,
        policy=policy,
        claimed=claimed or policy,
    )
    cell = Cell(sandbox, Launch(sandbox, wish))
    try:
        await cell._start()
        yield cell
    finally:
        await cell.finish()


async def _in_thread(work: Callable[[], object]) -> None:
    """Blocking work in a thread; a cancellation waits for it, so that what it acquired is known."""
    await anyio.lowlevel.checkpoint()  # what is cancelled already begins nothing
    await carried_out(Once(work))
