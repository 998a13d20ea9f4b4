"""Target: the supervisor's reading of a worker's channel, and the host's reading of what the supervisor passes on.

Untrusted code writes the channel. What the supervisor accepts there the host must accept too, or a program could end its cell
as a failure of the sandbox instead of as its own.
"""

from __future__ import annotations

from cloche_guest import wire
from cloche_guest.channel import TOO_MANY, Channel
from cloche_guest.link import Writer

from engine.sandbox.exchange import HostLink
from engine.sandbox.violations import VIOLATIONS
from tests.fuzz.conversation import FIRST, GENERATION, LIMITS, Accepted, lines, mutate_worker, of_worker
from tests.fuzz.target import Target, expect, one_life, scratch


def check(data: bytes) -> None:
    """Messages are refused by name, and the host takes every one that was not."""
    with scratch() as directory:
        link = HostLink(directory, limits=LIMITS, generation=GENERATION)
        try:
            with one_life(Writer(str(link.outbox))) as writer:
                _converse(data, link, writer)
        finally:
            link.close()


def _converse(data: bytes, link: HostLink, writer: Writer) -> None:
    channel = Channel(message_bytes=LIMITS.message_bytes, messages=LIMITS.messages, value_bytes=LIMITS.value_bytes)
    accepted = Accepted()
    writer.generation = GENERATION
    for frame in FIRST:
        writer.send(**{("kind" if name == "t" else name): value for name, value in frame.items()})
    step = max(1, len(data) // 3)
    for start in range(0, len(data), step):
        channel.feed(data[start : start + step])
        if not _pass_on(channel, writer):
            break
        while (got := link.poll()) is not None:  # an ExchangeError here is a finding
            accepted.frame(got)
    expect(channel.calls <= LIMITS.messages, "more calls than messages")


def _pass_on(channel: Channel, writer: Writer) -> bool:
    """As the supervisor does; False once something was refused."""
    try:
        while (frame := channel.next()) is not None:
            if channel.line.startswith(b'{"t":"'):
                writer.pass_on(channel.line)
            else:
                writer.send(frame["t"], **{name: value for name, value in frame.items() if name != "t"})
    except wire.WireError as error:
        expect(error.code in VIOLATIONS or error.code == TOO_MANY, f"{error.code} is none of the names")
        return False
    return True


TARGET = Target("channel", lambda: [lines(said) for said in of_worker()], check, mutate_worker)
