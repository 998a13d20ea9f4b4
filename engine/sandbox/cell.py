"""A cell: one container, one job, then destroyed.

    open_cell ──▶ intent written ──▶ created, read back ──▶ started ──▶ hello, attested ──▶ Cell
    Cell.deliver(job, snapshot) ──▶ receive() … End ──▶ finish(): killed, waited for, removed, seen absent ──▶ CellEnd

Whatever happens in between, an error, a cancellation or Ctrl-C, the block is left with no container, or with one that the
engine did not let go of and that `left_behind` and the reaper's list name. No code is delivered unless readback, attestation
and the host's cgroup files agree with the policy (`engine.sandbox.greeting`).
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.lowlevel

from engine import log
from engine.errors import AttestationFailed, CellLost, ExchangeError
from engine.points import reached
from engine.sandbox import snapshot_copy
from engine.sandbox.cgroup import LimitsInForce
from engine.sandbox.farewell import Farewell, Times
from engine.sandbox.frames import CellFrame, End
from engine.sandbox.greeting import Greeting, greeting
from engine.sandbox.jobs import Job
from engine.sandbox.launch import Launch, Wish
from engine.sandbox.lookout import Lookout
from engine.sandbox.outcome import Cause, CellEnd
from engine.sandbox.policy import CellPolicy, Kind, Runtime
from engine.sandbox.unbroken import Once, carried_out
from engine.sandbox.violations import violation
from engine.sandbox.watch import Watch, is_awake

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

T = TypeVar("T")

HELLO_S = 20.0
"""From the engine's "started" to the supervisor's hello, at most."""

TAKEN_S = 20.0
"""From the job to the first byte of an answer, at most: a supervisor acknowledges it before it does anything else."""

JOB_WAIT_S = 60.0
"""How long a supervisor waits for its job before it ends by itself."""

HOST_MARGIN_S = 2.0
"""The host's deadline is later than the supervisor's by this, so that the better-informed one ends the cell."""

CANCEL_GRACE_S = 2.0


class Cell:
    """A started and attested cell. Made by `open_cell`; used from one event loop."""

    def __init__(self, sandbox: Sandbox, launch: Launch) -> None:
        self._sandbox = sandbox
        self._launch = launch
        self._times = Times(opened=sandbox.clock.monotonic_s())
        self._watch: Watch | None = None
        self._last_word: End | None = None
        self._violation = ""
        self._heard_at_job = -1
        self._greeting = Greeting(attestation={})
        self._lookout = Lookout()
        self._finishing = Once(self._finish)
        self._end: CellEnd | None = None

    @property
    def cell_id(self) -> str:
        """Also in the container's name and labels."""
        return self._launch.cell_id

    @property
    def wish(self) -> Wish:
        """What it was opened for."""
        return self._launch.wish

    @property
    def is_warm(self) -> bool:
        """True for one that waited for its job."""
        return self._launch.is_taken

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
        return self._greeting.attestation

    @property
    def limits_in_force(self) -> LimitsInForce | None:
        """What the kernel enforces, read on the host; None where that cannot be seen. Compared already."""
        return self._greeting.limits_in_force

    @property
    def end(self) -> CellEnd | None:
        """How it ended; None while it lives."""
        return self._end

    # start

    async def start(self) -> None:
        """Have it started, or what was taken seen alive, and attested; raises as `open_cell`, which calls it."""
        if self._launch.is_taken:
            self._times.claimed = self._now()
            self._begin_to_watch()
            self._see_alive()
        else:
            if self._launch.open_link is None:
                await in_thread(self.prepare)
            self._times.claimed = self._now()
            await in_thread(self._launch.start)
            self._begin_to_watch()
        await self._greeted()
        log.info(
            "cell.started",
            cell=self.cell_id,
            kind=self._launch.wish.kind,
            runtime=self.policy.runtime,
            warm=self._launch.is_taken,
        )

    def prepare(self) -> None:
        """Its uid, intent and exchange; blocking. `start` does it unless it is done."""
        self._launch.prepare(wait_s=self._launch.wish.idle_s or JOB_WAIT_S)

    def _begin_to_watch(self) -> None:
        self._watch = Watch(
            self._sandbox.engine, self._sandbox.clock, container=self._launch.container, pid=self._launch.pid
        )

    def _see_alive(self) -> None:
        """An idle cell may have ended, or been stopped, by somebody else.

        Raises:
            CellLost: it has. SandboxError: the engine, where only it can tell.
        """
        assert self._watch is not None
        if self._watch.sees_process:
            alive = not self._watch.gone.is_set() and is_awake(self._launch.pid)
        else:
            state = self._sandbox.engine.inspect(self._launch.container)["State"]
            alive = bool(state["Running"]) and not state.get("Paused")
        if not alive:
            raise CellLost(f"idle cell {self.cell_id} is not alive any more.")

    async def _greeted(self) -> None:
        with anyio.move_on_after(HELLO_S) as waiting:
            hello = await self.receive()
        if waiting.cancelled_caught:
            raise CellLost(f"cell {self.cell_id} did not say hello within {HELLO_S:g} s.", fix="Run `cloche doctor`.")
        self._check(hello)
        self._times.ready = self._now()
        reached("cell.attested")

    def _check(self, hello: CellFrame) -> None:
        assert self._watch is not None
        self._greeting = greeting(hello, self._launch, cgroup=self._watch.cgroup)
        if found := self._greeting.differences:
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
        await in_thread(partial(snapshot_copy.deliver, snapshot, self._launch.link.inbox))
        self._times.delivered = self._now()
        self._heard_at_job = self._launch.link.bytes_out
        self._launch.link.send_job(job, generation=self._launch.wish.generation)
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
            ExchangeError: the cell broke the exchange, or did not take its job; it will be destroyed.
        """
        return await self._lookout.until(self._look, seconds=seconds)

    def _look(self) -> CellFrame | None:
        assert self._watch is not None
        gone = self._watch.gone.is_set()  # asked before the files: what was written before the end is still read
        frame = self._poll()
        if frame is None and (gone or self._last_word is not None):
            raise CellLost(f"cell {self.cell_id} ended without a last word.", fix="Its end says why; run it again.")
        if frame is None:
            self._see_taken()
        return frame

    def _see_taken(self) -> None:
        """A waiting cell that somebody paused looks alive from here where the runtime stops it, and not the kernel."""
        if self._launch.link.bytes_out == self._heard_at_job and self._now() - self._times.delivered > TAKEN_S:
            with self._violations_noted():
                raise violation("job.not_taken", f"nothing came for {TAKEN_S:g} s after the job")

    def _poll(self) -> CellFrame | None:
        assert self._watch is not None
        with self._violations_noted():
            frame = self._launch.link.poll()
            if isinstance(frame, End):
                self._launch.link.check_finished()
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
            ExchangeError: the cell does not read what it is sent; it will be destroyed.
        """
        with self._violations_noted():
            self._launch.link.send_ok(number, encoded, at=at, ahead=ahead)
        self._lookout.expect_more()

    async def reply_error(
        self, number: int, type_name: str, message: str, traceback: str = "", *, at: float, ahead: str = ""
    ) -> None:
        """Answer a call with an error, raised in the program as CallError; `at` and `ahead` as for `HostLink.send_ok`."""
        with self._violations_noted():
            self._launch.link.send_error(
                number, type_name=type_name, message=message, traceback=traceback, at=at, ahead=ahead
            )
        self._lookout.expect_more()

    @contextmanager
    def _violations_noted(self) -> Iterator[None]:
        try:
            yield
        except ExchangeError as error:
            self._violation = error.code
            raise

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
        Raises nothing of the engine's: what could not be removed is said in `left_behind` and left to the reaper. Where the sandbox
        has a keeper and the program ended by itself, the removal goes on after this returns (`leaving`).
        """
        if self._end is None:
            self._end = await carried_out(self._finishing)
        return self._end

    def shelve(self, key: str) -> None:
        """Give it up, attested and without a job, to whoever takes it next; nothing else may be called after that."""
        assert self._watch is not None
        self._watch.stop()
        self._launch.shelve(key)

    def abandon(self) -> None:
        """Give it up to the reaper."""
        if self._watch is not None:
            self._watch.stop()
        self._launch.release(gone=False)

    def _finish(self) -> CellEnd:
        notes = list(self._greeting.notes)
        return Farewell(
            self._sandbox, self._launch, self._watch, self._times, self._last_word, self._violation, notes
        ).take()

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
        policy = await sandbox.fitting_policy(kind, chosen)
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
        await cell.start()
        yield cell
    finally:
        await cell.finish()


async def in_thread(work: Callable[[], T]) -> T:
    """Blocking work in a thread; a cancellation waits for it, so that what it acquired is known."""
    await anyio.lowlevel.checkpoint()  # what is cancelled already begins nothing
    return await carried_out(Once(work))
