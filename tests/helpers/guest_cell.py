"""A cell without a container: the supervisor as PID 1 of a process namespace, spoken to through the host's real exchange.

Shows what the guest does, not what the container enforces: the worker keeps the test's own uid here, because the interpreter of
a virtual environment may not be readable for another one. Needs util-linux (`unshare`) and, for ordinary users, user namespaces.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import cloche_guest

from engine.sandbox.exchange import HostLink
from engine.sandbox.frames import Call, CellFrame, Drop, End, Hello, Output, Quiet, Ready
from engine.sandbox.incoming import Limits
from engine.sandbox.jobs import Job

LIMITS = Limits(
    processes=100_000,
    open_files=256,
    file_bytes=32 * 1024 * 1024,
    output_bytes=64 * 1024,
    output_files=20,
    output_files_bytes=4 * 1024 * 1024,
    message_bytes=1024 * 1024,
    messages=2_000,
    value_bytes=8 * 1024 * 1024,
)
GENERATION = 3
AT = 1_800_000_000.0
"""When every reply was recorded, unless a test says otherwise."""

NONCE = "9f2c4e6a8b0d1f3e"

_START = """
import json, sys
paths = json.loads(sys.argv[1])
sys.path.insert(0, paths["guest"])
from cloche_guest.control import Paths
from cloche_guest.supervisor import serve
sys.exit(serve(Paths(**{**paths, "scratch": tuple(paths["scratch"])}), hello_s=float(sys.argv[2])))
"""


class GuestCell:
    """A running supervisor and the host's end of its exchange. `frames` are those seen so far, `answered` the calls."""

    def __init__(self, directory: Path, *, limits: Limits = LIMITS, hello_s: float = 60.0) -> None:
        self.directory = directory
        self.scratch = directory / "tmp"
        self.scratch.mkdir()
        self.link = HostLink(directory, limits=limits, generation=GENERATION)
        self.frames: list[CellFrame] = []
        self.answered: list[int] = []
        self.ahead: list[int] = []
        paths = {
            "incoming": str(directory / "in"),
            "outgoing": str(directory / "out"),
            "guest": str(Path(cloche_guest.__file__).parent.parent),
            "scratch": [str(self.scratch)],
            "pytest": sysconfig.get_paths()["purelib"],
            "drop": False,
        }
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if os.geteuid():
            unshare += ["--user", "--map-root-user"]
        python = [sys.executable, "-s", "-P", "-S", "-B", "-X", "utf8", "-c", _START, json.dumps(paths), str(hello_s)]
        self.process = Popen([*unshare, *python], stdin=PIPE, stdout=PIPE, stderr=PIPE, env={"PATH": "/usr/bin:/bin"})

    def greet(self) -> Hello:
        """Send hello and wait for the answer."""
        self.link.send_hello(nonce=NONCE, kind="run", uid=os.getuid(), wait_s=60.0)
        hello: Hello = self.until(Hello)
        return hello

    def deliver(self, job: Job, files: dict[str, str]) -> None:
        """Put a snapshot of `files` in and send the job."""
        for name, content in files.items():
            path = self.directory / "in" / "snapshot" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.link.send_job(job)

    def until(self, kind: Any, *, timeout_s: float = 60.0) -> Any:
        """The next frame of this kind; those before it are kept in `frames`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            frame = self.link.poll()
            if frame is not None:
                self.frames.append(frame)
                if isinstance(frame, kind):
                    return frame
            elif self.process.poll() is not None:
                raise AssertionError(f"the supervisor is gone: {self.stderr()}")
            else:
                os.sched_yield()
        raise AssertionError(f"no {kind.__name__} within {timeout_s} s; {self.frames[-5:]}")

    def to_end(
        self,
        answer: Callable[[Call], Any] = lambda call: None,
        *,
        choose: Callable[[list[Call]], Call] = lambda calls: calls[0],
        timeout_s: float = 60.0,
    ) -> End:
        """Answer one call whenever the program is quiet, with the codec form that `answer` gives, until the last word.

        `answer` may give an exception, which fails the call. `choose` picks one of the unanswered calls, listed in order.
        """
        open_calls: dict[int, Call] = {}
        while True:
            frame = self.until(object, timeout_s=timeout_s)
            if isinstance(frame, End):
                return frame
            if isinstance(frame, Call):
                open_calls[frame.number] = frame
            elif isinstance(frame, Drop):
                del open_calls[frame.call]
            elif isinstance(frame, Quiet) and frame.ahead is not None:
                for number in self.ahead[: frame.ahead]:
                    del open_calls[number]
                self.ahead = []
            if not self.ahead and (isinstance(frame, Quiet) or (isinstance(frame, Call) and frame.waits)):
                call = open_calls.pop(choose(list(open_calls.values())).number)
                self.answer(call, answer(call))

    def send_ahead(self, replies: list[dict[str, Any]]) -> None:
        """Send replies before their calls, and one that fits no call, so that the program says how many it took."""
        for fields in [*replies, {"call": 2**40, "encoded": None, "at": 0.0, "ahead": "0" * 64}]:
            self.link.send_ok(**fields)
            self.ahead.append(fields["call"])

    def answer(self, call: Call, value: Any, *, at: float = AT, ahead: str = "") -> None:
        """Answer a call: with a value in codec form, or an exception."""
        self.answered.append(call.number)
        if isinstance(value, Exception):
            told = {"type_name": type(value).__name__, "message": str(value), "traceback": ""}
            self.link.send_error(call.number, **told, at=at, ahead=ahead)
        else:
            self.link.send_ok(call.number, value, at=at, ahead=ahead)

    def leave(self) -> int:
        """Acknowledge the end; gives the supervisor's exit code."""
        self.link.send_ack()
        return self.process.wait(timeout=60)

    def output(self, stream: str = "stdout") -> bytes:
        """What was sent of a stream, gaps left out."""
        return b"".join(f.data for f in self.frames if isinstance(f, Output) and f.stream == stream)

    def of(self, kind: Any) -> list[Any]:
        """The frames of one kind seen so far."""
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def stderr(self) -> str:
        """What the supervisor itself complained about; only when it is gone."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


@contextmanager
def guest_cell(*, limits: Limits = LIMITS, hello_s: float = 60.0) -> Iterator[GuestCell]:
    """A cell in a directory of its own, ended and removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="guest-cell-") as directory:
        cell = GuestCell(Path(directory), limits=limits, hello_s=hello_s)
        try:
            yield cell
        finally:
            cell.process.kill()
            cell.process.communicate()
            cell.link.close()


__all__ = ["GENERATION", "LIMITS", "NONCE", "GuestCell", "Ready", "guest_cell"]
