"""Calls of the program, over the private channel: numbered, counted by scope, encoded, answered one at a time.

Arguments that cannot be recorded are refused before anything is sent. What the program gets is decoded from the reply, so that
a live call and a replayed one look the same.
"""

from __future__ import annotations

import enum
import importlib
import json
import os
from collections.abc import Iterator
from typing import Any

from cloche import CallError

from cloche_guest import codec, wire
from cloche_guest.failure import clean
from cloche_guest.scopes import Scopes

_LABEL_CHARACTERS = 300


class ChannelClosed(BaseException):
    """The supervisor is gone; the cell ends with it. Not an Exception: no program goes on without it."""


class ChannelBackend:
    """The backend of a run. `package` is the root package's id: sites in it are named from its own folder."""

    def __init__(self, descriptor: int, *, package: str, scopes: Scopes) -> None:
        self._descriptor = descriptor
        self._own = f"workflows/{package}/"
        self._scopes = scopes
        self._buffer = bytearray()
        self._number = 0
        self._part = 0

    def call(self, fn: str, arguments: dict[str, Any], *, label: str, site: str, phase: list[str]) -> Any:
        """Have the host execute one call; gives its decoded result.

        Raises:
            codec.CodecError: an argument cannot be recorded; nothing was sent, and no number taken.
            CallError: the call failed.
        """
        encoded = codec.encode(arguments)
        body = self._value("args", encoded)
        self._number += 1
        self._send(
            {
                "t": "call",
                "c": self._number,
                "scope": self._scopes.current,
                "fn": fn,
                "n": self._scopes.count(fn),
                **body,
                "label": clean(label)[:_LABEL_CHARACTERS],
                "phase": [clean(name)[:_LABEL_CHARACTERS] for name in phase[:100]],
                "site": clean(site.removeprefix(self._own))[:_LABEL_CHARACTERS],
            }
        )
        return self._answer(self._number)

    def send_result(self, value: Any) -> None:
        """The program's result, once.

        Raises:
            codec.CodecError: it cannot be recorded; nothing was sent.
        """
        self._send({"t": "result", **self._value("value", codec.encode(value))})

    def send_error(self, error: dict[str, Any]) -> None:
        """What left the program instead of a result, once."""
        self._send({"t": "result", "error": error})

    def _value(self, field: str, encoded: Any) -> dict[str, Any]:
        """The field that carries a value; a large one is sent ahead in parts."""
        text = codec.text(encoded)
        if len(text) <= wire.INLINE_BYTES and len(text.encode()) <= wire.INLINE_BYTES:
            return {field: encoded}
        parts = wire.split_text(text)
        self._part += 1
        for i, data in enumerate(parts, 1):
            self._send({"t": "part", "id": self._part, "i": i, "of": len(parts), "data": data})
        return {f"{field}_part": self._part}

    def _send(self, frame: dict[str, Any]) -> None:
        view = memoryview(wire.dump(frame))
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except BrokenPipeError as error:
            raise ChannelClosed from error

    def _answer(self, number: int) -> Any:
        parts: list[str] = []
        for frame in self._frames():
            if frame["t"] == "part":
                parts.append(frame["data"])
                continue
            if frame["call"] != number:
                raise ChannelClosed(f"an answer to call {frame['call']} while {number} is open")
            if "error" in frame:
                body = frame["error"]
                error = CallError(body.get("type", ""), body.get("message", ""), body.get("traceback", ""))
                error._number = number
                raise error
            encoded = json.loads("".join(parts)) if "ok_part" in frame else frame["ok"]
            return codec.decode(encoded, resolve=resolve)
        raise ChannelClosed

    def _frames(self) -> Iterator[dict[str, Any]]:
        while True:
            end = self._buffer.find(b"\n")
            if end < 0:
                chunk = os.read(self._descriptor, 256 * 1024)
                if not chunk:
                    return
                self._buffer += chunk
                continue
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            yield json.loads(line)


def resolve(name: str) -> type:
    """The class of a package that an encoded value names: an Enum, a dataclass or a NamedTuple, defined at module level.

    Raises:
        codec.CodecError: there is no such class.
    """
    module_name, _, qualified = name.partition(":")
    if module_name.startswith("workflows."):
        try:
            found: Any = importlib.import_module(module_name)
            for part in qualified.split("."):
                found = vars(found)[part]
        except (ImportError, KeyError, TypeError):
            found = None
        if isinstance(found, type) and f"{found.__module__}:{found.__qualname__}" == name and _recordable(found):
            return found
    raise codec.CodecError("$", f"{name[:200]} is no class of a package that values can have")


def _recordable(kind: type) -> bool:
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return named or issubclass(kind, enum.Enum) or hasattr(kind, "__dataclass_fields__")
