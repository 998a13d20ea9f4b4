"""Calls of the program, over the private channel: numbered, counted by scope, encoded, answered one at a time.

Arguments that cannot be recorded are refused before anything is sent. What the program gets is decoded from the reply, so that
a live call and a replayed one look the same. Replies are taken in the order in which they come, one whenever the program is
quiet; those that were sent ahead of their call are void from the first one on that is not for a call that was made.
"""

from __future__ import annotations

import json
import os
import resource
from typing import Any

from cloche import CallError, _scopes
from cloche._strands import STRANDS, Deadlock, Pending, Strands, Waiter

from cloche_guest import codec, wire
from cloche_guest.digest import sha256_hex
from cloche_guest.failure import clean
from cloche_guest.inbox import ChannelClosed, Inbox
from cloche_guest.package_values import resolve

_LABEL_CHARACTERS = 300
_PROCESSES = 16
"""Left to the program's own processes, of those and threads that it may have."""

_FRAME_ROOM = 256 * 1024
"""More than a call's frame takes beyond the text of its arguments."""


class ChannelCall(Pending):
    """A call on its way. `key` is scope, function and number, `arguments` their text, `size` what it takes of the bound."""

    __slots__ = ("arguments", "key", "parts", "reply", "size", "word")

    def __init__(self, number: int, waiter: Waiter, key: tuple[str, str, int], arguments: str) -> None:
        super().__init__(number, waiter)
        self.key = key
        self.arguments = arguments
        self.size = 0
        self.word = ""
        self.reply: dict[str, Any] = {}
        self.parts: list[str] = []

    def result(self) -> Any:
        """The decoded answer.

        Raises:
            CallError: the call failed.
        """
        reply, parts = self.reply, self.parts
        if "error" in reply:
            body = reply["error"]
            error = CallError(body.get("type", ""), body.get("message", ""), body.get("traceback", ""))
            error._number = self.number
            raise error
        return codec.decode(json.loads("".join(parts)) if "ok_part" in reply else reply["ok"], resolve=resolve)

    def is_for(self, ahead: str) -> bool:
        """True when a reply sent ahead under this key is the answer to this call."""
        if not self.word:
            digest = codec.digest(json.loads(self.arguments))
            self.word = sha256_hex("".join(f"{part}\n" for part in (*self.key, digest)).encode())
        return self.word == ahead


