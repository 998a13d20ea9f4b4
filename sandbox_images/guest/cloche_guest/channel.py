"""What untrusted code says to the supervisor, checked before any of it is believed or passed on.

The worker can cause `call`, `quiet`, `drop`, `part` and `result`, in its own order and within its own bounds. Everything that
the host would refuse is refused here first, by the same name, so that it counts as the program's failure and not as ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cloche_guest import codec, wire
from cloche_guest.open_calls import OpenCalls, are_calls

TOO_MANY = "limit:messages"
"""`code` of the WireError for one message too many; it is a cause of its own."""

_NAME_CHARACTERS = 300
_PHASES = 100


def check_value(text: str, arguments: bool) -> bool:
    """True when JSON text is the one encoding of a value; for `arguments` of a dict with text as keys."""
    try:
        encoded = json.loads(text, object_pairs_hook=wire.unique_keys, parse_constant=wire.no_constant)
    except (ValueError, RecursionError):
        return False
    return check_encoded(encoded, arguments)


def check_encoded(encoded: Any, arguments: bool) -> bool:
    """`check_value` for JSON that was parsed, with the same refusals, already."""
    try:
        value = codec.check(encoded)
    except (ValueError, RecursionError, OverflowError):
        return False
    return not arguments or (type(value) is dict and all(type(key) is str for key in value))


class Channel:
    """The state of one worker's messages. `check_large` decides about values that came in parts (their text is given).

    `calls` is the number of the last call, `finished` True after `result`. `open` tells which calls are unanswered,
    `line` is what the last message came as.
    """

    def __init__(
        self,
        *,
        message_bytes: int,
        messages: int,
        value_bytes: int,
        check_large: Callable[[str, bool], bool] = check_value,
    ) -> None:
        self._message_bytes = min(message_bytes, wire.FRAME_BYTES)
        self._messages_left = messages
        self._value_bytes = value_bytes
        self._check_large = check_large
        self._buffer = bytearray()
        self._parts: list[str] = []
        self._part = (0, 0, 0)
        self._part_size = 0
        self._arguments_size = 0
        self.line = b""
        self.open = OpenCalls(limit_bytes=wire.OUTSTANDING_VALUES * value_bytes)
        self.calls = 0
        self.finished = False

    def feed(self, data: bytes) -> None:
        """Take bytes of the channel."""
        self._buffer += data

    def next(self) -> dict[str, Any] | None:
        """The next whole message as a checked frame, or None when there is none.

        Raises:
            wire.WireError: by name, whatever is wrong with it; `code` is `TOO_MANY` for one message too many.
        """
        end = self._buffer.find(b"\n")
        if max(end, 0) >= self._message_bytes or (end < 0 and len(self._buffer) >= self._message_bytes):
            raise wire.WireError("frame.oversized", f"more than {self._message_bytes} bytes")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        if not self._messages_left:
            raise wire.WireError(TOO_MANY, "more messages than allowed")
        self._messages_left -= 1
        frame = wire.parse(line)
        kind = wire.check_fields(frame, wire.WORKER_FRAMES, envelope=False)
        if self.finished:
            raise wire.WireError("frame.out_of_order", f"{kind} after result")
        self._arguments_size = wire.line_weight(line) if kind == "call" else len(line)
        self.line = line
        self._TAKE[kind](self, frame)
        return frame

    def finish(self) -> None:
        """After the last byte.

        Raises:
            wire.WireError: frame.unfinished.
        """
        if self._buffer:
            raise wire.WireError("frame.unfinished", "the last message has no end")

    def _call(self, frame: dict[str, Any]) -> None:
        number = frame["c"]
        if number <= self.calls:
            raise wire.WireError("call.repeated", f"call {number} came already")
        if number != self.calls + 1:
            raise wire.WireError("call.out_of_order", f"call {number} instead of {self.calls + 1}")
        phase = frame.get("phase", [])
        fits = (
            1 <= frame["n"] <= number
            and 1 <= len(frame["fn"]) <= _NAME_CHARACTERS
            and frame["fn"].isprintable()
            and len(frame["scope"]) <= wire.SCOPE_CHARACTERS
            and wire.SCOPE.fullmatch(frame["scope"])
            and len(phase) <= _PHASES
            and all(isinstance(name, str) for name in phase)
        )
        if not fits:
            raise wire.WireError("frame.bad_field", "call has a name, scope, count or phase that cannot be")
        self._value(frame, "call", "args")
        self.open.add(number, self._arguments_size)
        self.calls = number

    def _quiet(self, frame: dict[str, Any]) -> None:
        self._no_parts_left()
        if frame["upto"] != self.calls:
            raise wire.WireError("frame.bad_field", f"quiet up to {frame['upto']}, the last call is {self.calls}")
        if "ahead" in frame:
            self.open.void(frame["ahead"])

    def _drop(self, frame: dict[str, Any]) -> None:
        self._no_parts_left()
        self.open.drop(frame["call"])

    def _result(self, frame: dict[str, Any]) -> None:
        if "error" in frame:
            if "value" in frame or "value_part" in frame or not _is_error(frame["error"], calls=self.calls):
                raise wire.WireError("frame.bad_field", "result.error does not hold what it must")
        else:
            self._value(frame, "result", "value")
        self._no_parts_left()
        self.finished = True

    def _value(self, frame: dict[str, Any], kind: str, field: str) -> None:
        """Check the value of a frame, inline or in parts."""
        reference = f"{field}_part"
        if (field in frame) == (reference in frame):
            raise wire.WireError("frame.bad_field", f"{kind} needs one of {field} and {reference}")
        if field in frame:
            self._no_parts_left()
            fits = check_encoded(frame[field], kind == "call")
        else:
            part_id, i, of = self._part
            if frame[reference] != part_id or not self._parts or i != of:
                raise wire.WireError("part.unknown", f"no value {frame[reference]} came in parts right before")
            text = "".join(self._parts)
            wire.check_cost(text)
            self._arguments_size += wire.weight(text, self._part_size)
            self._parts, self._part_size = [], 0
            fits = self._check_large(text, kind == "call")
        if not fits:
            raise wire.WireError("value.not_canonical", f"{kind}.{field}")

    def _no_parts_left(self) -> None:
        if self._parts:
            raise wire.WireError("part.out_of_order", "parts that the next message does not use")

    def _take_part(self, frame: dict[str, Any]) -> None:
        part_id, i, of = self._part
        due = (part_id, i + 1, of) if self._parts and i < of else (part_id + 1, 1, frame["of"])
        if self._parts and i == of:
            raise wire.WireError("part.out_of_order", "a second value before the first was used")
        if (frame["id"], frame["i"], frame["of"]) != due or not 1 <= frame["of"] <= 1_000_000:
            raise wire.WireError("part.out_of_order", f"part {frame['i']} of {frame['of']} of value {frame['id']}")
        size = len(frame["data"].encode())
        self._part_size += size
        if size > wire.PART_BYTES or self._part_size > self._value_bytes:
            raise wire.WireError("part.oversized", f"{self._part_size} bytes, at most {self._value_bytes}")
        self._part = due
        self._parts.append(frame["data"])

    _TAKE: dict[str, Any] = {  # noqa: RUF012
        "call": _call,
        "quiet": _quiet,
        "drop": _drop,
        "part": _take_part,
        "result": _result,
    }


def _is_error(body: dict[str, Any], *, calls: int) -> bool:
    numbers = body.get("calls", [])
    return (
        set(body) <= {"type", "message", "traceback", "calls"}
        and all(isinstance(body.get(name, ""), str) for name in ("type", "message", "traceback"))
        and are_calls(numbers, calls=calls)
    )
