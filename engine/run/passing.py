"""One pass of a program through one cell: what it says is taken in until its last word, its deadline, or the end of its conversation.

What becomes of its calls is the `conversation`'s. It opens and destroys no cell (`generation` does).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from engine.errors import SandboxError
from engine.run.calls import CallKey
from engine.run.cells import RunCell
from engine.run.claim import Recorder
from engine.run.conversation import Conversation, Terms
from engine.run.ending import CANCELLED, DEADLINE, Ending
from engine.run.executing import Calls
from engine.run.kept import Kept
from engine.sandbox.frames import Artifact, Call, CellFrame, Drop, End, Output, Quiet, Ready, Result

LOOK_S = 0.1
"""How often a pass looks for a cancel request and at its deadline."""

DRAIN_S = 2.0
"""How long a stopped program's last output is waited for; a cancelled one's a quarter of that."""


class Pass:
    """Run it once; afterwards `stop`, `waits_for`, `result`, `causes` and `asked` say what happened.

    `ends_at` is a time of the monotonic clock at which the cell should have ended itself. `result` is what the entry gave, if it
    came to that; `causes` are the `s` of the failed calls whose CallErrors left the entry. `progress` is called after every step.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        cell: RunCell,
        calls: Calls,
        terms: Terms,
        ends_at: float,
        kept: Kept,
        progress: Callable[[], object],
    ) -> None:
        self.result: Result | None = None
        self.causes: list[int] = []
        self._run = recorder.run
        self._cell = cell
        self._calls = calls
        self._ends_at = ends_at
        self._kept = kept
        self._progress = progress
        self._conversation = Conversation(recorder, cell=cell, calls=calls, terms=terms)
        self._ended: Ending | None = None
        self._receiving: asyncio.Task[CellFrame] | None = None
        self._looked = 0.0

    @property
    def stop(self) -> Ending | None:
        """Set when the host ended the pass."""
        return self._ended or self._conversation.stop

    @property
    def waits_for(self) -> list[int]:
        """The `s` of the calls for which the run goes on without a cell."""
        return self._conversation.waits_for

    @property
    def asked(self) -> set[CallKey]:
        """The keys of all calls that were made."""
        return self._conversation.asked

    def end(self, ending: Ending) -> None:
        """End it from outside."""
        self._ended = ending

    async def run(self) -> None:
        """Go on until the cell's last word, or until the host stops the pass or the run goes on without a cell.

        Raises:
            SandboxError: the cell was lost or broke the protocol.
            EngineFailure: something could not be recorded; nothing was executed without its record.
        """
        try:
            while self.stop is None and not self.waits_for:
                frame = await self._next()
                self._look()
                if self.stop is not None:
                    if isinstance(frame, Output | Artifact):
                        await self._take(frame)
                    break
                if frame is not None and await self._take(frame):
                    return
                await self._conversation.go_on()
                self._progress()
            await self._drain()
        finally:
            await self._stop_receiving()

    async def _next(self) -> CellFrame | None:
        """The next frame; None when an execution ended first, or when it is time to look around."""
        tasks = self._calls.tasks
        if not tasks and self._receiving is None:
            return await self._cell.receive_within(LOOK_S)
        if self._receiving is None:
            self._receiving = asyncio.ensure_future(self._cell.receive())
        waited_for: set[asyncio.Future[Any]] = {self._receiving, *tasks}
        await asyncio.wait(waited_for, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        if not self._receiving.done():
            return None
        received, self._receiving = self._receiving, None
        return received.result()

    async def _stop_receiving(self) -> None:
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    def _look(self) -> None:
        now = self._run.clock.monotonic_s()
        if now - self._looked < LOOK_S / 2:
            return
        self._looked = now
        if self._run.cancel_path.exists():
            self.end(CANCELLED)
        elif now > self._ends_at:
            self.end(DEADLINE)
        else:
            self._conversation.take_answers()

    async def _take(self, frame: CellFrame) -> bool:
        """Handle one frame; True for the last one."""
        match frame:
            case Ready():
                await self._conversation.ready()
            case Call():
                await self._conversation.call(frame)
            case Quiet():
                await self._conversation.quiet(frame)
            case Drop():
                await self._conversation.drop(frame)
            case Output():
                self._kept.output(frame)
            case Artifact():
                self._kept.artifact(frame)
            case Result():
                self.result = frame
                self._conversation.over()
            case End():
                self.causes = self._conversation.failures(frame.calls)
                return True
        return False

    async def _drain(self) -> None:
        """Take in what a stopped program still put out. What goes wrong meanwhile changes nothing: the pass is decided."""
        await self._stop_receiving()
        try:
            async with asyncio.timeout(DRAIN_S / 4 if self.stop is CANCELLED else DRAIN_S):
                if self.stop is None:
                    await self._cell.cancel("waiting")
                elif self.stop in (CANCELLED, DEADLINE, self._calls.full):
                    # it was told of any other end at the call that made it
                    await self._cell.cancel(self.stop.reason)
                frame = await self._cell.receive()
                while not isinstance(frame, End):
                    if isinstance(frame, Output | Artifact):
                        await self._take(frame)
                    frame = await self._cell.receive()
        except (TimeoutError, SandboxError):
            return
