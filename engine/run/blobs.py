"""Values too large for a journal line: files named by the SHA-256 of their text, durable before the line that names them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cloche_guest import codec

from engine.errors import EngineFailure
from engine.files import (
    NotAFile,
    fsync_directory,
    make_directory,
    read_regular,
    sha256_hex,
    storage,
    write_atomic,
)
from engine.run.journal import JournalDamaged

INLINE_BYTES = 64 * 1024
"""Encoded values longer than this lie in a blob."""

_NAME = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """The folder `blobs/` of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, raw: bytes) -> str:
        """Keep the text of an encoded value, durable; returns its name. What stands there and is another thing is replaced.

        Raises:
            StorageFull, EngineFailure: it could not be written.
        """
        name = sha256_hex(raw)
        path = self._folder / name
        if _holds(path, raw):
            with storage(path):
                fsync_directory(self._folder)  # who wrote it may have died before that
        else:
            make_directory(self._folder)
            write_atomic(path, raw)
        return name

    def take(self, files: Iterable[Path]) -> None:
        """Have these files of another run here too, durable; linked where the file system can, else copied.

        Raises:
            StorageFull, EngineFailure: they could not be written.
        """
        found = list(files)
        if not found:
            return
        make_directory(self._folder)
        for path in found:
            try:
                os.link(path, self._folder / path.name)
            except OSError:
                with storage(path):
                    raw = path.read_bytes()
                write_atomic(self._folder / path.name, raw)
        with storage(self._folder):
            fsync_directory(self._folder)

    def size(self) -> int:
        """Bytes of all values that lie here."""
        try:
            with os.scandir(self._folder) as entries:
                return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        except FileNotFoundError:
            return 0

    def size_of(self, name: str) -> int:
        """Bytes of one value; 0 when it is missing, which `get` tells."""
        try:
            return (self._folder / name).stat().st_size
        except OSError:
            return 0

    def get(self, name: str) -> Any:
        """The encoded value.

        Raises:
            JournalDamaged: the file is missing or holds something else.
        """
        path = self._folder / name
        if not _NAME.fullmatch(name):
            raise JournalDamaged(path, 0, "is no name of a blob")
        try:
            raw = read_regular(path)
        except FileNotFoundError as error:
            raise JournalDamaged(path, 0, "the journal names this blob and it is not there") from error
        except NotAFile as error:
            raise JournalDamaged(path, 0, f"the journal names this blob and {error.strerror}") from error
        except OSError as error:
            raise EngineFailure(
                f"cannot read {path}: {error.strerror}.", fix="Check the path and its rights."
            ) from error
        if sha256_hex(raw) != name:
            raise JournalDamaged(path, 0, "was changed after it was written")
        return json.loads(raw)


def _holds(path: Path, raw: bytes) -> bool:
    try:
        return path.lstat().st_size == len(raw) and read_regular(path) == raw
    except OSError:
        return False


def text_of(encoded: Any) -> bytes:
    """The bytes that a value takes, in a line as in a blob."""
    return codec.text(encoded).encode()
