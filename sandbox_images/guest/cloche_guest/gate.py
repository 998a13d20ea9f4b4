"""Cases of a gate and attempts of a probe, seen from the supervisor: one child each, and nothing of one left for the next.

A child may say three things: that the entry was called, that a call was not scripted, and its outcome. The second fails the
case whatever comes after. Between two cases every other process is killed and the scratch folders are emptied.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from functools import partial

from cloche_guest import scratch, wire
from cloche_guest.children import Rights, run_to_end, spawn
from cloche_guest.control import Control, Source
from cloche_guest.streams import Stream, clipped

OUTCOMES = frozenset({"passed", "failed", "skipped", "error", "not_collected"})
"""What a child may say of itself; `timeout`, `unscripted` and `crashed` are the supervisor's words."""

_LINE_BYTES = 256 * 1024
_DETAIL_CHARACTERS = 16 * 1024
_OUTPUT_BYTES = 128 * 1024
_EMPTY_S = 20.0


class Listener:
    """What one child said. Of several outcomes the first that is not `passed` counts; nonsense is no outcome."""

    def __init__(self) -> None:
        self.entered = False
        self.unscripted = ""
        self.outcome = ""
        self.detail = ""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes of the channel."""
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._take(line)
        if len(self._buffer) > _LINE_BYTES:
            self._buffer.clear()

    def _take(self, line: bytes) -> None:
        try:
            said = wire.parse(line)
        except wire.WireError:
            return
        match said:
            case {"t": "entered"}:
                self.entered = True
            case {"t": "unscripted", "fn": str(fn)}:
                self.unscripted = self.unscripted or fn[:300] or "?"
            case {"t": "outcome", "outcome": str(outcome), "detail": str(detail)} if outcome in OUTCOMES:
                if self.outcome in ("", "passed"):
                    self.outcome, self.detail = outcome, detail[:_DETAIL_CHARACTERS]


class Cases:
    """Runs children one after the other and reports each in a `test` frame."""

    def __init__(self, control: Control, *, rights: Rights, case_timeout_s: float, output_bytes: int) -> None:
        self._control = control
        self._rights = rights
        self._timeout_s = case_timeout_s
        self._output_bytes = min(output_bytes, _OUTPUT_BYTES)
        self._stragglers = 0
        self._spoiled = ""

    def run(self, mains: list[Callable[[], int]]) -> None:
        """All of them, then `end`; numbered from 0.

        Raises:
            Ended: the deadline or a cancellation. DropFailed, HostBroke, HostGone, TimeoutError: the sandbox failed.
        """
        if not mains:
            self._control.send("ready")
        for number, main in enumerate(mains):
            if self._spoiled:
                self._report(number, "error", self._spoiled, 0.0, "", False)
            else:
                self._one(number, main)
        self.end("exit", "returned", 0)

    def end(self, cause: str, detail: str, code: int) -> None:
        """Kill what is left and send the last word."""
        self._stragglers += self._control.reaper.end_all()
        self._control.finish()
        usage = {"cpu_s": round(self._control.reaper.cpu_s, 6)}
        self._control.send("end", cause=cause, detail=detail, exit=code, stragglers=self._stragglers, usage=usage)

    def _one(self, number: int, main: Callable[[], int]) -> None:
        reaper = self._control.reaper
        listener, stream = Listener(), Stream(self._output_bytes)
        started = time.monotonic()
        child = spawn(main, rights=self._rights, merge_output=True)
        reaper.watch(child.pid)
        if number == 0:
            self._control.send("ready")
        sources: dict[int, Source] = {}
        sources[child.channel] = (select.POLLIN, partial(_read, child.channel, listener.feed, sources))
        sources[child.stdout] = (select.POLLIN, partial(_read, child.stdout, stream.feed, sources))
        late = False
        while (status := reaper.status) is None and not late:
            self._control.turn(sources)
            late = time.monotonic() - started > self._timeout_s
        self._stragglers += max(0, reaper.end_all() - (status is None))
        while sources:
            for _, read in list(sources.values()):
                read()
        duration_s = time.monotonic() - started
        child.close()
        outcome, detail = decide(listener, status=status, timeout_s=self._timeout_s)
        self._report(number, outcome, detail, duration_s, clipped(stream), listener.entered)
        self._empty_scratch()

    def _report(self, number: int, outcome: str, detail: str, duration_s: float, output: str, entered: bool) -> None:
        fields = {"case": number, "outcome": outcome, "detail": detail, "entered": entered}
        self._control.send("test", **fields, duration_s=round(duration_s, 4), output=output)

    def _empty_scratch(self) -> None:
        """What could not be removed would be seen by the next case, so there is no next case then."""
        folders = self._control.paths.scratch
        try:
            code, _ = run_to_end(
                partial(scratch.empty, folders), rights=self._rights, limit_bytes=0, timeout_s=_EMPTY_S
            )
        except TimeoutError:
            code = 1
        if code:
            self._spoiled = "an earlier case left something in /tmp that could not be removed; this case was not run"


def decide(listener: Listener, *, status: int | None, timeout_s: float) -> tuple[str, str]:
    """Outcome and detail of a case. `status` is the child's exit code, minus the signal, or None when time was up."""
    if listener.unscripted:
        told = f"{listener.unscripted}() was called without a scripted reply, or with one that no run would give."
        return "unscripted", f"{told}\n{listener.detail}".strip()
    if status is None:
        return "timeout", f"still running after {timeout_s:g} s"
    if listener.outcome and status == 0:
        return listener.outcome, listener.detail
    ended = signal.Signals(-status).name if status < 0 else f"exit code {status}"
    return "crashed", f"the process ended before its outcome counted: {ended}. {listener.detail}".strip()


def _read(descriptor: int, feed: Callable[[bytes], None], sources: dict[int, Source]) -> None:
    try:
        data = os.read(descriptor, 64 * 1024)
    except BlockingIOError:
        return
    except ConnectionResetError:
        data = b""
    if data:
        feed(data)
    else:
        sources.pop(descriptor, None)
