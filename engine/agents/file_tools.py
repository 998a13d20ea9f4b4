"""`read grep glob list` for workflow code: bounded, sorted, from a directory descriptor, with linear-time patterns.

`cloche.testing` answers the same calls in memory; `tests/unit/test_agents_file_tools.py` holds both to the same answers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
import re2
from anyio.lowlevel import RunVar
from cloche._workspace import glob_expression, page

from engine.agents.workspace import TooMany, entries, files_below, folder, regular_file, split
from engine.run.calls import CallFailed, CallRequest, CallResult, Effects, Kind

READ_BYTES = 1_048_576
LISTED = 10_000
MATCHES = 10_000
SEARCHED_BYTES = 1024 * 1024 * 1024
"""What one grep reads, at most."""

MATCHED_BYTES = 16 * 1024 * 1024
"""Text of the matches of one grep, at most; `more` says that there was more."""

SEARCH_S = 30.0
"""Time of one grep or glob, at most; looked at between lines and paths, since a search of one cannot be stopped."""

PATTERN_CHARACTERS = 2000
PATTERN_MEMORY = 128 * 1024
"""What RE2 may use for one pattern. Its time is that of text times pattern: with 8 MiB, one line could take 20 minutes."""

PATH_CHARACTERS = 4096

LINE_BYTES = 64 * 1024
"""Longer lines are searched and given in pieces of this length."""

THREADS = 16
"""Of a process, that may be in file tools, whatever the number of its runs: there are 40 in all, and ending a cell needs one too."""

_CHUNK = 1024 * 1024

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("threads in file tools")

Tool = Callable[[Path, dict[str, Any]], Any]


@dataclass(frozen=True)
class FileToolHandler:
    """One file tool. Reads only, so executing it again does no harm."""

    tool: Tool
    counted: bool = False
    kind: Kind = ""
    instant: bool = False
    effects: Effects = Effects.NONE
    permission: str = "workspace.read"

    async def execute(self, request: CallRequest) -> CallResult:
        """What the tool gives, from a worker thread.

        Raises:
            CallFailed: FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError, TimeoutError, ValueError or
                OSError.
        """
        try:
            value = await anyio.to_thread.run_sync(
                self.tool, request.context.workspace, request.args, abandon_on_cancel=True, limiter=_threads()
            )
        except (OSError, ValueError, TooMany) as error:
            name = "OSError" if isinstance(error, TooMany) else _known_name(error)
            told = (
                "the workspace holds more entries than one call looks at" if isinstance(error, TooMany) else str(error)
            )
            raise CallFailed(name, told) from error
        return CallResult(value, {})


def _threads() -> anyio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
        return limiter


def _known_name(error: OSError | ValueError) -> str:
    for kind in (
        FileNotFoundError,
        NotADirectoryError,
        IsADirectoryError,
        PermissionError,
        TimeoutError,
        ValueError,
    ):
        if isinstance(error, kind):
            return kind.__name__
    return "OSError"


def read(top: Path, args: dict[str, Any]) -> dict[str, Any]:
    """See `cloche.programs.read`."""
    parts = split(_path(args))
    offset, limit = _integer(args, "offset", 0, 0, None), _integer(args, "limit", 262_144, 1, READ_BYTES)
    with regular_file(top, parts) as descriptor:
        size = os.fstat(descriptor).st_size
        chunk = _read_at(descriptor, offset, limit)
    piece = page(chunk, last=offset + limit >= size)
    following = offset + len(piece)
    text = piece.decode(errors="backslashreplace")
    return {"text": text, "next": following if piece and following < size else None, "size": size}


def _read_at(descriptor: int, offset: int, limit: int) -> bytes:
    chunks, at = [], offset
    while limit:
        try:
            chunk = os.pread(descriptor, limit, at)
        except OverflowError as error:
            raise ValueError(f"offset {offset} is larger than any file") from error
        if not chunk:
            break
        chunks.append(chunk)
        at += len(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def list_folder(top: Path, args: dict[str, Any]) -> dict[str, Any]:
    """See `cloche.programs.list`."""
    with folder(top, split(_path(args, "."))) as descriptor:
        found = entries(descriptor)
    items = [{"name": entry.name, "kind": entry.kind, "size": entry.size} for entry in found[:LISTED]]
    return {"items": items, "more": len(found) > LISTED}


def glob(top: Path, args: dict[str, Any]) -> dict[str, Any]:
    """See `cloche.programs.glob`."""
    matches = _compiled(glob_expression(_pattern(args)).pattern)
    found: list[str] = []
    until = time.monotonic() + SEARCH_S
    for path in files_below(top, ()):
        _check_time(until)
        if matches.fullmatch(path.encode()):
            found.append(path)
    return {"items": found[:LISTED], "more": len(found) > LISTED}


def grep(top: Path, args: dict[str, Any]) -> dict[str, Any]:
    """See `cloche.programs.grep`."""
    pattern = _compiled(_pattern(args))
    parts = split(_path(args, "."))
    most = _integer(args, "max_matches", 500, 1, MATCHES)
    items: list[dict[str, Any]] = []
    matched = searched = 0
    until = time.monotonic() + SEARCH_S
    for path, given in _searched_files(top, parts):
        try:
            with regular_file(top, split(path)) as descriptor:
                for number, line in _lines(descriptor):
                    searched += len(line) + 1
                    _check_time(until)
                    if searched > SEARCHED_BYTES:
                        return {"items": items, "more": True}
                    if pattern.search(line):
                        matched += len(line)
                        if len(items) == most or matched > MATCHED_BYTES:
                            return {"items": items, "more": True}
                        text = line.decode(errors="backslashreplace")
                        items.append({"path": path, "line": number, "text": text})
        except (FileNotFoundError, PermissionError):
            if given:
                raise  # a file below a folder may go away, or not be ours to read; the one that was named may not
    return {"items": items, "more": False}


def _check_time(until: float) -> None:
    if time.monotonic() > until:
        raise TimeoutError(f"the search took longer than {SEARCH_S:g} s")


def _searched_files(top: Path, parts: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Paths to search, sorted; True for the one that was named itself."""
    try:
        return [(path, False) for path in files_below(top, parts)]
    except NotADirectoryError:
        return [("/".join(parts), True)]


