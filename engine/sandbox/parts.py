"""What crosses in pieces, put together under a bound: encoded values, and files of /tmp/output.

Nothing is kept past its bound, and every piece must be the one that was due.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from typing import Any

from cloche_guest import codec
from cloche_guest.wire import PART_BYTES, check_cost, no_constant, unique_keys, weight

from engine.sandbox.violations import violation

MOST_PARTS = 1_000_000
PATH_CHARACTERS, PATH_LEVELS = 200, 12
NAME_BYTES = 255
"""Of one name on its way, on every usual file system (NAME_MAX)."""

_PATH = re.compile(r"[^\x00-\x1f\x7f\\/]+(/[^\x00-\x1f\x7f\\/]+)*")


def checked_value(encoded: Any) -> Any:
    """Decode a value without package classes.

    Raises:
        ExchangeError: value.not_canonical.
    """
    try:
        return codec.check(encoded)
    except (codec.CodecError, RecursionError) as error:
        raise violation("value.not_canonical", str(error)) from error


def checked_base64(text: str, what: str) -> bytes:
    """The bytes of a base64 field.

    Raises:
        ExchangeError: frame.bad_field.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise violation("frame.bad_field", f"{what} is no base64") from error


def _pieces(frame: dict[str, Any], last: tuple[int, int], what: str) -> None:
    i, of = frame["i"], frame["of"]
    if not 1 <= of <= MOST_PARTS or not 1 <= i <= of:
        raise violation("frame.bad_field", f"{what} {i} of {of}")
    if i != last[0] + 1 or (last[1] and of != last[1]):
        raise violation("part.out_of_order", f"{what} {i} of {of} after {last[0]} of {last[1]}")


class ValueParts:
    """Collects `part` frames; a finished value waits until the one frame that refers to it takes it.

    `limit_bytes` bounds the text of all values that wait, the unfinished one included.
    """

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._id = 0
        self._last = (0, 0)
        self._text: list[str] = []
        self._done: dict[int, str] = {}
        self.weight = 0

    @property
    def size(self) -> int:
        """Bytes of text that wait."""
        return self._size

    def add(self, frame: dict[str, Any]) -> None:
        """Take one part.

        Raises:
            ExchangeError: part.out_of_order, part.oversized or frame.bad_field.
        """
        starting = not self._text
        if frame["id"] != self._id + (1 if starting else 0):
            raise violation("part.out_of_order", f"part of value {frame['id']} after value {self._id}")
        _pieces(frame, (0, 0) if starting else self._last, "part")
        length = len(frame["data"].encode("utf-8", "surrogatepass"))
        self._size += length
        if length > PART_BYTES or self._size > self._limit:
            raise violation("part.oversized", f"{self._size} bytes, at most {self._limit}")
        self._id, self._last = frame["id"], (frame["i"], frame["of"])
        self._text.append(frame["data"])
        if frame["i"] == frame["of"]:
            self._done[self._id] = "".join(self._text)
            self._text = []

    def take(self, part_id: int) -> Any:
        """The JSON of a finished value, parsed; it can be taken once. `weight` is its own then (`wire.weight`).

        Raises:
            ExchangeError: part.unknown, frame.not_json or frame.too_deep.
            WireError: value.too_costly.
        """
        text = self._done.pop(part_id, None)
        if text is None:
            raise violation("part.unknown", f"no value {part_id} came in parts")
        size = len(text.encode("utf-8", "surrogatepass"))
        self._size -= size
        check_cost(text)
        self.weight = weight(text, size)
        try:
            return json.loads(text, object_pairs_hook=unique_keys, parse_constant=no_constant, parse_float=_float)
        except RecursionError as error:
            raise violation("frame.too_deep", "a value in parts is nested too deep") from error
        except ValueError as error:
            raise violation("frame.not_json", str(error)) from error


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number out of range")
    return value


class FileParts:
    """Collects `artifact` frames into whole files, one after the other, each path once and never as a file and a folder."""

    def __init__(self, *, file_bytes: int, files: int, total_bytes: int) -> None:
        self._file_bytes = file_bytes
        self._files_left = files
        self._bytes_left = total_bytes
        self._seen: set[str] = set()
        self._folders: set[str] = set()
        self._path = ""
        self._size = 0
        self._last = (0, 0)
        self._data = bytearray()

    def add(self, frame: dict[str, Any]) -> tuple[str, bytes] | None:
        """Take one piece; gives `(path, content)` when it was the last of its file.

        Raises:
            ExchangeError: frame.bad_field, part.out_of_order or part.oversized.
        """
        starting = not self._path
        if starting:
            self._begin(frame)
        elif frame["path"] != self._path or frame["size"] != self._size:
            raise violation("part.out_of_order", "a file began inside another")
        _pieces(frame, self._last, "piece")
        self._last = (frame["i"], frame["of"])
        self._data += checked_base64(frame["data"], "artifact.data")
        if len(self._data) > self._size:
            raise violation("part.oversized", f"a file of {self._size} bytes went on")
        if frame["i"] < frame["of"]:
            return None
        if len(self._data) != self._size:
            raise violation("frame.bad_field", f"a file of {self._size} bytes ended after {len(self._data)}")
        done = (self._path, bytes(self._data))
        self._path, self._last, self._data = "", (0, 0), bytearray()
        return done

    def _begin(self, frame: dict[str, Any]) -> None:
        path, size = frame["path"], frame["size"]
        levels = path.split("/")
        folders = {"/".join(levels[:depth]) for depth in range(1, len(levels))}
        if not _safe(path) or path in self._seen | self._folders or folders & self._seen:
            raise violation("frame.bad_field", f"artifact.path {path[:80]!r}")
        if not 0 <= size <= min(self._file_bytes, self._bytes_left) or not self._files_left:
            raise violation("part.oversized", f"a file of {size} bytes past the bound of output files")
        self._files_left -= 1
        self._bytes_left -= size
        self._seen.add(path)
        self._folders |= folders
        self._path, self._size = path, size


def _safe(path: str) -> bool:
    names = path.split("/")
    return (
        len(path) <= PATH_CHARACTERS
        and len(names) <= PATH_LEVELS
        and _PATH.fullmatch(path) is not None
        and path.isprintable()
        and not {".", ".."} & set(names)
        and all(len(name.encode()) <= NAME_BYTES for name in names)
    )
