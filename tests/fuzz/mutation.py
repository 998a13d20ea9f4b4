"""Changes to inputs that keep them close to valid: of JSON values, of conversations line by line, and of plain bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

MOST_BYTES = 48 * 1024
"""No mutated input is larger: coverage is counted sign by sign, and large inputs teach little."""


def nested(depth: int, kind: str = "list") -> Any:
    """A value of so many lists or objects inside each other."""
    value: Any = 0
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


def odd_values() -> list[Any]:
    """Values at the edges of what JSON, the codec and the wire can hold."""
    numbers: list[Any] = [0, -1, 1, 2**31, 2**53 - 1, 2**53, 2**63, 2**64, 10**400, 0.5, -0.0, 1e308, 5e-324]
    texts: list[Any] = ["", "a", "\0", "é", "\ud800", "\udc00\ud800", "$set", "../x", "/", "/a[1]", "1e999", "x" * 5000]
    tagged: list[Any] = [
        {"$int": hex(2**53)},
        {"$int": "0x" + "f" * 5000},
        {"$float": "nan"},
        {"$set": [{"$float": "nan"}, {"$float": "nan"}]},
        {"$set": [1, True, 1.0]},
        {"$decimal": "1E+999999"},
        {"$decimal": "1E+999999999999999999"},
        {"$decimal": "sNaN"},
        {"$fraction": [1, 3]},
        {"$timedelta": [999999999, 0, 0]},
        {"$zone": "Europe/Paris"},
        {"$zone": "../../etc/passwd"},
        {"$zone": ""},
        {"$dict": [[{"$tuple": []}, 1], [{"$tuple": []}, 2]]},
        {"$enum": ["workflows.a.b:C", "D"]},
        {"$named": ["workflows.a.b:C", []]},
        {"$bytes": "!"},
        {"$path": ["PureWindowsPath", "C:\\a"]},
    ]
    shapes: list[Any] = [
        None,
        True,
        False,
        [],
        {},
        [[]],
        {"": {}},
        nested(99),
        nested(101),
        nested(390),
        nested(99, "dict"),
    ]
    return [*numbers, *texts, *tagged, *shapes]


ODD = odd_values()


def mutated_value(value: Any, rng: Random, depth: int = 0) -> Any:
    """The value with one thing inside changed, removed, repeated or moved."""
    if isinstance(value, dict) and value and depth < 20 and rng.random() < 0.85:
        return _mutated_object(value, rng, depth)
    if isinstance(value, list) and value and depth < 20 and rng.random() < 0.85:
        return _mutated_list(value, rng, depth)
    if isinstance(value, str) and value and rng.random() < 0.5:
        return mutated_text(value, rng)
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice([value + 1, value - 1, -value, value * 2, float(value) if abs(value) < 2**53 else 0])
    return rng.choice(ODD)


def _mutated_object(value: dict[str, Any], rng: Random, depth: int) -> dict[str, Any]:
    made = dict(value)
    name = rng.choice(list(made))
    match rng.randrange(8):
        case 0:
            del made[name]
        case 1:
            made[rng.choice(["", "x", "v", "q", "$set", *made])] = rng.choice(ODD)
        case 2:
            made[rng.choice(list(made))] = made[name]
        case _:
            made[name] = mutated_value(made[name], rng, depth + 1)
    return made


def _mutated_list(value: list[Any], rng: Random, depth: int) -> list[Any]:
    made = list(value)
    at = rng.randrange(len(made))
    match rng.randrange(8):
        case 0:
            del made[at]
        case 1:
            made.insert(at, rng.choice(ODD))
        case 2:
            made.insert(at, made[at])
        case 3:
            made[at : at + 1] = [made[at]] * rng.choice([2, 120])
        case _:
            made[at] = mutated_value(made[at], rng, depth + 1)
    return made


def mutated_text(text: str, rng: Random) -> str:
    """Text with a character, or a stretch, changed."""
    at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    match rng.randrange(5):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:end] + text[at:]
        case 2:
            return text[:at] + rng.choice(["\0", "\ud83d", "/", "..", "[1]", "$", "\n", '"', "\\", "é"]) + text[at:]
        case 3:
            return text[:at] + chr(rng.choice([0, 9, 10, 32, 127, 0x85, 0x2028, 0xFEFF, 0x10FFFF])) + text[at + 1 :]
        case _:
            return text * rng.choice([2, 10])


def mutated_bytes(data: bytes, rng: Random) -> bytes:
    """Bytes flipped, cut, repeated or spliced."""
    made = bytearray(data)
    at = rng.randrange(len(made) + 1)
    end = min(len(made), at + rng.choice([1, 2, 8, 64, 4096]))
    match rng.randrange(6):
        case 0 if at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        case 1:
            del made[at:end]
        case 2:
            made[at:at] = made[at:end]
        case 3:
            made[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        case 4:
            made[at:end] = b"\0" * (end - at)
        case _:
            del made[at:]
    return bytes(made[:MOST_BYTES])


def dumped(value: Any) -> bytes:
    """JSON text, with escapes for what UTF-8 does not have."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()


def mutated_json(data: bytes, rng: Random) -> bytes:
    """JSON with a few things inside changed; now and then, and where it is none, changed bytes."""
    value = _loaded(data)
    if isinstance(value, bytes) or rng.random() < 0.15:
        return mutated_bytes(data, rng)
    for _ in range(rng.choice([1, 1, 2, 3])):
        value = mutated_value(value, rng)
    made = dumped(value)
    return made if len(made) <= MOST_BYTES else mutated_bytes(data, rng)


def mutated_lines(data: bytes, rng: Random, *, renumber: Callable[[list[Any]], list[Any]]) -> bytes:
    """A conversation with a few of its frames changed, dropped, repeated, reordered or spliced.

    `renumber` mends what would get every later frame refused (sequences, hashes); a few times in ten it is left out.
    """
    if rng.random() < 0.15:
        return mutated_bytes(data, rng)
    frames = [_loaded(line) for line in data.split(b"\n") if line]
    for _ in range(rng.choice([1, 1, 2, 4])):
        _change_one(frames, rng)
    if rng.random() < 0.85:
        frames = renumber(frames)
    lines = [frame if isinstance(frame, bytes) else _written(frame, rng) for frame in frames]
    return b"\n".join([*lines, b""])[:MOST_BYTES]


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line


def _change_one(frames: list[Any], rng: Random) -> None:
    if not frames:
        frames.append({"t": "ack", "upto": 0})
        return
    at, other = rng.randrange(len(frames)), rng.randrange(len(frames))
    match rng.randrange(10):
        case 0:
            del frames[at]
        case 1:
            frames.insert(other, frames[at])
        case 2:
            frames[at], frames[other] = frames[other], frames[at]
        case 3:
            frames[at:at] = [frames[at]] * rng.choice([2, 30])
        case 4 if isinstance(frames[at], dict):
            frames[at] = mutated_bytes(dumped(frames[at]), rng)
        case _ if isinstance(frames[at], dict):
            frames[at] = mutated_value(frames[at], rng)
        case _:
            frames[at] = rng.choice(ODD)


def _written(frame: Any, rng: Random) -> bytes:
    """Mostly as we write frames; now and then with spaces, or with a key twice."""
    if isinstance(frame, dict) and frame and rng.random() < 0.03:
        return dumped(frame)[:-1] + b"," + dumped({rng.choice(list(frame)): 1})[1:]
    if rng.random() < 0.05:
        return json.dumps(frame).encode()
    try:
        return json.dumps(frame, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return dumped(frame)
