"""A run, seen from the supervisor: one worker, its streams, its calls, its end, its output files, the last word.

The cause of the end is what this process saw: its own clock, the host's word, the worker's broken message, or how the worker
exited. What a descendant of the worker does after that changes nothing: everything is killed first.
"""

from __future__ import annotations

import base64
import os
import select
import signal
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

from cloche_guest import collect, wire
from cloche_guest.channel import TOO_MANY, Channel, check_value
from cloche_guest.children import Child, DropFailed, Rights, run_to_end, spawn
from cloche_guest.control import Control, Ended, Source
from cloche_guest.link import HostBroke, Received, read_part
from cloche_guest.streams import Stream

_OUTPUT_AFTER_S = 0.05
_OUTPUT_BYTES = 48 * 1024
_AFTER_RESULT_S = 1.0
_COLLECT_S = 30.0
_CHECK_S = 20.0
_READ_BYTES = 64 * 1024


class Verdict:
    """How the worker ended; `exit` is its code, or 128 + the signal's number."""

    def __init__(self, cause: str, detail: str, exit: int) -> None:
        self.cause = cause
        self.detail = detail
        self.exit = exit


class Run:
    """One job of kind `run`. `parts` are the host's announced values by id, taken as they are used."""

    def __init__(self, control: Control, *, limits: dict[str, int], rights: Rights, parts: dict[int, Received]) -> None:
        self._control = control
        self._limits = limits
        self._rights = rights
        self._parts = parts
        self._channel = Channel(
            message_bytes=limits["message_bytes"],
            messages=limits["messages"],
            value_bytes=limits["value_bytes"],
            check_large=self._check_large,
        )
        self._streams = {name: Stream(limits["output_bytes"]) for name in ("stdout", "stderr")}
        self._output_at: float | None = None
        self._quiet = False
        self._to_worker: deque[Iterator[bytes]] = deque()
        self._unsent = memoryview(b"")
        self._failed_calls: list[int] = []
        self._raised = False
        self._result_at: float | None = None
        self._sources: dict[int, Source] = {}

    def run(self, child: Child, job: Received) -> None:
        """Give the job to the worker, which waits for it, see it through, and send everything up to `end`.

        Raises:
            DropFailed, HostBroke, HostGone, TimeoutError: the sandbox failed; there is no last word.
        """
        self._control.send("ready")
        self._to_worker.append(self._job_lines(job))
        self._sources = {
            child.channel: (select.POLLIN, partial(self._read_channel, child.channel)),
            child.stdout: (select.POLLIN, partial(self._read_stream, child.stdout, "stdout")),
            child.stderr: (select.POLLIN, partial(self._read_stream, child.stderr, "stderr")),
        }
        verdict = self._watch(child)
        stragglers = self._control.reaper.end_all()
        self._control.finish()
        verdict = self._drain(child, verdict)
        child.close()
        self._send_tails()
        usage = self._usage()
        if verdict.cause != "cancelled":
            usage |= self._collect(verdict)
        usage["cpu_s"] = round(self._control.reaper.cpu_s, 6)
        calls = {"calls": self._failed_calls} if self._failed_calls else {}
        self._control.send(
            "end",
            cause=verdict.cause,
            detail=verdict.detail,
            exit=verdict.exit,
            stragglers=stragglers,
            usage=usage,
            **calls,
        )

    # while it lives

    def _watch(self, child: Child) -> Verdict:
        killed = 128 + signal.SIGKILL
        reaper = self._control.reaper
        try:
            while (status := reaper.status) is None:
                for frame in self._control.turn(self._watched(child), due=self._quiet):
                    self._from_host(frame)
                if self._to_worker and child.channel in self._sources:
                    self._write_to_worker(child.channel)
                self._send_output()
                if self._result_at is not None and time.monotonic() - self._result_at > _AFTER_RESULT_S:
                    return self._exited(1 if self._raised else 0)
        except Ended as ended:
            return Verdict(ended.cause, ended.detail, killed)
        except wire.WireError as error:
            return _broken(error)
        return self._exited(status)

    def _watched(self, child: Child) -> dict[int, Source]:
        """The worker is always read, so that it can never wait for us to read; what waits for it is written when it reads."""
        if child.channel not in self._sources or not (self._unsent or self._to_worker):
            return self._sources
        return {**self._sources, child.channel: (select.POLLIN | select.POLLOUT, self._sources[child.channel][1])}

    def _read_channel(self, descriptor: int) -> None:
        self._write_to_worker(descriptor)
        data = self._read(descriptor)
        self._channel.feed(data)
        while (frame := self._channel.next()) is not None:
            self._from_worker(frame)

    def _read_stream(self, descriptor: int, name: str) -> None:
        self._streams[name].feed(self._read(descriptor))
        if self._output_at is None and self._streams[name].pending:
            self._output_at = time.monotonic()

    def _read(self, descriptor: int) -> bytes:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return b""
        except ConnectionResetError:
            data = b""
        if not data:
            self._sources.pop(descriptor, None)
        return data

    def _from_worker(self, frame: dict[str, Any]) -> None:
        self._send_output(now=True)
        line = self._channel.line
        if line.startswith(b'{"t":"'):
            self._control.writer.pass_on(line)
        else:
            self._control.send(frame["t"], **{name: value for name, value in frame.items() if name != "t"})
        if frame["t"] == "quiet" or frame.get("waits"):
            self._quiet = True
        elif frame["t"] == "result":
            self._result_at = time.monotonic()
            self._raised = "error" in frame
            self._failed_calls = frame.get("error", {}).get("calls", [])

    def _send_output(self, *, now: bool = False) -> None:
        pending = max(stream.pending for stream in self._streams.values())
        waited = self._output_at is not None and time.monotonic() - self._output_at >= _OUTPUT_AFTER_S
        if not pending or not (now or waited or pending >= _OUTPUT_BYTES):
            return
        self._output_at = None
        for name, stream in self._streams.items():
            while (piece := stream.take()) is not None:
                self._send_piece(name, *piece)

    def _send_piece(self, stream: str, offset: int, data: bytes) -> None:
        self._control.send("output", stream=stream, offset=offset, data=base64.b64encode(data).decode())

    def _check_large(self, text: str, arguments: bool) -> bool:
        """Values in parts can cost many times their size to take apart: done in a process that may die of it.

        Raises:
            wire.WireError: value.too_costly: it did, or took too long.
        """
        rights = Rights(None, self._limits["processes"], 64, 0)
        left = min(_CHECK_S, max(0.1, self._control.deadline - time.monotonic()))
        try:
            code, _ = run_to_end(
                lambda: 0 if check_value(text, arguments) else 1, rights=rights, limit_bytes=0, timeout_s=left
            )
        except TimeoutError:
            code = -1
        if code not in (0, 1):
            raise wire.WireError("value.too_costly", f"checking a value of {len(text)} characters takes too much")
        return code == 0

    # from the host

    def _from_host(self, frame: Received) -> None:
        if frame["t"] == "part":
            self._parts[frame["id"]] = frame
        elif frame["t"] == "reply":
            self._reply(frame)
        else:
            raise HostBroke(f"frame.out_of_order: {frame['t']} during a run")

    def _reply(self, frame: Received) -> None:
        call, ahead = frame["call"], "ahead" in frame
        answers = [name for name in ("ok", "ok_part", "error", "stop") if name in frame]
        if len(answers) != 1 or (answers[0] != "stop" and "at" not in frame):
            raise HostBroke(f"frame.bad_field: reply to call {call} with {', '.join(answers) or 'nothing'}")
        if not self._channel.open.answered(call, ahead=ahead):
            raise HostBroke(f"frame.bad_field: reply to call {call}, which is not unanswered")
        if "stop" in frame:
            raise Ended("exit", "stopped")
        self._quiet = self._quiet and ahead
        line = frame.line + b"\n"
        self._to_worker.append(self._reply_in_parts(frame["ok_part"], line) if "ok_part" in frame else iter([line]))

    def _reply_in_parts(self, part_id: int, line: bytes) -> Iterator[bytes]:
        text = take_part(self._control, self._parts, part_id, value_bytes=self._limits["value_bytes"])
        parts = wire.split_text(text)
        for i, data in enumerate(parts, 1):
            yield wire.dump({"t": "part", "id": part_id, "i": i, "of": len(parts), "data": data})
        yield line

    def _job_lines(self, job: Received) -> Iterator[bytes]:
        line = job.line + b"\n"
        return self._reply_in_parts(job["job"]["task_part"], line) if "task_part" in job["job"] else iter([line])

    def _write_to_worker(self, descriptor: int) -> None:
        while self._unsent or self._to_worker:
            if not self._unsent:
                line = next(self._to_worker[0], None)
                if line is None:
                    self._to_worker.popleft()
                    continue
                self._unsent = memoryview(line)
            try:
                self._unsent = self._unsent[os.write(descriptor, self._unsent) :]
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                self._unsent, self._to_worker = memoryview(b""), deque()

    # at the end

    def _exited(self, status: int) -> Verdict:
        if self._result_at is not None:
            detail = "raised" if self._raised else "returned"
            return Verdict("exit", detail, status if status >= 0 else 128 - status)
        if status < 0:
            return Verdict("signal", signal.Signals(-status).name, 128 - status)
        return Verdict("exit", "exited", status)

    def _drain(self, child: Child, verdict: Verdict) -> Verdict:
        """Everything is dead, so what the pipes hold is finite. Messages count only if the worker exited by itself."""
        believed = verdict.cause in ("exit", "signal") and verdict.detail != "stopped"
        if not believed:
            self._sources.pop(child.channel, None)
        try:
            while self._sources:
                self._control.turn(self._sources)
                self._send_output()
            if believed and verdict.cause == "exit":
                self._channel.finish()
        except wire.WireError as error:
            self._sources.pop(child.channel, None)
            while self._sources:
                self._control.turn(self._sources)
            return _broken(error)
        if believed:
            status = verdict.exit if verdict.cause == "exit" else 128 - verdict.exit
            return self._exited(status)
        return verdict

    def _send_tails(self) -> None:
        self._send_output(now=True)
        for name, stream in self._streams.items():
            for piece in stream.tail():
                self._send_piece(name, *piece)
                self._control.turn({}, due=True)

    def _usage(self) -> dict[str, Any]:
        usage: dict[str, Any] = {}
        for name, stream in self._streams.items():
            usage[f"{name}_bytes"] = stream.total
            usage[f"{name}_cut"] = stream.cut
        return usage

    def _collect(self, verdict: Verdict) -> dict[str, Any]:
        """Pass on the output files; too many or too large ones are the end's cause unless there is another one."""
        if not os.path.lexists(self._control.paths.output):  # everything is dead, so nothing makes it now
            return {"output_files": 0, "skipped": [], "skipped_files": 0}
        limits = self._limits
        main = partial(
            collect.send,
            self._control.paths.output,
            files=limits["output_files"],
            total_bytes=limits["output_files_bytes"],
        )
        rights = Rights(self._rights.uid, limits["processes"], 256, limits["file_bytes"])
        receiver = collect.Receiver(self._control.send)
        child = spawn(main, rights=rights, merge_output=True)
        in_time = self._receive_files(child, receiver)
        child.close()
        self._control.reaper.end_all()
        if in_time and not receiver.complete:
            raise DropFailed("the output files could not be read")
        header = receiver.header or {"problem": "", "skipped": [], "left_out": 0}
        problem = header["problem"] if in_time else f"reading them took more than {_COLLECT_S:g} s"
        if problem and verdict.cause == "exit":
            verdict.cause, verdict.detail = "limit:output_files", problem
        return {"output_files": receiver.passed_on, "skipped": header["skipped"], "skipped_files": header["left_out"]}

    def _receive_files(self, child: Child, receiver: collect.Receiver) -> bool:
        """False when it took too long; the time in which the host was behind does not count."""
        self._sources = {child.channel: (select.POLLIN, lambda: receiver.feed(self._read(child.channel)))}
        left = _COLLECT_S
        while self._sources and left > 0:
            begun, blocked = time.monotonic(), self._control.writer.blocked
            self._control.turn(self._sources)
            left -= 0 if blocked else time.monotonic() - begun
        return not self._sources


def _broken(error: wire.WireError) -> Verdict:
    if error.code == TOO_MANY:
        return Verdict(TOO_MANY, "", 128 + signal.SIGKILL)
    return Verdict("message", error.code, 128 + signal.SIGKILL)


def take_part(control: Control, parts: dict[int, Received], part_id: int, *, value_bytes: int) -> str:
    """Text of a value that the host announced; it can be taken once, and the host may remove its file then.

    Raises:
        HostBroke: it was not announced, or is not as announced.
    """
    announced = parts.pop(part_id, None)
    if announced is None:
        raise HostBroke(f"part.unknown: {part_id}")
    text = read_part(announced, value_bytes=value_bytes)
    control.acknowledge()
    return text
