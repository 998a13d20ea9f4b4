"""Recorded draws: the time, a random number, an identifier. One record each."""

from __future__ import annotations

from dataclasses import dataclass

from engine.clock import Clock
from engine.ids import new_seed
from engine.run.calls import CallRequest, CallResult, Effects, Kind


@dataclass(frozen=True)
class NowHandler:
    """Aware UTC time of the host, to the microsecond."""

    clock: Clock
    counted: bool = False
    kind: Kind = ""
    instant: bool = True
    effects: Effects = Effects.NONE
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        return CallResult(self.clock.now(), {})


@dataclass(frozen=True)
class RandomHandler:
    """A float in [0, 1) with 53 random bits."""

    counted: bool = False
    kind: Kind = ""
    instant: bool = True
    effects: Effects = Effects.NONE
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        return CallResult((int.from_bytes(new_seed()[:8]) >> 11) / 2**53, {})


@dataclass(frozen=True)
class NewIdHandler:
    """128 random bits, 32 hex digits."""

    counted: bool = False
    kind: Kind = ""
    instant: bool = True
    effects: Effects = Effects.NONE
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        return CallResult(new_seed().hex(), {})
