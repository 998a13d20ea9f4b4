"""Conversations over the exchange: valid ones as seeds, and what of an accepted one must be true whoever wrote it.

The rules are those of docs/reference/protocol.md, written down once more and as simply as possible, so that a reader which
accepts more than the page says is found.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from cloche_guest import codec

from engine.sandbox import frames
from engine.sandbox.incoming import Limits
from tests.fuzz.mutation import mutated_lines
from tests.fuzz.target import expect

GOLDEN = Path(__file__).parents[1] / "fixtures" / "wire" / "v1"
GENERATION = 3
LIMITS = Limits(
    processes=16,
    open_files=64,
    file_bytes=64 * 1024,
    output_bytes=64 * 1024,
    output_files=10,
    output_files_bytes=128 * 1024,
    message_bytes=128 * 1024,
    messages=500,
    value_bytes=256 * 1024,
)
FIRST = [
    {"t": "hello", "nonce": "n", "attestation": {}},
    {"t": "ready"},
]
END = {"t": "end", "cause": "exit", "detail": "returned", "exit": 0, "stragglers": 0, "usage": {"cpu_s": 0.1}}


def call(number: int, **fields: Any) -> dict[str, Any]:
    """A call as a worker sends it."""
    return {"t": "call", "c": number, "scope": "/", "fn": "now", "n": 1, "args": {}, "site": "workflow.py:3", **fields}


def of_worker() -> list[list[dict[str, Any]]]:
    """What workers say, without the supervisor's envelope."""
    part = {"t": "part", "id": 1, "i": 1, "of": 2, "data": '{"path":"' + "x" * 100}
    last = {**part, "i": 2, "data": '"}'}
    in_parts = {name: value for name, value in call(1, args_part=1).items() if name != "args"}
    scope = "/parse[1]/parallel@steps.load.all[1.2]/task@workflow.go[3]"
    values = [json.loads(line)["encoded"] for line in codec_lines()]
    return [
        [call(1), {"t": "quiet", "upto": 1}, call(2, n=2, waits=True), {"t": "drop", "call": 2}, _result(None)],
        [part, last, in_parts, {"t": "quiet", "upto": 1}, _result({"$tuple": [1, {"$set": [1, 2]}]})],
        [call(1, label="a", phase=["one", "two"], scope=scope), _result([values])],
        [call(1, args={"v": values}), {"t": "quiet", "upto": 1, "ahead": 0}, _result(values[-1])],
        [{"t": "result", "error": {"type": "ValueError", "message": "m", "traceback": "t", "calls": []}}],
        [{**part, "i": 1, "of": 1, "data": "[1,2]"}, {"t": "result", "value_part": 1}],
    ]


def _result(value: Any) -> dict[str, Any]:
    return {"t": "result", "value": value}


def codec_lines() -> list[bytes]:
    """The recorded encodings of the codec, with their digests."""
    return (GOLDEN.parents[1] / "codec" / "v1.jsonl").read_bytes().splitlines()


def of_cell() -> list[bytes]:
    """Whole conversations as a cell writes them: the golden one, and one around each of a worker's."""
    golden = (GOLDEN / "cell_to_host.jsonl").read_bytes()
    extra = [
        {"t": "output", "stream": "stdout", "offset": 0, "data": "YQ=="},
        {"t": "artifact", "path": "a/b.txt", "i": 1, "of": 1, "size": 1, "data": "YQ=="},
        {"t": "test", "case": 0, "outcome": "passed", "detail": "", "duration_s": 0.5, "output": "", "entered": True},
    ]
    around = [[*FIRST, *extra, *said, END] for said in of_worker()]
    return [golden, *(lines(renumbered(frames)) for frames in around)]


def of_host() -> list[bytes]:
    """What a host writes."""
    return [(GOLDEN / "host_to_cell.jsonl").read_bytes()]


def lines(said: list[Any]) -> bytes:
    """Frames as JSON lines."""
    return b"".join(json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for frame in said)


def renumbered(said: list[Any]) -> list[Any]:
    """With an envelope, and sequences that follow each other."""
    made = []
    for sequence, frame in enumerate(said, start=1):
        if isinstance(frame, dict):
            own = {name: value for name, value in frame.items() if name not in ("v", "g", "q")}
            frame = {"v": 1, "g": GENERATION, "q": sequence, **own}
        made.append(frame)
    return made


