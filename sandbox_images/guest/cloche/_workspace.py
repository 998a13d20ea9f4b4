"""A workspace in memory that answers `read list glob grep` as the host's file tools do: same bounds, order and errors.

For behaviour tests only. Patterns run on `re` here and on RE2 in a run: what only `re` understands is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

READ_BYTES: Final = 1_048_576
LISTED: Final = 10_000
MATCHES: Final = 10_000


class Workspace:
    """Files by relative path. Folders exist where files lie below them."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self._files = {
            _parts(path): content.encode() if isinstance(content, str) else bytes(content)
            for path, content in files.items()
        }
        for parts in self._files:
            if not parts or any(parts[:length] in self._files for length in range(1, len(parts))):
                raise ValueError(f"workspace: {'/'.join(parts) or '.'} cannot be a file")

    def tools(self) -> dict[str, Callable[..., Any]]:
        """The file tools by name, each taking bound arguments as keywords."""
        return {"read": self.read, "list": self.list, "glob": self.glob, "grep": self.grep}

    def read(self, path: str, offset: int = 0, limit: int = 262144) -> dict[str, Any]:
        """See cloche.programs.read."""
        _bounded("offset", offset, 0, None)
        _bounded("limit", limit, 1, READ_BYTES)
        content = self._file(path)
        piece = page(content[offset : offset + limit], last=offset + limit >= len(content))
        following = offset + len(piece)
        return {
            "text": piece.decode(errors="backslashreplace"),
            "next": following if following < len(content) else None,
            "size": len(content),
        }

    def list(self, path: str = ".") -> dict[str, Any]:
        """See cloche.programs.list."""
        parts = _parts(path)
        if parts in self._files:
            raise NotADirectoryError(f"{path} is no folder")
        found: dict[str, dict[str, Any]] = {}
        for file, content in self._files.items():
            if file[: len(parts)] == parts:
                name, is_file = file[len(parts)], len(file) == len(parts) + 1
                kind = "file" if is_file else "directory"
                found[name] = {"name": name, "kind": kind, "size": len(content) if is_file else 0}
        if parts and not found:
            raise FileNotFoundError(f"{path} does not exist in the workspace")
        items = [found[name] for name in sorted(found)]
        return {"items": items[:LISTED], "more": len(items) > LISTED}

    def glob(self, pattern: str) -> dict[str, Any]:
        """See cloche.programs.glob."""
        matches = glob_expression(pattern).fullmatch
        items = sorted(path for path in map("/".join, self._files) if matches(path))
        return {"items": items[:LISTED], "more": len(items) > LISTED}

    def grep(self, pattern: str, path: str = ".", max_matches: int = 500) -> dict[str, Any]:
        """See cloche.programs.grep."""
        _bounded("max_matches", max_matches, 1, MATCHES)
        matches = _linear(pattern).search
        parts = _parts(path)
        searched = sorted("/".join(file) for file in self._files if file[: len(parts)] == parts)
        if parts and not searched:
            raise FileNotFoundError(f"{path} does not exist in the workspace")
        items: list[dict[str, Any]] = []
        for name in searched:
            for number, line in enumerate(_lines(self._files[_parts(name)]), start=1):
                if matches(line):
                    items.append({"path": name, "line": number, "text": line})
                    if len(items) > max_matches:
                        return {"items": items[:max_matches], "more": True}
        return {"items": items, "more": False}

    def _file(self, path: str) -> bytes:
        parts = _parts(path)
        if parts in self._files:
            return self._files[parts]
        if any(file[: len(parts)] == parts for file in self._files):
            raise IsADirectoryError(f"{path} is a folder")
        raise FileNotFoundError(f"{path} does not exist in the workspace")


def page(chunk: bytes, *, last: bool) -> bytes:
    """The part of `chunk` that a page gives: all of it at the end of the file, else up to its last line end.

    A chunk without a line end is cut in front of a character that it holds only in part.
    """
    if last:
        return chunk
    end = chunk.rfind(b"\n") + 1
    return chunk[: end or _whole_characters(chunk)]


def _whole_characters(chunk: bytes) -> int:
    for back in range(1, min(3, len(chunk) - 1) + 1):
        byte = chunk[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(chunk) - back if length > back else len(chunk)
    return len(chunk)


def glob_expression(pattern: str) -> re.Pattern[str]:
    """An expression that fully matches the paths of a glob pattern.

    Raises:
        ValueError: the pattern is empty, absolute or climbs.
    """
    parts = _parts(pattern)
    if not parts:
        raise ValueError("an empty pattern matches nothing")
    expression = ""
    for place, part in enumerate(parts):
        final = place == len(parts) - 1
        if part == "**":
            expression += "(?:[^/]+/)*" + ("[^/]+" if final else "")
        else:
            expression += _name_expression(part) + ("" if final else "/")
    return re.compile(expression, re.DOTALL)


def _name_expression(part: str) -> str:
    made, at = "", 0
    while at < len(part):
        character = part[at]
        closing = part.find("]", at + 2 + (part[at + 1 : at + 2] == "!")) if character == "[" else -1
        if closing > 0:
            inside = part[at + 1 : closing]
            negated = inside.startswith("!")
            made += f"[{'^/' if negated else ''}{re.escape(inside[negated:]).replace(chr(92) + '-', '-')}]"
            at = closing
        else:
            made += {"*": "[^/]*", "?": "[^/]"}.get(character) or re.escape(character)
        at += 1
    return made


def _parts(path: str) -> tuple[str, ...]:
    if path == "" or "\0" in path or path.startswith("/"):
        raise ValueError(f"{path!r} is no path relative to the workspace")
    parts = PurePosixPath(path).parts
    if ".." in parts:
        raise ValueError(f"{path!r} leaves the workspace")
    return parts


def _bounded(name: str, value: int, least: int, most: int | None) -> None:
    if type(value) is not int or value < least or (most is not None and value > most):
        upper = "" if most is None else f" to {most:,}"
        raise ValueError(f"{name} is an integer from {least}{upper}, not {value!r}")


def _lines(content: bytes) -> list[str]:
    text = content.decode(errors="backslashreplace")
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


_ONLY_RE = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:[=!]|<[=!]|\(|>|#)|\(\?P=|\\[1-9]|\\Z|[*+?}]\+)")


def _linear(pattern: str) -> re.Pattern[str]:
    """The compiled pattern; ValueError for one that is none or that RE2 would not take."""
    found = _ONLY_RE.search(pattern)
    if found:
        raise ValueError(f"{found.group()!r} in the pattern {pattern!r} is not linear-time (RE2)")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
