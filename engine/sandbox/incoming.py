"""Frames of a cell as typed values: which may come when, and what each field may hold. No input or output.

One `Incoming` per cell holds the state of that conversation: sequence, calls, parts, order of frames. Everything in a frame is
data of an enemy; a field that does not fit is refused by name, free text is made valid UTF-8 and clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cloche_guest import wire
from cloche_guest.open_calls import OpenCalls, are_calls
from cloche_guest.wire import CELL_FRAMES, SCOPE, SCOPE_CHARACTERS, WORKER_FRAMES, WireError

from engine.sandbox.frames import (
    Artifact,
    Call,
    CaseResult,
    CellFrame,
    Drop,
    End,
    GuestError,
    Hello,
    Output,
    Quiet,
    Ready,
    Result,
)
from engine.sandbox.outcome import Cause
from engine.sandbox.parts import FileParts, ValueParts, checked_base64, checked_value
from engine.sandbox.violations import violation

OUTCOMES = frozenset({"passed", "failed", "skipped", "error", "timeout", "unscripted", "crashed", "not_collected"})
END_CAUSES = frozenset(
    {
        Cause.EXIT,
        Cause.SIGNAL,
        Cause.DEADLINE,
        Cause.MESSAGE,
        Cause.LIMIT_MESSAGES,
        Cause.LIMIT_OUTPUT_FILES,
        Cause.CANCELLED,
    }
)
NAME_CHARACTERS = 300
TEXT_CHARACTERS = 256 * 1024
PHASES = 100
OWN_FRAMES = 50_000
"""Frames that the supervisor may send beyond what the worker causes (files, tests, acknowledgements)."""


@dataclass(frozen=True)
class Limits:
    """The bounds of one cell, as its supervisor is told them in `hello` (docs/reference/protocol.md). Sizes in bytes."""

    processes: int
    open_files: int
    file_bytes: int
    output_bytes: int
    output_files: int
    output_files_bytes: int
    message_bytes: int
    messages: int
    value_bytes: int


class Incoming:
    """Turns parsed lines into frames, or refuses them.

    `peer_read` is the highest sequence of ours that the cell acknowledged, `received` the sequence of its last frame.
    """

    def __init__(self, limits: Limits, *, generation: int) -> None:
        self._limits = limits
        self._generation = generation
        self._values = ValueParts(limit_bytes=2 * limits.value_bytes)
        self._files = FileParts(
            file_bytes=limits.file_bytes, files=limits.output_files, total_bytes=limits.output_files_bytes
        )
        self._state = "hello"
        self._calls = 0
        # Written again by the supervisor, a number can take more room than the program's own text of it.
        self._open = OpenCalls(limit_bytes=(wire.OUTSTANDING_VALUES + 1) * limits.value_bytes + 1024 * 1024)
        self._messages = self._own = 0
        self._offsets = {"stdout": 0, "stderr": 0}
        self._output_left = 2 * limits.output_bytes + wire.FRAME_BYTES
        self._line_weight = 0
        self.received = 0
        self.peer_read = 0
        self.sent = 0
        self.rotating = False

    def begin(self, generation: int) -> None:
        """The job is sent: from here on the cell's frames carry this generation."""
        self._generation = generation

    @property
    def ended(self) -> bool:
        """True after the last word."""
        return self._state == "ended"

    def take(self, line: bytes) -> CellFrame | None:
        """One line; None for what only the exchange itself is interested in.

        Raises:
            ExchangeError: by name, whatever is wrong with it.
        """
        try:
            frame = wire.parse(line)
            kind = wire.check_fields(frame, CELL_FRAMES)
            wire.check_order(frame, generation=self._generation, expected=self.received + 1)
        except WireError as error:
            raise violation(error.code, error.problem) from error
        self.received += 1
        self._count(kind)
        self._expect(kind)
        self._line_weight = wire.line_weight(line) if kind == "call" else 0
        try:
            return self._HANDLERS[kind](self, frame)  # type: ignore[no-any-return]
        except WireError as error:
            raise violation(error.code, error.problem) from error

    def answered(self, call: int, *, ahead: bool) -> None:
        """A reply was sent; `ahead` of its call."""
        self._open.answered(call, ahead=ahead)

    def _count(self, kind: str) -> None:
        if kind in WORKER_FRAMES:
            self._messages += 1
            if self._messages > self._limits.messages:
                raise violation("frame.too_many", f"more than {self._limits.messages} messages")
        elif kind != "output":  # a program makes as many of these as it likes to pause; their bytes are bounded
            self._own += 1
            if self._own > OWN_FRAMES + self._limits.messages:
                raise violation("frame.too_many", f"{self.received} frames")

    def _expect(self, kind: str) -> None:
        allowed = _ORDER[self._state]
        if kind not in allowed:
            raise violation("frame.out_of_order", f"{kind} while {self._state} was due")

    def _hello(self, frame: dict[str, Any]) -> Hello:
        self._state = "ready"
        return Hello(nonce=_name(frame["nonce"], "hello.nonce"), attestation=frame["attestation"])

    def _ready(self, _frame: dict[str, Any]) -> Ready:
        self._state = "running"
        return Ready()

    def _call(self, frame: dict[str, Any]) -> Call:
        number = frame["c"]
        if number <= self._calls:
            raise violation("call.repeated", f"call {number} came already")
        if number != self._calls + 1:
            raise violation("call.out_of_order", f"call {number} instead of {self._calls + 1}")
        self._calls = number
        encoded = self._one_of(frame, "call", "args")
        self._open.add(number, self._line_weight + (self._values.weight if "args_part" in frame else 0))
        args = checked_value(encoded)
        if type(args) is not dict or not all(type(key) is str for key in args):
            raise violation("frame.bad_field", "call.args is no dict of parameter names")
        if not 1 <= frame["n"] <= number:
            raise violation("frame.bad_field", f"call.n {frame['n']} in call {number}")
        if len(frame["scope"]) > SCOPE_CHARACTERS or not SCOPE.fullmatch(frame["scope"]):
            raise violation("frame.bad_field", f"call.scope {frame['scope'][:80]!r}")
        phases = frame.get("phase", [])
        if len(phases) > PHASES or not all(isinstance(name, str) for name in phases):
            raise violation("frame.bad_field", "call.phase is no short list of names")
        return Call(
            number=number,
            scope=frame["scope"],
            fn=_name(frame["fn"], "call.fn"),
            n=frame["n"],
            encoded=encoded,
            args=args,
            label=_text(frame.get("label", ""), NAME_CHARACTERS),
            phase=tuple(_text(name, NAME_CHARACTERS) for name in phases),
            site=_text(frame["site"], NAME_CHARACTERS),
            waits=frame.get("waits", False),
        )

    def _quiet(self, frame: dict[str, Any]) -> Quiet:
        if frame["upto"] != self._calls:
            raise violation("frame.bad_field", f"quiet up to {frame['upto']}, the last call is {self._calls}")
        if "ahead" in frame:
            self._open.void(frame["ahead"])
        return Quiet(upto=self._calls, ahead=frame.get("ahead"))

    def _drop(self, frame: dict[str, Any]) -> Drop:
        self._open.drop(frame["call"])
        return Drop(call=frame["call"])

    def _one_of(self, frame: dict[str, Any], kind: str, field: str) -> Any:
        inline, in_parts = field in frame, f"{field}_part" in frame
        if inline == in_parts:
            raise violation("frame.bad_field", f"{kind} needs one of {field} and {field}_part")
        return frame[field] if inline else self._values.take(frame[f"{field}_part"])

    def _part(self, frame: dict[str, Any]) -> None:
        self._values.add(frame)

    def _output(self, frame: dict[str, Any]) -> Output:
        stream, offset = frame["stream"], frame["offset"]
        if stream not in self._offsets or offset < self._offsets[stream]:
            raise violation("frame.bad_field", f"output at {offset} of {stream[:20]!r}")
        data = checked_base64(frame["data"], "output.data")
        if not data:
            raise violation("frame.bad_field", "output of nothing")
        self._output_left -= len(data)
        if self._output_left < 0:
            raise violation("part.oversized", "more output than is kept")
        self._offsets[stream] = offset + len(data)
        return Output(stream=stream, offset=offset, data=data)

    def _artifact(self, frame: dict[str, Any]) -> Artifact | None:
        done = self._files.add(frame)
        return None if done is None else Artifact(path=done[0], data=done[1])

    def _test(self, frame: dict[str, Any]) -> CaseResult:
        duration = frame["duration_s"]
        if frame["outcome"] not in OUTCOMES or frame["case"] < 0 or duration < 0:
            raise violation("frame.bad_field", "test has an outcome, number or duration that cannot be")
        return CaseResult(
            case=frame["case"],
            outcome=frame["outcome"],
            detail=_text(frame["detail"]),
            duration_s=float(duration),
            output=_text(frame["output"], wire.FRAME_BYTES),
            entered=frame["entered"],
        )

    def _result(self, frame: dict[str, Any]) -> Result:
        self._state = "end"
        if "error" not in frame:
            encoded = self._one_of(frame, "result", "value")
            checked_value(encoded)
            return Result(encoded=encoded, error=None)
        if "value" in frame or "value_part" in frame:
            raise violation("frame.bad_field", "result has a value and an error")
        return Result(encoded=None, error=_guest_error(frame["error"]))

    def _end(self, frame: dict[str, Any]) -> End:
        self._state = "ended"
        if frame["cause"] not in END_CAUSES:
            raise violation("frame.bad_field", f"end.cause {frame['cause'][:40]!r}")
        calls = frame.get("calls", [])
        if frame["stragglers"] < 0 or not are_calls(calls, calls=self._calls):
            raise violation("frame.bad_field", "end has a number that cannot be")
        return End(
            cause=frame["cause"],
            detail=_text(frame["detail"], NAME_CHARACTERS),
            exit=frame["exit"],
            calls=tuple(calls),
            stragglers=frame["stragglers"],
            usage=_usage(frame["usage"]),
        )

    def _ack(self, frame: dict[str, Any]) -> None:
        if not self.peer_read <= frame["upto"] <= self.sent:
            raise violation("frame.bad_field", f"ack up to {frame['upto']}, {self.sent} were sent")
        self.peer_read = frame["upto"]

    def _rotate(self, _frame: dict[str, Any]) -> None:
        self.rotating = True

    _HANDLERS: dict[str, Any] = {  # noqa: RUF012
        "hello": _hello,
        "ready": _ready,
        "call": _call,
        "quiet": _quiet,
        "drop": _drop,
        "part": _part,
        "output": _output,
        "artifact": _artifact,
        "test": _test,
        "result": _result,
        "end": _end,
        "ack": _ack,
        "rotate": _rotate,
    }


