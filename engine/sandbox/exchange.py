"""The host's end of the exchange with one cell: frames out to `in/`, frames in from `out/` (docs/reference/protocol.md).

Owns both directions' sequence numbers, acknowledgements and large values. Blocking and quick: nothing here waits; who waits
for a frame polls (`engine.sandbox.lookout`). Sends may come from any task of one thread, in any order of calls.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cloche_guest import codec, wire
from cloche_guest.wire import INLINE_BYTES, SEGMENT_BYTES, VERSION

from engine.files import make_directory, sha256_hex, write_atomic
from engine.jsontext import compact
from engine.sandbox.bell import BELL, Bell, make_bell
from engine.sandbox.frames import CellFrame
from engine.sandbox.incoming import Incoming, Limits
from engine.sandbox.jobs import Job, RunJob
from engine.sandbox.segments import SegmentReader, SegmentWriter
from engine.sandbox.violations import violation

UNREAD_VALUES, UNREAD_BYTES = 4, 128 * 1024 * 1024
"""What was sent and is not acknowledged lies on the disk: at most so many times `value_bytes`, and so much for what is in frames."""

ERROR_TYPE_CHARACTERS = 200
ERROR_CHARACTERS = 32 * 1024
"""Message and traceback of an error reply are clipped to this each, so that the frame fits."""


class HostLink:
    """One cell's exchange. `directory` is the cell's; `in/` and `out/` are made in it with the rights they need.

    Rights: `in/` 0755 (the worker reads the snapshot in it), its segments 0640 and `parts/` 0750; `out/` 0750 and its
    segments 0660; the bell 0660; all in `group`, which only the supervisor has. With `begun` the exchange is one that another
    process made and greeted, in a cell that never had a job: its frames are read again from the first one on.

    Raises:
        StorageFull, EngineFailure: the disk; or, with `begun`, the files are not as they were left.
    """

    def __init__(
        self, directory: Path, *, limits: Limits, generation: int, group: int | None = None, begun: bool = False
    ) -> None:
        group = os.getegid() if group is None else group
        self.inbox, self.outbox = directory / "in", directory / "out"
        self._parts = self.inbox / "parts"
        self._group = group
        self._generation = generation
        self._limits = limits
        self._incoming = Incoming(limits, generation=generation)
        if not begun:
            self._lay_out()
        self._reader = SegmentReader(self.outbox, group=group, begun=begun)
        with ExitStack() as undo:
            undo.callback(self._reader.close)
            self._writer = SegmentWriter(self.inbox, group=group, begun=begun)
            undo.callback(self._writer.close)
            self._bell = Bell(self.outbox / BELL)
            undo.pop_all()
        self._incoming.sent = 1 if begun else 0
        self._part = 0
        self._part_files: deque[tuple[int, Path, int]] = deque()

    def _lay_out(self) -> None:
        for path, mode in ((self.inbox, 0o755), (self.outbox, 0o750), (self._parts, 0o750)):
            make_directory(path, durable=False)
            os.chown(path, -1, self._group)
            path.chmod(mode)
        make_bell(self.outbox / BELL, group=self._group)

    @property
    def bytes_in(self) -> int:
        """Bytes sent to the cell in frames."""
        return self._writer.bytes_written

    @property
    def bytes_out(self) -> int:
        """Bytes read from the cell."""
        return self._reader.bytes_read

    # from the cell

    def poll(self) -> CellFrame | None:
        """The next frame for the caller, or None when there is none yet; acknowledges what must be.

        Raises:
            ExchangeError: one leaf of `engine.sandbox.violations` per way of breaking the protocol.
        """
        while (line := self._reader.line()) is not None:
            frame = self._incoming.take(line)
            if self._incoming.rotating:
                self._incoming.rotating = False
                self._reader.rotate()
                self.send_ack()
            if self._incoming.peer_read:
                self._clear(self._incoming.peer_read)
            if frame is not None:
                return frame
        return None

    def check_finished(self) -> None:
        """After the last word nothing may follow.

        Raises:
            ExchangeError: frame.unfinished.
        """
        if self._incoming.ended and self._reader.unfinished:
            raise violation("frame.unfinished", "the file ends inside a line")

    def _clear(self, upto: int) -> None:
        self._writer.acknowledged(upto)
        while self._part_files and self._part_files[0][0] <= upto:
            self._part_files.popleft()[1].unlink(missing_ok=True)

    def _check_unread(self, more: int) -> None:
        unread = self._writer.unread + sum(size for _, _, size in self._part_files) + more
        if unread > UNREAD_VALUES * self._limits.value_bytes + UNREAD_BYTES:
            raise violation("frame.unread", f"{unread} bytes were sent and not acknowledged")

    # to the cell

    def send_hello(self, *, nonce: str, kind: str, uid: int, wait_s: float) -> None:
        """First of all; the file stands there before the cell starts. `kind`: of the job to come, so that it is prepared for."""
        self._send("hello", nonce=nonce, kind=kind, uid=uid, limits=self._limits.__dict__, wait_s=wait_s)

    def send_job(self, job: Job, *, generation: int | None = None) -> None:
        """Once, after attestation. A large task travels as a file. From here on frames carry `generation`, if it is given.

        Raises:
            ValueError: the task is larger than `value_bytes`.
        """
        if generation is not None and not isinstance(job, RunJob):
            self._begin(generation)
        if isinstance(job, RunJob):
            text = codec.text(job.task).encode()
            part = self._send_part(text) if len(text) > INLINE_BYTES else None
            if generation is not None:
                self._begin(generation)
            self._send("job", job=job.to_wire(task_part=part))
        else:
            self._send("job", job=job.to_wire())

    def _begin(self, generation: int) -> None:
        self._generation = generation
        self._incoming.begin(generation)

    def send_ok(self, call: int, encoded: Any, *, at: float, ahead: str = "") -> None:
        """Answer a call with a value (codec form); a large one goes as a read-only file.

        `at`: what the program's clock shows from now on, in seconds since 1970. `ahead`: the key of the call
        (`engine.run.calls.key_digest`) when the reply is sent before the call was made.

        Raises:
            ValueError: larger than `value_bytes`.
            ExchangeError: frame.unread.
        """
        text = compact(encoded)
        more: dict[str, Any] = {"ahead": ahead} if ahead else {}
        if len(text) <= INLINE_BYTES:
            self._send("reply", value=text, call=call, at=at, **more)
        else:
            part = self._send_part(codec.text(encoded).encode())
            self._send("reply", call=call, ok_part=part, at=at, **more)
        self._incoming.answered(call, ahead=bool(ahead))

    def send_error(
        self, call: int, *, type_name: str, message: str, traceback: str, at: float, ahead: str = ""
    ) -> None:
        """Answer a call with an error; long text is clipped. `at` and `ahead` as for `send_ok`."""
        error = {
            "type": _clip(type_name, ERROR_TYPE_CHARACTERS),
            "message": _clip(message, ERROR_CHARACTERS),
            "traceback": _clip(traceback, ERROR_CHARACTERS),
        }
        more: dict[str, Any] = {"ahead": ahead} if ahead else {}
        self._send("reply", call=call, error=error, at=at, **more)
        self._incoming.answered(call, ahead=bool(ahead))

    def send_stop(self, call: int, reason: str) -> None:
        """End the worker at this call without an answer."""
        self._send("reply", call=call, stop=_clip(reason, ERROR_TYPE_CHARACTERS))

    def send_cancel(self, reason: str) -> None:
        """End everything but the supervisor."""
        self._send("cancel", reason=_clip(reason, ERROR_TYPE_CHARACTERS))

    def send_ack(self) -> None:
        """Tell the cell what was read; after its `end` this lets the supervisor go."""
        self._send("ack", upto=self._incoming.received)

    def _send(self, kind: str, /, *, value: bytes = b"", **fields: Any) -> None:
        """`value`: the text of the last field, `ok`, so that it is not written out twice."""
        line = self._line(kind, fields, value)
        if not self._writer.fits(line):
            self._check_unread(SEGMENT_BYTES)
            rotate = self._line("rotate", {})
            self._incoming.sent += 1
            self._writer.rotate(rotate, last=self._incoming.sent)
            line = self._line(kind, fields, value)
        self._incoming.sent += 1
        self._writer.append(line)
        self._bell.ring()

    def _line(self, kind: str, fields: dict[str, Any], value: bytes = b"") -> bytes:
        line = _dump({"v": VERSION, "g": self._generation, "q": self._incoming.sent + 1, "t": kind, **fields})
        return line[:-2] + b',"ok":' + value + b"}\n" if value else line

    def _send_part(self, text: bytes) -> int:
        if len(text) > self._limits.value_bytes:
            raise ValueError(f"a value of {len(text)} bytes, at most {self._limits.value_bytes}")
        self._check_unread(len(text))
        self._part += 1
        path = self._parts / str(self._part)
        write_atomic(path, text, mode=0o640, durable=False)
        os.chown(path, -1, self._group)
        self._writer.bytes_written += len(text)
        self._send("part", id=self._part, file=f"parts/{self._part}", size=len(text), sha256=sha256_hex(text))
        self._part_files.append((self._incoming.sent + 1, path, len(text)))
        return self._part

    def close(self) -> None:
        """Give all descriptors back."""
        self._reader.close()
        self._writer.close()
        self._bell.close()


def _dump(frame: dict[str, Any]) -> bytes:
    """As `wire.dump`, for frames of our own making."""
    line = compact(frame) + b"\n"
    if len(line) > wire.FRAME_BYTES:
        raise wire.WireError("frame.oversized", f"{len(line)} bytes, at most {wire.FRAME_BYTES}")
    return line


def _clip(text: str, most: int) -> str:
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= most else f"{clean[:most]}… ({len(clean)} characters)"
