"""What a cell puts out, kept with the run: stdout and stderr in logs/, files in output/.

Paths come from a cell and are walked name by name from a directory descriptor, never following a link.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from engine.errors import EngineFailure
from engine.files import make_directory, sha256_hex, storage, write_all
from engine.points import reached
from engine.run.events import Artifact, Output
from engine.sandbox.frames import Artifact as ArtifactFrame
from engine.sandbox.frames import Output as OutputFrame

GAPS = 100
"""Gaps of a stream that are marked."""


@dataclass
class _Stream:
    """One log file of this generation. `end` is the offset behind the last byte that came, `cut` what never came."""

    descriptor: int
    end: int = 0
    cut: int = 0
    kept: int = 0
    gaps: int = 0
    full: bool = False


@dataclass
class Kept:
    """The output of one generation; `close` when it is over.

    A stream longer than `limit_bytes` is kept to that length. Every gap is marked by a line of its own that says how many bytes
    are missing, the first 100 of them: our supervisor leaves one. Later generations are appended behind a line with their number,
    unless what stands there is longer than `limit_bytes` already: then they begin the log anew. A program that waits often has as
    many generations as it likes, and each prints everything again.
    """

    folder: Path
    generation: int
    limit_bytes: int
    files: list[Artifact] = field(default_factory=list)
    _streams: dict[str, _Stream] = field(default_factory=dict)

    def output(self, frame: OutputFrame) -> None:
        """Append what came of a stream.

        Raises:
            StorageFull, EngineFailure: it could not be written.
        """
        stream = self._streams.get(frame.stream) or self._open(frame.stream)
        path = self._path(frame.stream)
        with storage(path):
            if frame.offset > stream.end:
                self._mark(stream, frame.offset - stream.end)
            data = frame.data[max(0, stream.end - frame.offset) :]
            stream.end = max(stream.end, frame.offset + len(frame.data))
            taken = data[: max(0, self.limit_bytes - stream.kept)]
            write_all(stream.descriptor, taken)
            if len(taken) < len(data) and not stream.full:
                write_all(stream.descriptor, b"\n[cloche: the rest was not kept]\n")
                stream.full = True
            stream.kept += len(taken)
            stream.cut += len(data) - len(taken)
        reached("log.written")

    def artifact(self, frame: ArtifactFrame) -> None:
        """Keep a file; what an earlier generation left at its path, or in its way, is replaced.

        Raises:
            StorageFull, EngineFailure: it could not be written; also when its path leads through a link.
        """
        parts = PurePosixPath(frame.path).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise EngineFailure(f"an output file has the path {frame.path!r}, which leaves its folder.")
        with storage(self.folder / "output" / frame.path), _directory(self.folder / "output", parts[:-1]) as parent:
            # not beside its place: what a crash leaves of it is nobody's output file
            aside = self.folder / f".output.{secrets.token_hex(6)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(aside, flags, 0o600)
            try:
                write_all(descriptor, frame.data)
                os.fsync(descriptor)
                reached("output.written")
                if _is(stat.S_ISDIR, parts[-1], parent):
                    shutil.rmtree(parts[-1], dir_fd=parent)
                os.rename(aside, parts[-1], dst_dir_fd=parent)
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
            finally:
                os.close(descriptor)
        reached("output.kept")
        self.files.append(Artifact(path=frame.path, size=len(frame.data), sha256=sha256_hex(frame.data)))

    def close(self) -> list[Output | Artifact]:
        """Close the logs; returns the events that say what was kept."""
        events: list[Output | Artifact] = []
        for name, stream in self._streams.items():
            os.close(stream.descriptor)
            events.append(Output.model_validate({"stream": name, "size": stream.end, "cut": stream.cut}))
        self._streams.clear()
        events += self.files
        return events

    def _mark(self, stream: _Stream, missing: int) -> None:
        if stream.gaps < GAPS:
            write_all(stream.descriptor, f"\n[cloche: {missing} bytes were not kept]\n".encode())
        stream.gaps += 1
        stream.end += missing
        stream.cut += missing

    def _open(self, name: str) -> _Stream:
        path = self._path(name)
        make_directory(path.parent)
        with storage(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
            if self.generation > 1:
                write_all(descriptor, self._heading(descriptor))
        self._streams[name] = _Stream(descriptor)
        return self._streams[name]

    def _heading(self, descriptor: int) -> bytes:
        if os.fstat(descriptor).st_size <= self.limit_bytes:
            return f"[cloche: generation {self.generation}]\n".encode()
        os.ftruncate(descriptor, 0)
        return f"[cloche: generation {self.generation}; earlier ones were not kept]\n".encode()

    def _path(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"


@contextmanager
def _directory(top: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of the folder `parts` below `top`, made where it is missing or a file; no name on the way is a link."""
    make_directory(top)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    current = os.open(top, flags)
    try:
        for part in parts:
            if _is(stat.S_ISREG, part, current):
                os.unlink(part, dir_fd=current)
            try:
                os.mkdir(part, 0o700, dir_fd=current)
            except FileExistsError:
                pass
            inner = os.open(part, flags, dir_fd=current)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def _is(kind: Callable[[int], bool], name: str, at: int) -> bool:
    try:
        return kind(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
