"""The exchange, version 1: frames between host and cell. Described in docs/reference/protocol.md; golden files in tests/fixtures/wire.

A frame is one line of JSON: `{"v":1,"g":generation,"q":sequence,"t":type,…fields}` and a newline, at most `FRAME_BYTES`. Both
directions count their own sequence from 1 without gaps. This module owns the field tables and the checks that need no state;
it does no input or output.
"""

from __future__ import annotations

import json
import re
from typing import Any

VERSION = 1
FRAME_BYTES = 1024 * 1024
"""One frame with its newline, at most."""

PART_BYTES = 512 * 1024
"""Text of one part of a larger value, at most (bytes of UTF-8)."""

SEGMENT_BYTES = 8 * 1024 * 1024
"""A segment is left for the next one (frame `rotate`) before it would grow past this."""

SEGMENT_FILES = 2
"""Files of `out/` that the cell's segments take turns in."""

JSON_DEPTH = 400
"""Nesting of a frame, at most: value depth 100, up to three JSON levels for one of a value, and the frame's own."""

INLINE_BYTES = 256 * 1024
"""Encoded values longer than this do not travel inside a frame but as parts (from the cell) or as a file (to the cell)."""

MOST_NUMBER = 2**53 - 1
"""A number in a field of a frame, values left out, at most, and with a minus at least: every reader of JSON has these exactly."""

CONTAINERS, ITEMS = 1_000_000, 5_000_000
"""Lists and objects, and commas, in the text of one value that came in parts, at most: each list takes up to 500 bytes and 8 µs to
check, so that 64 MiB of empty ones would take gigabytes of whoever checks them."""

OUTSTANDING = 1_000
"""Calls of one program that may be unanswered at once."""

OUTSTANDING_VALUES = 2
"""The arguments of unanswered calls together weigh at most so many times `value_bytes` (`weight`)."""

LIGHT_BYTES = 4096
"""Text up to this weighs what it is long: as many calls as may be unanswered cannot make much of so little."""

CONTAINER_WEIGHT, ITEM_WEIGHT = 60, 12
"""Bytes of memory that a list or object, and an item of one, is counted with: whoever holds arguments holds them parsed."""

FAILED_CALLS = 100
"""Numbers of failed calls that the error of a `result` names, at most."""

SCOPE_CHARACTERS = 4096
SCOPE = re.compile(
    r"/|(?:/(?:[a-z][a-z0-9_]{0,79}\[[1-9][0-9]{0,8}\]"
    r"|task@[A-Za-z0-9_.]{1,120}\[[1-9][0-9]{0,8}\]"
    r"|(?:parallel|pipeline)@[A-Za-z0-9_.]{1,120}\[[1-9][0-9]{0,8}\.[1-9][0-9]{0,8}\])){1,20}"
)
"""Where a call stands: docs/reference/protocol.md, Scopes."""

_STRINGS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)

_REQUIRED, _OPTIONAL = True, False

# field -> (JSON kind, required). Kinds: str int num bool obj list any
HOST_FRAMES: dict[str, dict[str, tuple[str, bool]]] = {
    "hello": {
        "nonce": ("str", True),
        "kind": ("str", True),
        "uid": ("int", True),
        "limits": ("obj", True),
        "wait_s": ("num", True),
    },
    "job": {"job": ("obj", True)},
    "part": {"id": ("int", True), "file": ("str", True), "size": ("int", True), "sha256": ("str", True)},
    "reply": {
        "call": ("int", True),
        "ok": ("any", False),
        "ok_part": ("int", False),
        "error": ("obj", False),
        "stop": ("str", False),
        "at": ("num", False),
        "ahead": ("str", False),
    },
    "cancel": {"reason": ("str", True)},
    "ack": {"upto": ("int", True)},
    "rotate": {},
}