_ALWAYS = {"ack", "rotate"}
_ORDER: dict[str, set[str]] = {
    "hello": {"hello", *_ALWAYS},
    "ready": {"ready", "end", *_ALWAYS},
    "running": {"call", "quiet", "drop", "part", "output", "artifact", "test", "result", "end", *_ALWAYS},
    "end": {"output", "artifact", "end", *_ALWAYS},
    "ended": _ALWAYS,
}


def _name(text: str, what: str) -> str:
    if not 1 <= len(text) <= NAME_CHARACTERS or not text.isprintable():
        raise violation("frame.bad_field", f"{what} is no printable name")
    return text


def _text(text: str, most: int = TEXT_CHARACTERS) -> str:
    """Free text: lone surrogates written out, clipped."""
    return text[:most].encode("utf-8", "backslashreplace").decode()


def _guest_error(body: dict[str, Any]) -> GuestError:
    fields = [body.get(name, "") for name in ("type", "message", "traceback")]
    if not set(body) <= {"type", "message", "traceback", "calls"} or not all(isinstance(text, str) for text in fields):
        raise violation("frame.bad_field", "result.error holds more or other than type, message and traceback")
    return GuestError(type=_text(fields[0], NAME_CHARACTERS), message=_text(fields[1]), traceback=_text(fields[2]))


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    """The usage figures: finite numbers, flags and short lists of text under short names, nothing else."""
    kept: dict[str, Any] = {}
    for name, value in list(usage.items())[:40]:
        if len(name) > 40:
            continue
        if isinstance(value, (int, float)) and abs(value) <= wire.MOST_NUMBER:  # a float that is none fails as well
            kept[name] = value
        elif isinstance(value, list):
            kept[name] = [_text(item, NAME_CHARACTERS) for item in value[:100] if isinstance(item, str)]
    return kept