class ChannelBackend:
    """The backend of a run; `take_job` comes first.

    `at` is the time that the program's clock shows: that of the last reply taken, in seconds since 1970.
    """

    def __init__(self, descriptor: int, *, value_bytes: int) -> None:
        self._descriptor = descriptor
        self._own = ""
        self._value_bytes = value_bytes
        self._number = 0
        self._part = 0
        self._calls: dict[int, ChannelCall] = {}
        self._size = 0
        self._inbox = Inbox(descriptor)
        self._said_quiet = False
        self._ahead = True
        self._ahead_taken = 0
        self._void = False
        self._void_said = False
        self._began = 0.0
        self._passed = 0.0
        self.at = 0.0
        self.strands = Strands(self, limit=min(STRANDS, resource.getrlimit(resource.RLIMIT_NPROC)[0] - _PROCESSES))

    def take_job(self) -> tuple[dict[str, Any], Any]:
        """The job, waited for, and its task in codec form. The clock stands at the job's time then.

        Raises:
            ChannelClosed: there will be none.
        """
        frame, parts = self._inbox.next()
        job = frame["job"]
        self._own = f"workflows/{job['entry']}/"  # sites in the root package are named from its own folder
        self._began = self.at = float(job["at"])
        return job, job["task"] if "task" in job else json.loads("".join(parts))

    # what the program does

    def call(self, fn: str, arguments: dict[str, Any], *, label: str, site: str, phase: list[str]) -> Any:
        """Have the host execute one call; gives its decoded result.

        Raises:
            codec.CodecError: an argument cannot be recorded; nothing was sent, and no number taken.
            RuntimeError: too many calls are unanswered; nothing was sent.
            CallError: the call failed.
        """
        strands = self.strands
        pending = self._begin(fn, arguments, label, site, phase, strands.current, waits=not strands.ready)
        strands.wait(pending)
        return pending.result()

    def begin(
        self,
        fn: str,
        arguments: dict[str, Any],
        *,
        label: str,
        site: str,
        phase: list[str],
        waiter: Waiter | None = None,
    ) -> Pending:
        """Send one call; `waiter` is told when its answer is there. Raises what `call` raises before it sends."""
        return self._begin(fn, arguments, label, site, phase, waiter or self.strands.current, waits=False)

    def drop(self, pending: Pending) -> None:
        """Tell the host that nobody waits for this answer."""
        call = self._calls.pop(pending.number)
        self._size -= call.size
        call.answered = True
        self._send({"t": "drop", "call": call.number})

    def monotonic(self) -> float:
        """Seconds of the program's clock since the run began; never goes back."""
        return self._passed

    def send_result(self, value: Any) -> None:
        """The program's result, once.

        Raises:
            codec.CodecError: it cannot be recorded; nothing was sent.
        """
        encoded = codec.encode(value)
        text = codec.text(encoded)
        size = len(text.encode())
        self._check_size(size)
        inline = size <= wire.INLINE_BYTES
        body = {"value": encoded} if inline else {"value_part": self._send_parts(text)}
        self._send({"t": "result", **body})

    def send_error(self, error: dict[str, Any]) -> None:
        """What left the program instead of a result, once."""
        self._send({"t": "result", "error": error})

    def _begin(
        self,
        fn: str,
        arguments: dict[str, Any],
        label: str,
        site: str,
        phase: list[str],
        waiter: Waiter,
        *,
        waits: bool,
    ) -> ChannelCall:
        text = codec.text(codec.encode(arguments))
        data = text.encode()
        self._check_size(len(data))
        weight = wire.weight(text, len(data))
        self._check_room(weight)
        scope = _scopes.current()
        inline = len(data) <= wire.INLINE_BYTES
        part = {} if inline else {"args_part": self._send_parts(text)}
        n = scope.count(fn)
        number = self._number + 1
        frame = {
            "t": "call",
            "c": number,
            "scope": scope.path,
            "fn": fn,
            "n": n,
            **part,
            "label": clean(label)[:_LABEL_CHARACTERS] if label else "",
            "phase": [clean(name)[:_LABEL_CHARACTERS] for name in phase[:100]],
            "site": clean(site.removeprefix(self._own))[:_LABEL_CHARACTERS],
        }
        call = ChannelCall(number, waiter, (scope.path, fn, n), text)
        self._calls[number] = call
        if waits and not self._has_answer():
            frame["waits"] = True
            self._said_quiet = True
        line = wire.dump(frame)
        if inline:  # its text is there already, and need not be written out again
            line = line[:-2] + b',"args":' + data + b"}\n"
        call.size = wire.line_weight(line) if inline else wire.line_weight(line) + weight
        self._number = number
        self._size += call.size
        self._write(line)
        return call

    def _check_size(self, size: int) -> None:
        if size > self._value_bytes:
            raise codec.CodecError("$", f"takes {size:,} bytes; a value has at most {self._value_bytes:,}")

    def _check_room(self, size: int) -> None:
        if len(self._calls) >= wire.OUTSTANDING:
            raise RuntimeError(
                f"{wire.OUTSTANDING} calls are unanswered, the most there can be at once. Wait for some of them first."
            )
        if self._calls and self._size + size + _FRAME_ROOM > wire.OUTSTANDING_VALUES * self._value_bytes:
            raise RuntimeError(
                f"the arguments of {len(self._calls) + 1} unanswered calls are too large together. "
                "Wait for some of them first."
            )

    # what comes back

    def take(self) -> ChannelCall:
        """Wait for the next reply; the program is quiet now.

        Raises:
            Deadlock: no call is unanswered. ChannelClosed: the supervisor is gone.
        """
        if not self._calls:
            raise Deadlock("everything in the program waits, and no call is unanswered: it could never go on")
        while True:
            if not self._has_answer():
                self._say_quiet()
            reply, parts = self._inbox.next()
            call = self._counts(reply)
            if call is None:
                continue
            del self._calls[call.number]
            self._size -= call.size
            call.answered, call.reply, call.parts = True, reply, parts
            self._said_quiet = False
            self._show(reply["at"])
            return call

    def _counts(self, reply: dict[str, Any]) -> ChannelCall | None:
        """The call that a reply answers; None for one that is void."""
        call = self._calls.get(reply["call"])
        if "ahead" not in reply:
            if call is None:
                raise ChannelClosed(f"an answer to call {reply['call']}, which is not open")
            self._ahead = False
            return call
        if self._void or call is None or not call.is_for(reply["ahead"]):
            self._void = True
            return None
        self._ahead = True
        self._ahead_taken += 1
        return call

    def _has_answer(self) -> bool:
        """True when the next reply in line was sent ahead, so that the host need not be told to send one."""
        return self._ahead and not self._void and self._inbox.look() and "ahead" in self._inbox.first()

    def _say_quiet(self) -> None:
        tell_void = self._void and not self._void_said
        if self._said_quiet and not tell_void:
            return
        frame: dict[str, Any] = {"t": "quiet", "upto": self._number}
        if tell_void:
            frame["ahead"] = self._ahead_taken
            self._void_said = True
        self._said_quiet = True
        self._send(frame)

    def _show(self, at: float) -> None:
        self._passed = max(self._passed, at - self._began)
        self.at = at

    # the channel

    def _send_parts(self, text: str) -> int:
        """Send a large value ahead of the frame that refers to it; gives its number."""
        parts = wire.split_text(text)
        self._part += 1
        for i, data in enumerate(parts, 1):
            self._send({"t": "part", "id": self._part, "i": i, "of": len(parts), "data": data})
        return self._part

    def _send(self, frame: dict[str, Any]) -> None:
        self._write(wire.dump(frame))

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except BrokenPipeError as error:
            raise ChannelClosed from error
