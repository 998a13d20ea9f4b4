"""Target: the host's reading of what a cell says, line by line, as if the supervisor had been taken over."""

from __future__ import annotations

from engine.errors import ExchangeError
from engine.jsontext import compact
from engine.sandbox.frames import Call
from engine.sandbox.incoming import Incoming
from tests.fuzz.conversation import GENERATION, LIMITS, Accepted, mutate, of_cell
from tests.fuzz.target import Target, expect

UNRECORDED = ("encoded", "args", "data", "attestation", "error")
"""Fields that are bytes, or that are stored as another text than a line of the journal."""

SENT = 10
"""Frames that the host is taken to have sent; the golden conversation acknowledges so many."""


def check(data: bytes) -> None:
    """A conversation is refused by name, or what was accepted of it is what the protocol allows."""
    incoming, accepted = Incoming(LIMITS, generation=GENERATION), Accepted()
    incoming.sent = SENT
    for line in data.split(b"\n"):
        try:
            frame = incoming.take(line)
        except ExchangeError as error:
            expect(len(str(error)) < 1000, "a refusal quotes too much")
            str(error).encode("utf-8", "backslashreplace")
            return
        if frame is not None:
            accepted.frame(frame)
            compact({name: value for name, value in vars(frame).items() if name not in UNRECORDED})
        if isinstance(frame, Call) and frame.number % 2:
            incoming.answered(frame.number, ahead=False)


TARGET = Target("exchange", of_cell, check, mutate)