def _lines(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Lines without their ends, with their numbers; a bounded part of the file in memory."""
    rest, at, number = b"", 0, 1
    while chunk := os.pread(descriptor, _CHUNK, at):
        at += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield from ((number, line[i : i + LINE_BYTES]) for i in range(0, max(1, len(line)), LINE_BYTES))
            number += 1
        while len(rest) > LINE_BYTES:
            yield number, rest[:LINE_BYTES]
            rest = rest[LINE_BYTES:]
    if rest:
        yield number, rest


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY
    # Bytes that are no UTF-8 must match too, and a pattern in UTF-8 finds its text in bytes all the same.
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"{pattern[:200]!r} is no pattern for RE2: {reason}") from error
    except UnicodeEncodeError as error:
        raise ValueError("the pattern is no text") from error


def _path(args: dict[str, Any], default: str | None = None) -> str:
    return _short(_text(args, "path", default), "path", PATH_CHARACTERS)


def _pattern(args: dict[str, Any]) -> str:
    return _short(_text(args, "pattern"), "pattern", PATTERN_CHARACTERS)


def _short(text: str, name: str, most: int) -> str:
    if len(text) > most:
        raise ValueError(f"{name} has at most {most:,} characters, not {len(text):,}")
    return text


def _text(args: dict[str, Any], name: str, default: str | None = None) -> str:
    value = args.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name} is text, not {type(value).__name__}")
    return value


def _integer(args: dict[str, Any], name: str, default: int, least: int, most: int | None) -> int:
    value = args.get(name, default)
    if type(value) is not int or value < least or (most is not None and value > most):
        upper = "" if most is None else f" to {most:,}"
        raise ValueError(f"{name} is an integer from {least}{upper}, not {str(value)[:40]}")
    return value


TOOLS: dict[str, Tool] = {"read": read, "grep": grep, "glob": glob, "list": list_folder}
"""By the name of their function in `cloche.programs`."""
