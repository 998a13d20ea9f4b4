"""Target: the files of the exchange, written by an enemy that truncates, punches, extends and rewrites while the host reads."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from random import Random

from cloche_guest.wire import FRAME_BYTES, SEGMENT_BYTES, SEGMENT_FILES

from engine.errors import ExchangeError
from engine.sandbox.segments import CHUNK_BYTES, SegmentReader, outgoing_paths
from tests.fuzz.mutation import mutated_bytes
from tests.fuzz.target import Target, expect, scratch

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_LIBC = ctypes.CDLL(None, use_errno=True)
_SIZES = (
    0,
    1,
    7,
    100,
    4096,
    CHUNK_BYTES,
    FRAME_BYTES - 1,
    FRAME_BYTES,
    FRAME_BYTES + 1,
    SEGMENT_BYTES,
    SEGMENT_BYTES + 1,
    1 << 40,
)


class Enemy:
    """Writes `out/` by name, in every way that a cell can, and remembers what an honest reader would have to see."""

    def __init__(self, outbox: Path) -> None:
        self._files = outgoing_paths(outbox)
        self.left = self.turns = 0
        self.written = bytearray()
        self.honest = True

    @property
    def _path(self) -> Path:
        """The file that it writes: never one that the host has left."""
        self.left = max(self.left, self.turns)
        return self._files[self.left % len(self._files)]

    def append(self, data: bytes) -> None:
        with self._path.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            file.write(data)
        self.written += data

    def truncate(self, size: int) -> None:
        """Shorter, or longer with nothing in it; sizes past the bound included."""
        self.honest = False
        os.truncate(self._path, size)

    def rewrite(self, at: int, data: bytes) -> None:
        self.honest = False
        with self._path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    def punch(self, at: int, size: int) -> None:
        self.honest = False
        self._allocate(_PUNCH_HOLE | _KEEP_SIZE, at, max(1, size))

    def reserve(self, size: int) -> None:
        """Disk space behind the end, which the size does not show."""
        self.honest = False
        self._allocate(_KEEP_SIZE, 0, min(max(1, size), 32 * 1024 * 1024))

    def _allocate(self, mode: int, at: int, size: int) -> None:
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            _LIBC.fallocate(descriptor, mode, ctypes.c_long(at), ctypes.c_long(size))
        finally:
            os.close(descriptor)

    def leave(self) -> None:
        """Go on in the next file once it is empty; until then a cell waits."""
        following = self._files[(self.left + 1) % len(self._files)]
        if self.left == self.turns and not following.stat().st_size:
            self.left += 1


class Host:
    """The reader under test, with what must hold after every step."""

    def __init__(self, directory: Path, enemy: Enemy) -> None:
        self.reader = SegmentReader(directory, group=os.getegid())
        self._directory = directory
        self._enemy = enemy
        self.seen = bytearray()
        self.refused = ""

    def read(self, most: int = 10_000) -> None:
        """Lines until there are none, or the name of what is wrong."""
        try:
            while most and (line := self.reader.line()) is not None:
                most -= 1
                expect(len(line) <= FRAME_BYTES + CHUNK_BYTES and b"\n" not in line, "a line that is none")
                self.seen += line + b"\n"
        except ExchangeError as error:
            self.refused = error.code
        self.check()

    def rotate(self) -> None:
        try:
            self.reader.rotate()
            self._enemy.turns += 1
        except ExchangeError as error:
            self.refused = error.code
        self.check()

    def check(self) -> None:
        """Bounded memory and files; an honest writer is read byte for byte."""
        expect(len(self.reader._buffer) <= FRAME_BYTES + CHUNK_BYTES, "more kept than a frame and a chunk")
        expect(len(list(self._directory.iterdir())) == SEGMENT_FILES, "a file came or went")
        if self._enemy.honest:
            expect(self._enemy.written.startswith(self.seen), "an honest writer is misread")


def check(data: bytes) -> None:
    """Two bytes to a step: what is done, and with how much. A refusal has a name, and nothing is ever read past a bound."""
    with scratch() as directory:
        enemy = Enemy(directory)
        host = Host(directory, enemy)
        try:
            _play(data[:120], enemy, host)
        finally:
            host.reader.close()


def _play(data: bytes, enemy: Enemy, host: Host) -> None:
    for step, amount in zip(data[::2], data[1::2], strict=False):
        size = _SIZES[amount % len(_SIZES)]
        match step % 10:
            case 0 | 1:
                enemy.append(b'{"v":1}\n' * (amount % 40))
            case 2:
                enemy.append(b"x" * min(size, FRAME_BYTES + 1))
            case 3:
                enemy.truncate(size)
            case 4:
                enemy.rewrite(amount, b"\n" * (amount % 9))
            case 5:
                enemy.punch(amount, size)
            case 6:
                enemy.reserve(size)
            case 7:
                enemy.leave()
            case 8:
                host.read(1 + amount)
            case _:
                host.read()
                if not host.refused:
                    host.rotate()
        if host.refused:
            return


def seeds() -> list[bytes]:
    """An honest conversation over three segments, and each attack in the middle of one."""
    honest = bytes([0, 3, 9, 0, 7, 0, 0, 5, 9, 0, 7, 0, 0, 1, 8, 0])
    return [
        honest,
        *(honest[:4] + bytes([step, amount, 8, 200]) for step in range(2, 7) for amount in range(len(_SIZES))),
    ]


def mutate(data: bytes, rng: Random) -> bytes:
    return mutated_bytes(data, rng)


TARGET = Target("segments", seeds, check, mutate)
