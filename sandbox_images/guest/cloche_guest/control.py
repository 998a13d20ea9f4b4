"""The supervisor's one loop: what the host says, what the descriptors of children say, who ended, and the clock.

`turn` is the only place that waits. It polls the exchange (file notifications do not cross every runtime): quickly while an
answer is due, cheaply otherwise; where the host can ring (a FIFO in `out/`), what comes while nothing is due wakes it at once.
While the host is behind, nothing of the children is read, so that they wait and memory stays bounded.
"""

from __future__ import annotations

import math
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cloche_guest.children import Reaper
from cloche_guest.link import HostBroke, Reader, Received, Writer, hold_part

IDLE_MS = 20
JOBLESS_MS, RUNG_JOBLESS_MS = 80, 1000
"""A supervisor that has no job yet may wait for long: under gVisor looking every 20 ms costs 1.5 % of a core. Where the host can
ring, looking is only for what a lost ring would have told."""

SLEEP_S, SPIN_S = 0.0002, 0.001
"""Waiting for an answer sleeps first, since the host has two records to write, and then only yields the processor for a while:
the shortest sleep takes as long as all the rest. Yielding from the start would use up the cell's share of CPU time."""

HOST_GONE_S = 10.0
BELL = "bell"

Source = tuple[int, Callable[[], None]]
"""Poll events and what to do when one came."""


class Paths(NamedTuple):
    """Where things are in the cell. `drop` False only in tests without the right to change identity."""

    incoming: str = "/cloche/in"
    outgoing: str = "/cloche/out"
    guest: str = "/opt/cloche"
    scratch: tuple[str, ...] = ("/tmp", "/dev/shm")
    pytest: str = "/opt/cloche/pytest"
    drop: bool = True

    @property
    def snapshot(self) -> str:
        """Where the host puts the snapshot before it sends the job."""
        return os.path.join(self.incoming, "snapshot")

    @property
    def output(self) -> str:
        """Whose files are collected at the end."""
        return os.path.join(self.scratch[0], "output")


class Ended(Exception):
    """The job is over for a reason that is not the worker's own: `cause` and `detail` of the `end` frame."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.detail = detail


class HostGone(Exception):
    """The host stopped reading."""


class Control:
    """Owns the exchange, the reaper and the deadline of one cell."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.reader = Reader(paths.incoming)
        self.writer = Writer(paths.outgoing)
        self.reaper = Reaper()
        self.deadline = math.inf
        self.acknowledged = 0
        self._finishing = False
        self._kept: list[Received] = []
        self._due_since: float | None = None
        self._wake, wake_write = os.pipe()
        for descriptor in (self._wake, wake_write):
            os.set_blocking(descriptor, False)
        self._bell = _open_bell(paths.outgoing)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    @property
    def is_rung(self) -> bool:
        """True where the host can wake this process, so that nothing has to be looked for often."""
        return self._bell is not None

    def send(self, kind: str, **fields: Any) -> None:
        """One frame to the host.

        Raises:
            wire.WireError: it is too large, or its text cannot be written.
        """
        self.writer.send(kind, **fields)

    def acknowledge(self) -> None:
        """Tell the host what was read, so that it may remove it."""
        self.send("ack", upto=self.reader.received)

    def finish(self) -> None:
        """From now on neither deadline nor cancellation interrupts; the host must keep reading, though."""
        self.deadline = math.inf
        self._finishing = True

    def keep(self, frames: list[Received]) -> None:
        """Have the next turn give these again: they came together with one that somebody waited for."""
        self._kept = frames

    def turn(self, sources: Mapping[int, Source], *, due: bool = False, jobless: bool = False) -> list[Received]:
        """Wait a little, serve what is ready; gives the host's frames but for those handled here (ack, cancel, rotate).

        `due`: an answer of the host is expected now. `jobless`: nothing is, and there is nothing here to look after either.

        Raises:
            Ended: cancelled, or past the deadline. HostBroke: the host broke the protocol. HostGone: it stopped reading.
        """
        now = time.monotonic()
        if now >= self.deadline:
            raise Ended("deadline")
        if not due:
            self._due_since = None
        elif self._due_since is None:
            self._due_since = now
        frames, self._kept = [*self._kept, *self._receive()], []
        free = self.writer.flush()
        patience_ms = 0.0 if frames else self._patience_ms(now, free=free, jobless=jobless)
        woken = self._wait(sources if free else {}, patience_ms)
        if not free and self._finishing:
            self._let_host_read()
        if woken or patience_ms >= 1:
            self.reaper.collect()
        return frames

    def _patience_ms(self, now: float, *, free: bool, jobless: bool) -> float:
        until_deadline = max(0.0, (self.deadline - now) * 1000)
        if not free:
            return min(1.0, until_deadline)
        if self._due_since is None:
            idle_ms = IDLE_MS if not jobless else JOBLESS_MS if self._bell is None else RUNG_JOBLESS_MS
            return min(float(idle_ms), until_deadline)
        waited = now - self._due_since
        if SLEEP_S <= waited < SPIN_S:
            return 0.0
        return min(0.1 if waited < 0.004 else 1.0 if waited < 0.02 else 2.0, until_deadline)

    def _wait(self, sources: Mapping[int, Source], patience_ms: float) -> bool:
        """Serve what is ready; True when a child may have ended."""
        woken = False
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._bell is not None:
            poll.register(self._bell, select.POLLIN)
        for descriptor, (events, _) in sources.items():
            poll.register(descriptor, events)
        # poll counts whole milliseconds; below that the time is slept away.
        ready = poll.poll(math.ceil(patience_ms) if patience_ms >= 1 else 0)
        if not ready and not patience_ms:
            os.sched_yield()  # 0.6 µs; a sleep of 0 s takes 70
        elif not ready and patience_ms < 1:
            time.sleep(patience_ms / 1000)
        for descriptor, _events in ready:
            if descriptor == self._wake:
                os.read(self._wake, 4096)
                woken = True
            elif descriptor == self._bell:
                os.read(self._bell, 4096)
            elif descriptor in sources:
                sources[descriptor][1]()
        return woken

    def _receive(self) -> list[Received]:
        frames: list[Received] = []
        while (frame := self.reader.next()) is not None:
            match frame["t"]:
                case "rotate":
                    self.acknowledge()
                case "ack":
                    if not self.acknowledged <= frame["upto"] <= self.writer.sent:
                        raise HostBroke(f"frame.bad_field: ack up to {frame['upto']}, {self.writer.sent} were sent")
                    self.acknowledged = frame["upto"]
                case "cancel":
                    if not self._finishing:
                        raise Ended("cancelled")
                case kind:
                    if kind == "part":
                        hold_part(self.paths.incoming, frame)
                    frames.append(frame)
                    if frame["t"] == "reply":
                        self._due_since = None
        return frames

    def _let_host_read(self) -> None:
        until = time.monotonic() + HOST_GONE_S
        while not self.writer.flush():
            if time.monotonic() > until:
                raise HostGone("the host makes no segment any more")
            self._receive()
            time.sleep(0.001)

    def await_acknowledgement(self, timeout_s: float) -> bool:
        """Wait until the host has read everything; False when it did not in time."""
        until = time.monotonic() + timeout_s
        while self.acknowledged < self.writer.sent:
            if time.monotonic() > until:
                return False
            self.turn({}, due=True)
        return True


def _open_bell(outgoing: str) -> int | None:
    """The FIFO that the host rings; None where there is none or the runtime does not carry it.

    Opened for writing too, so that it never reads as closed while nobody on the host has it open.
    """
    try:
        descriptor = os.open(os.path.join(outgoing, BELL), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