def mutate(data: bytes, rng: Random) -> bytes:
    """A conversation with an envelope, changed."""
    return mutated_lines(data, rng, renumber=renumbered)


def mutate_worker(data: bytes, rng: Random) -> bytes:
    """A worker's, changed; calls are numbered anew."""
    return mutated_lines(data, rng, renumber=_with_calls_in_order)


def _with_calls_in_order(said: list[Any]) -> list[Any]:
    made, number = [], 0
    for frame in said:
        if isinstance(frame, dict) and frame.get("t") == "call" and "c" in frame:
            number += 1
            frame = {**frame, "c": number}
        made.append(frame)
    return made


class Accepted:
    """Takes what a reader accepted, frame by frame, and fails on what the protocol does not allow."""

    def __init__(self) -> None:
        self._kinds: list[str] = []
        self._calls = 0
        self._files: dict[str, int] = {}
        self._output = 0

    def frame(self, frame: frames.CellFrame) -> None:
        kind = type(frame).__name__
        before = self._kinds
        expect(bool(before) or kind == "Hello", f"{kind} before hello")
        expect(kind not in before or kind not in ("Hello", "Ready", "Result", "End"), f"a second {kind}")
        expect("End" not in before, f"{kind} after end")
        expect("Ready" in before or kind in ("Hello", "Ready", "End"), f"{kind} before ready")
        if "Result" in before:
            expect(kind in ("Output", "Artifact", "End"), f"{kind} after result")
        self._kinds.append(kind)
        self._one(frame)

    def _one(self, frame: frames.CellFrame) -> None:
        match frame:
            case frames.Call():
                self._call(frame)
            case frames.Artifact(path=path, data=data):
                self._artifact(path, data)
            case frames.Output(data=data):
                self._output += len(data)
                expect(self._output <= 2 * LIMITS.output_bytes + 1024 * 1024, "more output than is kept")
            case frames.Result(encoded=encoded, error=None):
                canonical(encoded)
            case frames.Result(error=error) if error is not None:
                for text in (error.type, error.message, error.traceback):
                    clean(text, 256 * 1024 * 10)
            case frames.CaseResult():
                expect(0 <= frame.duration_s < float("inf"), "a duration that cannot be")
                clean(frame.detail, 1 << 23)
            case frames.End():
                clean(frame.detail, 3000)
                json.dumps(frame.usage, allow_nan=False).encode()
                expect(len(set(frame.calls)) == len(frame.calls) <= 100, "calls of end")

    def _call(self, frame: frames.Call) -> None:
        self._calls += 1
        expect(frame.number == self._calls, "calls are counted from 1")
        expect(1 <= frame.n <= frame.number, "n counts calls of a function")
        expect(frame.scope.startswith("/") and frame.scope.isascii() and len(frame.scope) <= 4096, "scope")
        expect(len(frame.scope.split("/")) <= 21, "scopes stand at most 20 deep")
        clean(frame.fn, 300)
        clean(frame.label, 3000)
        for name in frame.phase:
            clean(name, 3000)
        canonical(frame.encoded)
        expect(all(isinstance(name, str) for name in frame.args), "arguments have names")

    def _artifact(self, path: str, data: bytes) -> None:
        pure = PurePosixPath(path)
        expect(not pure.is_absolute() and ".." not in pure.parts and str(pure) == path, f"path {path!r}")
        clean(path, 200)
        expect(path not in self._files, "a file came twice")
        self._files[path] = len(data)
        expect(len(self._files) <= LIMITS.output_files, "too many files")
        expect(sum(self._files.values()) <= LIMITS.output_files_bytes, "too large files together")


def clean(text: str, most: int) -> None:
    """Text that can be stored and is not longer."""
    text.encode()
    expect(len(text) <= most, f"{len(text)} characters")


def canonical(encoded: Any) -> None:
    """An encoding that is the only one of its value, and can be stored."""
    text = codec.text(encoded)
    text.encode()
    expect(codec.text(codec.encode(codec.decode(encoded))) == text, "decoded and encoded it is another text")
    expect(codec.digest(encoded) == codec.digest(json.loads(text)), "read back it has another digest")
