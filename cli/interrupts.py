"""SIGINT and SIGTERM of a command: the first one ends it in order, and nothing cuts that off before its time.

    starting ────── first ──▶ gone at once, nothing was begun
    between waits ─ first ──▶ KeyboardInterrupt, once
    in a loop ───── first ──▶ its work is cancelled ── more ─────▶ told once that it still ends
                                                    └─ insisted ─▶ gone at once; what is left to the reaper is told
    ended ───────── any ────▶ gone with the code that was decided

Nothing is ever raised into an event loop: its worker threads would not be told to stop, and the process would wait for them
for ever. Only `cli.main` installs this; who calls `engine.app` from Python keeps the handlers, and the exceptions, it has.
Imports nothing that takes time, because it is there before everything else.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130

HASTE_S = 3.0
"""Signals within so long after the first one are impatience, however many: a cell is usually proven gone by then."""

INSISTED = 4
"""Past `HASTE_S` the fourth signal gives up."""

PATIENCE_S = 15.0
"""Past this any further signal gives up."""

STILL = (
    "cloche: still ending the cell; what is begun is recorded first.\n"
    f"  → Interrupt again after {PATIENCE_S:g} s to leave it to `cloche cells reap`.\n"
)


class Interrupts:
    """What became of the signals of this process. One per process, handled in its main thread."""

    def __init__(self) -> None:
        self._starting = True
        self._ended: int | None = None
        self._held = False
        self._cancel: Callable[[], object] | None = None
        self._seen = 0
        self._first_at = 0.0
        self._noted = False
        self.left: Callable[[], str] = str
        """What the reaper has to end if this process goes at once, one line; "" for nothing. Called from a signal handler."""

    def install(self) -> None:
        """Handle both signals from now on. SIGINT stays ignored where the caller's shell ignores it."""
        signal.signal(signal.SIGTERM, self._came)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._came)

    @property
    def came(self) -> bool:
        """True when a signal came that ends this command."""
        return self._seen > 0

    def started(self) -> None:
        """From now on there is something to end in order."""
        self._starting = False

    def ended(self, code: int) -> None:
        """The command is over: a signal only hastens the exit with this code."""
        self._ended = code

    def outrun(self) -> None:
        """The work came to its own end although a signal came: the next one is the first again."""
        self._seen, self._noted = 0, False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, a signal cancels (see `cancelling`) and raises nothing."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    @contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Inside, the first signal calls `cancel`; so does one that came before, while held."""
        self._cancel = cancel
        if self.came:
            cancel()
        try:
            yield
        finally:
            self._cancel = None

    def _came(self, _number: int, _frame: FrameType | None) -> None:
        if self._ended is not None:
            leave(self._ended)
        if self._starting:
            os._exit(INTERRUPTED)
        self._seen += 1
        if self._seen > 1:
            self._came_again(time.monotonic() - self._first_at)
            return
        self._first_at = time.monotonic()
        if not self._held:
            raise KeyboardInterrupt
        if self._cancel is not None:
            self._cancel()

    def _came_again(self, after_s: float) -> None:
        if after_s >= PATIENCE_S or (self._seen >= INSISTED and after_s >= HASTE_S):
            left = self.left()
            _tell("cloche: gave up ending this command in order.\n" + (f"  → {left}\n" if left else ""))
            os._exit(INTERRUPTED)
        if self._held and not self._noted:
            self._noted = True
            _tell(STILL)


def leave(code: int) -> None:
    """End the process without waiting for threads: one may still read a slow file system for nobody."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, RuntimeError):  # nobody reads it any more, or this interrupts its writing
            stream.flush()
    os._exit(code)


def _tell(text: str) -> None:
    # not through sys.stderr: what a signal interrupts may be writing there
    with suppress(OSError):
        os.write(2, text.encode())


interrupts = Interrupts()
