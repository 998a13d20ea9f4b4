"""The sandbox of one home on one engine: what cells are opened from, and the choice of their runtime.

`auto` prefers gVisor, and believes neither the engine's list of runtimes nor a version: a runtime is used after a trial cell
of it started, attested and ended. The answer is kept per engine version, program and arguments of the runtime, image and policy: a
yes for as long as all of them stay, a no for an hour or until `cloche doctor` has seen the runtime pass.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from engine import log
from engine.clock import Clock, SystemClock
from engine.errors import EngineFailure, SandboxError
from engine.files import lock, make_directory, sha256_hex, storage, write_atomic
from engine.ids import new_home_id
from engine.sandbox import reaper
from engine.sandbox.cell import open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import RuntimeMissing
from engine.sandbox.outcome import CellEnd
from engine.sandbox.policy import CellPolicy, Kind, Runtime
from engine.sandbox.reaper import ListedCell, Reaped
from engine.settings import Settings

if TYPE_CHECKING:
    from engine.sandbox.keeper import Keeper

CARRIES_FIFOS = "--host-fifo=open"
"""The argument with which gVisor must be registered, so that the host can wake a cell."""

TRIAL_DEADLINE_S = 30.0
TRIALS = "trials.json"
RETRY_S = 3600.0


@dataclass(frozen=True)
class TrialResult:
    """A trial cell of one runtime: `passed`, or the code and sentence of what went wrong and what to do."""

    runtime: Runtime
    passed: bool
    code: str = ""
    message: str = ""
    fix: str = ""
    end: CellEnd | None = None


@dataclass(frozen=True)
class Tried:
    """A trial's outcome and when it was, in Unix time."""

    passed: bool
    at: float


@lru_cache(maxsize=16)
def _policy(settings: Settings, runtime: Runtime, kind: Kind) -> CellPolicy:
    return CellPolicy.from_settings(settings, runtime, kind)  # one for all cells alike, with one digest


