"""Target: the codec, with and without the classes of a package."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
import types
from typing import Any, NamedTuple

from cloche_guest import codec
from cloche_guest.channel import check_encoded, check_value

from tests.fuzz.conversation import canonical, codec_lines
from tests.fuzz.mutation import dumped, mutated_json
from tests.fuzz.target import Target, expect

MODULE = "workflows.fuzz.values"


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Row:
    name: str
    items: Any = None


class Pair(NamedTuple):
    left: Any
    right: Any


CLASSES = {kind.__name__: kind for kind in (Colour, Rights, Row, Pair)}


def _register() -> None:
    module = types.ModuleType(MODULE)
    for kind in CLASSES.values():
        kind.__module__ = MODULE
        setattr(module, kind.__name__, kind)
    sys.modules[MODULE] = module


_register()


def resolve(name: str) -> type:
    """The classes above, as a cell finds those of a package."""
    module, _, qualified = name.partition(":")
    if module != MODULE or qualified not in CLASSES:
        raise codec.CodecError("$", f"there is no {qualified[:40]}")
    return CLASSES[qualified]


def check(data: bytes) -> None:
    """JSON is refused as CodecError, or it is the one encoding of a value that survives both ways."""
    text = data.decode("utf-8", "surrogatepass") if _decodes(data) else data.decode("latin-1")
    expect(check_value(text, True) <= check_value(text, False), "arguments that are no value")
    try:
        encoded = json.loads(text)
    except (ValueError, RecursionError):
        return
    accepted = _accepted(encoded)
    expect(check_encoded(encoded, False) == accepted, "the supervisor and the host differ")
    try:
        value = codec.decode(encoded, resolve=resolve)
    except codec.CodecError:
        return
    if accepted:
        expect(codec.text(codec.encode(value)) == codec.text(encoded), "with its classes it is another text")


def _decodes(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _accepted(encoded: Any) -> bool:
    try:
        codec.check(encoded)
    except codec.CodecError as error:
        error.problem.encode()
        error.path.encode()
        return False
    canonical(encoded)
    return True


def seeds() -> list[bytes]:
    """The recorded encodings, alone and in containers, and a value of each kind of class."""
    encodings = [json.loads(line)["encoded"] for line in codec_lines()]
    classes = [
        {"$enum": [f"{MODULE}:Colour", "RED"]},
        {"$flag": [f"{MODULE}:Rights", 3]},
        {"$data": [f"{MODULE}:Row", {"name": "a", "items": [1]}]},
        {"$named": [f"{MODULE}:Pair", [1, {"$set": [1]}]]},
    ]
    grouped: list[Any] = [encodings[at : at + 8] for at in range(0, len(encodings), 8)]
    keyed = [{"$dict": [[value, 1]]} for value in classes]
    return [dumped(value) for value in (*grouped, *classes, *keyed, {"$set": classes[:1]}, {"a": classes})]


TARGET = Target("values", seeds, check, mutated_json)