CELL_FRAMES: dict[str, dict[str, tuple[str, bool]]] = {
    "hello": {"nonce": ("str", True), "attestation": ("obj", True)},
    "ready": {},
    "call": {
        "c": ("int", True),
        "scope": ("str", True),
        "fn": ("str", True),
        "n": ("int", True),
        "args": ("any", False),
        "args_part": ("int", False),
        "label": ("str", False),
        "phase": ("list", False),
        "site": ("str", True),
        "waits": ("bool", False),
    },
    "quiet": {"upto": ("int", True), "ahead": ("int", False)},
    "drop": {"call": ("int", True)},
    "part": {"id": ("int", True), "i": ("int", True), "of": ("int", True), "data": ("str", True)},
    "output": {"stream": ("str", True), "offset": ("int", True), "data": ("str", True)},
    "artifact": {
        "path": ("str", True),
        "i": ("int", True),
        "of": ("int", True),
        "size": ("int", True),
        "data": ("str", True),
    },
    "test": {
        "case": ("int", True),
        "outcome": ("str", True),
        "detail": ("str", True),
        "duration_s": ("num", True),
        "output": ("str", True),
        "entered": ("bool", True),
    },
    "result": {"value": ("any", False), "value_part": ("int", False), "error": ("obj", False)},
    "end": {
        "cause": ("str", True),
        "detail": ("str", True),
        "exit": ("int", True),
        "calls": ("list", False),
        "stragglers": ("int", True),
        "usage": ("obj", True),
    },
    "ack": {"upto": ("int", True)},
    "rotate": {},
}

WORKER_FRAMES = {name: CELL_FRAMES[name] for name in ("call", "quiet", "drop", "part", "result")}
"""What untrusted code can cause: it writes these, without `v g q`, on its channel to the supervisor."""

_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "num": (int, float),
    "bool": (bool,),
    "obj": (dict,),
    "list": (list,),
}


class WireError(ValueError):
    """A frame that breaks the protocol. `code` is one of the names in docs/reference/protocol.md, e.g. `frame.oversized`."""

    def __init__(self, code: str, problem: str) -> None:
        super().__init__(f"{code}: {problem}")
        self.code = code
        self.problem = problem


def dump(frame: dict[str, Any]) -> bytes:
    """One frame as its line, newline included.

    Raises:
        WireError: `frame.oversized`; the caller sends the value in parts instead. `frame.not_utf8` (a lone surrogate) and
            `frame.not_json` (a float that is not finite: JSON text such as 1e999 reads as one).
    """
    try:
        line = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise WireError("frame.not_utf8", f"a lone surrogate at {error.start}") from error
    except ValueError as error:
        raise WireError("frame.not_json", str(error)[:200]) from error
    if len(line) > FRAME_BYTES:
        raise WireError("frame.oversized", f"{len(line)} bytes, at most {FRAME_BYTES}")
    return line


