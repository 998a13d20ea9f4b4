"""A thread beside each cell: polls its counters, sees its first process end, and ends it at the host's deadline.

A thread and not a task, so that it goes on while the event loop is busy with somebody's blocking work. It keeps the record of
our own kills, which is part of the evidence for the cause of the end.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from pathlib import Path

from engine import log
from engine.clock import Clock
from engine.errors import SandboxError
from engine.sandbox.cgroup import Cgroup, Counters
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import ContainerGone
from engine.sandbox.freezer import thaw

POLL_S = 0.05
"""Between two looks at the counters; a cgroup disappears within milliseconds of its last process."""

ASK_S = 0.5
"""Between two questions to the engine, where the first process cannot be seen from here."""


DYING_S = 2.0
"""From a SIGKILL of our own to the end of the first process, before nobody waits for it any more."""


class Watch:
    """Watches one running container. `gone` is set when its first process has ended, `counters` hold the highest values seen."""

    def __init__(self, engine: Engine, clock: Clock, *, container: str, pid: int) -> None:
        self._engine = engine
        self._clock = clock
        self._container = container
        self._pid = pid
        self.cgroup = Cgroup.find(pid, container) if pid > 0 else None
        self._pidfd = self._open(pid)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()
        self._kill_lock = threading.Lock()
        self._deadline: tuple[float, str] | None = None
        self._asked_at = clock.monotonic_s()
        self._stop_lock = threading.Lock()
        self._stopping = self._stopped = False
        self.gone = threading.Event()
        self.counters = Counters()
        self.killed = ""
        self._thread = threading.Thread(target=self._run, name=f"watch-{container[:12]}", daemon=True)
        self._thread.start()

    @property
    def sees_process(self) -> bool:
        """True where the first process can be seen from this machine, so that the engine need not be asked about it."""
        return self._pidfd is not None

    def _open(self, pid: int) -> int | None:
        # believed only if the process is the container's: behind a remote engine the number means another process
        if self.cgroup is None:
            return None
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return None
        if Cgroup.find(pid, self._container) is None:
            os.close(descriptor)
            return None
        return descriptor

    def arm(self, after_s: float, reason: str) -> None:
        """Kill the container in so many seconds, unless a nearer deadline stands; `reason` goes to the record.

        Nothing once it was stopped.
        """
        at = self._clock.monotonic_s() + after_s
        with self._lock:
            if self._stopping:
                return
            if self._deadline is None or at < self._deadline[0]:
                self._deadline = (at, reason)
            os.eventfd_write(self._wake, 1)

    def kill(self, reason: str) -> None:
        """Kill it now and record it as ours, if it still ran; where the engine does not, its first process is killed from here.

        Raises:
            SandboxError: the engine did not do it. No program goes on all the same, if its first process is visible here and
                may be killed; the container is left.
        """
        with self._kill_lock:
            if self.gone.is_set() or self.killed:
                return
            try:
                with contextlib.suppress(ContainerGone):
                    if self._engine.kill(self._container):
                        self.killed = reason
            except SandboxError:
                if self._kill_first_process():
                    self.killed = reason
                raise

    def _kill_first_process(self) -> bool:
        if self._pidfd is None:
            return False
        thaw(self._pid, self._container)
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except OSError:
            return False
        dying = select.poll()
        dying.register(self._pidfd, select.POLLIN)
        dying.poll(DYING_S * 1000)
        return True

    def sample(self) -> None:
        """Look at the counters now."""
        found = self.cgroup.sample() if self.cgroup is not None else None
        if found is not None:
            with self._lock:
                self.counters = self.counters.merged(found)

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        if self._pidfd is not None:
            poller.register(self._pidfd, select.POLLIN)
        while not self._stopping:
            ready = {descriptor for descriptor, _ in poller.poll(POLL_S * 1000)}
            if self._wake in ready:
                os.eventfd_read(self._wake)
            self.sample()
            if self._ended(ready):
                self.gone.set()
                return
            self._keep_deadline()

    def _ended(self, ready: set[int]) -> bool:
        if self._pidfd is not None:
            return self._pidfd in ready
        if self._clock.monotonic_s() - self._asked_at < ASK_S:
            return False
        self._asked_at = self._clock.monotonic_s()
        try:
            return not self._engine.inspect(self._container)["State"]["Running"]
        except ContainerGone:
            return True
        except SandboxError:
            return False

    def _keep_deadline(self) -> None:
        with self._lock:
            due = self._deadline if self._deadline and self._deadline[0] <= self._clock.monotonic_s() else None
        if due is None:
            return
        try:
            self.kill(due[1])
            with self._lock:
                self._deadline = None
        except SandboxError as error:
            # asked again at the next poll, for as long as somebody waits for the cell
            log.warning("cell.kill_failed", container=self._container[:12], error=error.code)

    def stop(self) -> None:
        """End the thread and give the descriptors back; the record and the counters stay. Safe to repeat."""
        with self._stop_lock:
            if self._stopped:
                return
            self._stopped = True
            with self._lock:
                self._stopping = True
                os.eventfd_write(self._wake, 1)
            self._thread.join()
            os.close(self._wake)
            if self._pidfd is not None:
                os.close(self._pidfd)
            if self.cgroup is not None:
                self.cgroup.close()


def is_awake(pid: int) -> bool:
    """False for a process that is gone, stopped or frozen. One that waits for a disk looks frozen: it is given a moment."""
    for pause_s in (0.001, 0.005, 0.02, 0.0):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return False
        state = stat.rpartition(")")[2].split()[0]
        if state != "D":
            return state in ("R", "S")
        time.sleep(pause_s)
    return False
