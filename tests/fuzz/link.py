"""Target: the supervisor's reading of the host's segments."""

from __future__ import annotations

from pathlib import Path

from cloche_guest import wire
from cloche_guest.link import HostBroke, Reader, segment

from tests.fuzz.conversation import mutate, of_host
from tests.fuzz.target import Target, expect, one_life, scratch


def check(data: bytes) -> None:
    """Frames come in order, or HostBroke names what is wrong."""
    with scratch() as directory:
        first, _, second = data.partition(b'"t":"rotate"}\n')
        Path(segment(str(directory), 1)).write_bytes(first + (b'"t":"rotate"}\n' if second else b""))
        Path(segment(str(directory), 2)).write_bytes(second)
        with one_life(Reader(str(directory))) as reader:
            _read(reader)


def _read(reader: Reader) -> None:
    taken = 0
    try:
        while (frame := reader.next()) is not None:
            taken += 1
            expect(frame["q"] == taken == reader.received and frame["v"] == 1, "sequence")
            expect(frame["t"] in wire.HOST_FRAMES and wire.parse(frame.line) == frame, "a frame of no type")
    except HostBroke as error:
        expect(str(error).startswith(("frame.", "part.")), "a refusal without a name")


TARGET = Target("link", of_host, check, mutate)