@dataclass
class Sandbox:
    """Settings, clock and engine, composed. Open cells with `engine.sandbox.cell.open_cell`.

    `origins`: engines by address and start, as `engine.sandbox.origin` knows them.
    """

    settings: Settings
    clock: Clock
    engine: Engine
    pid: int = field(default_factory=os.getpid)
    _home_id: str = ""
    keeper: Keeper | None = None
    origins: dict[str, str] = field(default_factory=dict)
    _trials: dict[str, Tried] = field(default_factory=dict)
    _chosen: dict[str, Runtime] = field(default_factory=dict)

    @classmethod
    def from_settings(cls, settings: Settings, clock: Clock | None = None) -> Sandbox:
        """On the engine that the settings name; nothing is asked of it yet. Without `keep`, cells are gone before their end is told."""
        engine = Engine(settings.docker_host, timeout_s=settings.engine_timeout_s)
        return cls(settings, clock or SystemClock(), engine)

    def keep(self, *, handing_over: bool = False) -> None:
        """From now on used cells are removed and idle ones made in the background, unless the settings want no warm cells."""
        from engine.sandbox.keeper import Keeper

        if self.settings.warm_cells and self.keeper is None:
            self.keeper = Keeper(self, handing_over=handing_over)

    def close(self) -> None:
        """Finish or hand over what is done in the background; close the connection to the engine."""
        try:
            if self.keeper is not None:
                self.keeper.close()
        finally:
            self.engine.close()

    @property
    def home_id(self) -> str:
        """Names this home in the labels of its containers; drawn once and kept in `$CLOCHE_HOME/home-id`."""
        if not self._home_id:
            self._home_id = home_id(self.settings.home)
        return self._home_id

    def policy(self, kind: Kind, runtime: Runtime = "runc") -> CellPolicy:
        """The full policy for one kind of cell."""
        return _policy(self.settings, runtime, kind)

    async def fitting_policy(self, kind: Kind, runtime: Runtime) -> CellPolicy:
        """The full policy, with what this engine's runtime can carry: the bell under gVisor only where it opens FIFOs of the host.

        Raises:
            SandboxUnavailable, EngineTimeout: the engine does not answer.
        """
        policy = self.policy(kind, runtime)
        if runtime == "runc":
            return policy
        described = (await anyio.to_thread.run_sync(self.engine.runtimes)).get(runtime, "")
        return policy.with_bell() if CARRIES_FIFOS in described else policy

    def known_runtime(self, image_id: str) -> Runtime | None:
        """The runtime of cells, where it is known without asking the engine."""
        return self._chosen.get(image_id) if self.settings.runtime == "auto" else self.settings.runtime

    async def choose_runtime(self, image_id: str) -> Runtime:
        """The runtime of cells: as set, or with `auto` gVisor where the engine has it and a trial cell passed, else runc.

        Raises:
            SandboxUnavailable, EngineTimeout: the engine does not answer.
        """
        if self.settings.runtime != "auto":
            return self.settings.runtime
        if image_id not in self._chosen:
            self._chosen[image_id] = "runsc" if await self._passes("runsc", image_id) else "runc"
        return self._chosen[image_id]

    async def trial(self, runtime: Runtime, image_id: str) -> TrialResult:
        """Start a cell of this runtime, let it attest, run nothing, end it; `auto` goes by the result from then on."""
        key = await anyio.to_thread.run_sync(self._trial_key, runtime, image_id)
        if not key:
            missing = RuntimeMissing(f"the engine has no runtime {runtime}.", fix=f"Install {runtime}, or use runc.")
            return TrialResult(runtime, False, missing.code, missing.message, missing.fix)
        result = await self._try(runtime, image_id)
        self._chosen.pop(image_id, None)
        if not result.passed:
            log.warning("runtime.trial_failed", runtime=runtime, error=result.code, message=result.message)
        self._trials[key] = Tried(result.passed, self.clock.now().timestamp())
        _write_trials(self.settings.home, {**_read_trials(self.settings.home), **self._trials})
        return result

    async def _try(self, runtime: Runtime, image_id: str) -> TrialResult:
        try:
            async with open_cell(
                self, image_id=image_id, kind="trial", deadline_s=TRIAL_DEADLINE_S, runtime=runtime
            ) as cell:
                end = await cell.finish()
        except SandboxError as error:
            return TrialResult(runtime, False, error.code, error.message, error.fix)
        return TrialResult(runtime, not end.left_behind, end=end)

    async def _passes(self, runtime: Runtime, image_id: str) -> bool:
        key = await anyio.to_thread.run_sync(self._trial_key, runtime, image_id)
        if key and key not in self._trials:
            self._trials.update(_read_trials(self.settings.home))
        known = self._trials.get(key)
        if known and (known.passed or self.clock.now().timestamp() - known.at < RETRY_S):
            return known.passed
        return bool(key) and (await self.trial(runtime, image_id)).passed

    def _trial_key(self, runtime: Runtime, image_id: str) -> str:
        """What a trial's result holds for; "" where the engine has no such runtime."""
        described = self.engine.runtimes().get(runtime)
        if described is None:
            return ""
        program = sha256_hex(described.encode())[:16]
        return " ".join(
            (runtime, program, self.engine.version().version, image_id, self.policy("trial", runtime).digest)
        )

    def reap(self, *, idle: bool = False, everywhere: bool = False) -> list[Reaped]:
        """See `engine.sandbox.reaper.reap`."""
        return reaper.reap(self, idle=idle, everywhere=everywhere)

    def end_unlisted(self, cell_id: str) -> bool:
        """See `engine.sandbox.reaper.end_unlisted`."""
        return reaper.end_unlisted(self, cell_id)

    def list_cells(self) -> list[ListedCell]:
        """See `engine.sandbox.reaper.list_cells`."""
        return reaper.list_cells(self)


def home_id(home: Path) -> str:
    """32 hex digits that name this home for ever.

    Raises:
        EngineFailure: the file holds something else.
    """
    make_directory(home)
    path = home / "home-id"
    with lock(home / ".home-id.lock"):
        if not path.exists():
            write_atomic(path, f"{new_home_id()}\n".encode())
        with storage(path):
            text = path.read_text(encoding="utf-8").strip()
    if len(text) != 32 or not set(text) <= set("0123456789abcdef"):
        raise EngineFailure(f"{path} does not hold a home id.", fix="Remove it when no cell of this home is left.")
    return text


def _read_trials(home: Path) -> dict[str, Tried]:
    try:
        kept = json.loads((home / TRIALS).read_text(encoding="utf-8"))
        return {key: Tried(bool(told["passed"]), float(told["at"])) for key, told in kept.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _write_trials(home: Path, trials: dict[str, Tried]) -> None:
    text = json.dumps({key: asdict(told) for key, told in trials.items()}, indent=1, sort_keys=True)
    write_atomic(home / TRIALS, text.encode(), durable=False)