def parse(line: bytes) -> dict[str, Any]:
    """A line, without its newline, as a JSON object; nothing is known of its fields yet.

    Raises:
        WireError: frame.oversized, frame.not_utf8 (also a lone surrogate written as an escape), frame.too_deep,
            frame.not_json (also NaN, duplicate keys, numbers too long to read) or frame.not_object.
    """
    if len(line) >= FRAME_BYTES:
        raise WireError("frame.oversized", f"more than {FRAME_BYTES} bytes")
    try:
        decoded = line.decode()
    except UnicodeDecodeError as error:
        raise WireError("frame.not_utf8", f"byte {error.start}") from error
    if deepest(decoded) > JSON_DEPTH:
        raise WireError("frame.too_deep", f"nested deeper than {JSON_DEPTH}")
    try:
        frame = json.loads(decoded, object_pairs_hook=unique_keys, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise WireError("frame.not_json", str(error)[:200]) from error
    if not isinstance(frame, dict):
        raise WireError("frame.not_object", type(frame).__name__)
    if "\\ud" in decoded or "\\uD" in decoded:
        _refuse_surrogates(frame)
    return frame


def _refuse_surrogates(frame: dict[str, Any]) -> None:
    """Refuse a frame in which an escape made a lone surrogate; such text could be neither forwarded nor stored.

    Raises:
        WireError: frame.not_utf8.
    """
    try:
        json.dumps(frame, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise WireError("frame.not_utf8", "a lone surrogate") from error


def check_fields(frame: dict[str, Any], table: dict[str, dict[str, tuple[str, bool]]], *, envelope: bool = True) -> str:
    """Compare a parsed frame with a field table; returns its type.

    Raises:
        WireError: frame.wrong_version, frame.unknown_type, frame.unknown_field or frame.bad_field.
    """
    if envelope and frame.get("v") != VERSION:
        raise WireError("frame.wrong_version", f"{str(frame.get('v'))[:20]}, this side speaks {VERSION}")
    kind = frame.get("t")
    if not isinstance(kind, str) or kind not in table:
        raise WireError("frame.unknown_type", str(kind)[:40])
    fields = table[kind]
    for name in frame:
        if name not in fields and name not in (("v", "g", "q", "t") if envelope else ("t",)):
            raise WireError("frame.unknown_field", f"{kind}.{name[:40]}")
    for name, (wanted, required) in fields.items():
        if name not in frame:
            if required:
                raise WireError("frame.bad_field", f"{kind}.{name} is missing")
        elif not _fits(frame[name], wanted):
            raise WireError("frame.bad_field", f"{kind}.{name} is not of kind {wanted}")
    return kind


def check_order(frame: dict[str, Any], *, generation: int, expected: int) -> None:
    """Compare a frame's generation and sequence with what comes next.

    Raises:
        WireError: frame.wrong_generation, frame.repeated or frame.out_of_order.
    """
    if type(frame.get("g")) is not int or frame["g"] != generation:
        raise WireError("frame.wrong_generation", f"{str(frame.get('g'))[:20]}, now is {generation}")
    sequence = frame.get("q")
    if type(sequence) is not int:
        raise WireError("frame.bad_field", "q is not of kind int")
    if sequence < expected:
        raise WireError("frame.repeated", f"sequence {sequence} came already")
    if sequence > expected:
        raise WireError("frame.out_of_order", f"sequence {sequence} instead of {expected}")


def deepest(decoded: str) -> int:
    """Nesting of brackets in JSON text, strings left out; cheap, and done before the parser may recurse."""
    depth = most = 0
    if decoded.count("[") + decoded.count("{") <= JSON_DEPTH:
        return 0
    inside = escaped = False
    for character in decoded:
        if inside:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside = False
        elif character == '"':
            inside = True
        elif character in "[{":
            depth += 1
            most = max(most, depth)
        elif character in "]}":
            depth -= 1
    return most


def check_cost(text: str) -> None:
    """Pass for JSON text whose value takes bounded memory and time to read; looks at no more than signs.

    Raises:
        WireError: value.too_costly.
    """
    if _is_small(text):
        return
    if not _is_small(_STRINGS.sub("", text)):
        raise WireError("value.too_costly", f"more than {CONTAINERS} lists and objects, or {ITEMS} items, in one value")


def _is_small(text: str) -> bool:
    return text.count("[") + text.count("{") <= CONTAINERS and text.count(",") <= ITEMS


def weight(text: str, size: int) -> int:
    """What text of so many bytes counts as while a call waits: its bytes, or what its parts take parsed, where that is more.

    A value with as many parts as a value may have weighs about as much as one of 64 MiB.
    """
    if size <= LIGHT_BYTES or _parsed(text) <= size:
        return size
    return max(size, _parsed(_STRINGS.sub("", text)))


def line_weight(line: bytes) -> int:
    """`weight` of a frame as it came."""
    return len(line) if len(line) <= LIGHT_BYTES else weight(line.decode("latin-1"), len(line))


def _parsed(text: str) -> int:
    return CONTAINER_WEIGHT * (text.count("[") + text.count("{")) + ITEM_WEIGHT * text.count(",")


def split_text(value: str) -> list[str]:
    """Cut text into parts of 64 Ki characters: with the longest escapes still below PART_BYTES."""
    step = PART_BYTES // 8
    return [value[i : i + step] for i in range(0, len(value), step)] or [""]


def _fits(value: Any, wanted: str) -> bool:
    if wanted == "any":
        return True
    if isinstance(value, bool) and wanted != "bool":
        return False
    if wanted in ("int", "num") and isinstance(value, int | float) and not abs(value) <= MOST_NUMBER:
        return False
    return isinstance(value, _KINDS[wanted])


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Hook of json.loads: an object, or ValueError where a key stands twice."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def no_constant(name: str) -> Any:
    """Hook of json.loads: ValueError for NaN and infinities."""
    raise ValueError(f"{name} is no JSON")
