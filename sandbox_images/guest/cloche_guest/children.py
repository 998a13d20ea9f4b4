"""Processes of the cell, seen from PID 1: starting one without rights, ending all of them, counting what they took.

A child gets /dev/null, two pipes and one private channel and no other descriptor, its limits, and a uid of its own with no
groups and no capabilities, all before its function runs. Ending is `kill(-1, SIGKILL)`: everything in the cell but PID 1.
"""

from __future__ import annotations

import _socket as socket  # `socket` itself takes 2.5 ms of every start
import fcntl
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

CHANNEL = 3
"""Descriptor of the private channel in a child."""

_READY = 4
_HIGH = 64
_REAP_S = 60.0
"""A process with tens of thousands of mappings takes seconds to die, and a program may have many of them; the host is less patient
where a deadline or a cancellation is why."""


class DropFailed(Exception):
    """A child could not give up its rights; nothing was run in it."""


class Rights(NamedTuple):
    """What a child is left with. `uid` None: no change of identity (only where there is nothing to drop, in tests)."""

    uid: int | None
    processes: int
    open_files: int
    file_bytes: int


class Child(NamedTuple):
    """A started child; the descriptors are the supervisor's ends, without blocking, closed by `close`."""

    pid: int
    channel: int
    stdout: int
    stderr: int

    def close(self) -> None:
        """Give the descriptors back."""
        for descriptor in {self.channel, self.stdout, self.stderr}:
            os.close(descriptor)


def spawn(main: Callable[[], int], *, rights: Rights, merge_output: bool = False) -> Child:
    """Fork a child without rights that runs `main` and exits with what it returns.

    `main` finds its channel at descriptor `CHANNEL`. With `merge_output` both streams share one pipe.

    Raises:
        DropFailed: the child could not limit itself or change its identity.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    out_read, out_write = os.pipe()
    err_read, err_write = (out_read, out_write) if merge_output else os.pipe()
    ready_read, ready_write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _child(main, rights, (out_write, err_write, theirs.fileno(), ready_write))
    for descriptor in {out_write, err_write, ready_write}:
        os.close(descriptor)
    theirs.close()
    with open(ready_read, "rb", buffering=0) as ready:
        said = ready.read()
    child = Child(pid, ours.detach(), out_read, err_read)
    if said != b"ready":
        child.close()
        raise DropFailed(said.decode(errors="replace") or "the child ended before it was ready")
    for descriptor in (child.channel, child.stdout, child.stderr):
        os.set_blocking(descriptor, False)
    return child


def _child(main: Callable[[], int], rights: Rights, descriptors: tuple[int, int, int, int]) -> NoReturn:
    code = 70
    try:
        _take_descriptors(descriptors)
        try:
            _drop(rights)
        except (OSError, ValueError) as error:
            os.write(_READY, f"{type(error).__name__}: {error}".encode())
            os._exit(code)
        os.write(_READY, b"ready")
        os.close(_READY)
        code = main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _take_descriptors(descriptors: tuple[int, int, int, int]) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    # First out of the way, then into place: a source may have the number of another one's place.
    null = os.open("/dev/null", os.O_RDONLY)
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _HIGH) for descriptor in (null, *descriptors)]
    for place, descriptor in enumerate(moved):
        os.dup2(descriptor, place, inheritable=place < CHANNEL)
    for name in os.listdir("/proc/self/fd"):  # a tenth of what closing every number takes
        if int(name) > _READY:
            try:
                os.close(int(name))
            except OSError:  # the one that listed them
                pass


def _drop(rights: Rights) -> None:
    for which, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, rights.processes),
        (resource.RLIMIT_NOFILE, rights.open_files),
        (resource.RLIMIT_FSIZE, rights.file_bytes),
    ):
        hard = resource.getrlimit(which)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (bound, bound))
    if rights.uid is not None:
        os.setsid()  # SIGCONT is let through between processes of one session, whatever their uids
        os.setgroups([])
        os.setresgid(rights.uid, rights.uid, rights.uid)
        os.setresuid(rights.uid, rights.uid, rights.uid)


class Reaper:
    """Collects ended children and their CPU time. Orphans come in any number, so only the watched child's status is kept."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self._watched: int | None = None
        self._status: int | None = None

    def watch(self, pid: int) -> None:
        """From now on `status` is about this child, which has not been collected yet."""
        self._watched, self._status = pid, None

    def collect(self) -> int:
        """Reap whatever has ended, without waiting; gives how many."""
        count = 0
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return count
            if pid == 0:
                return count
            if pid == self._watched:
                self._watched, self._status = None, status
            self.cpu_s += used.ru_utime + used.ru_stime
            count += 1

    @property
    def status(self) -> int | None:
        """Exit code of the watched child (minus the signal's number when one ended it), None while it runs."""
        return None if self._status is None else os.waitstatus_to_exitcode(self._status)

    def end_all(self) -> int:
        """Kill and reap everything but PID 1; gives how many processes were still running.

        Raises:
            TimeoutError: something did not die within a minute.
        """
        if os.getpid() != 1:
            raise RuntimeError("only PID 1 of a cell may end everything")
        self.collect()
        until = time.monotonic() + _REAP_S
        stragglers = 0
        while True:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
            stragglers += self.collect()
            if not _children_left():
                return stragglers
            if time.monotonic() > until:
                raise TimeoutError(f"a process survived SIGKILL for {_REAP_S:g} s")
            time.sleep(0.0005)


def _children_left() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def run_to_end(main: Callable[[], int], *, rights: Rights, limit_bytes: int, timeout_s: float) -> tuple[int, bytes]:
    """Run our own `main` in a child without rights; gives its exit code and what it wrote to its channel.

    Used where PID 1 lacks the right to do something itself. Reaps only this child.

    Raises:
        DropFailed: as `spawn`. TimeoutError: it took too long or wrote too much, and was killed.
    """
    import select

    child = spawn(main, rights=rights, merge_output=True)
    try:
        poll = select.poll()
        poll.register(child.channel, select.POLLIN)
        until = time.monotonic() + timeout_s
        data = bytearray()
        while poll.poll(max(0, int((until - time.monotonic()) * 1000))):
            chunk = os.read(child.channel, 256 * 1024)
            if not chunk:
                return os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]), bytes(data)
            data += chunk
            if len(data) > limit_bytes:
                break
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        raise TimeoutError("a child of the supervisor took too long or said too much")
    finally:
        child.close()
