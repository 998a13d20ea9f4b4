"""Idle cells: started, attested, the guest loaded, waiting for a job. No process keeps them; any process of this home takes one.

An idle cell is a directory below `cells/` like any other, with `idle.json` in it and its lock free (`engine.sandbox.place`).
Whoever takes it holds the lock and removes `idle.json`, in this order, so it is used once, whoever dies in between; it is
destroyed like any cell. What it is good for is its key: image, policy, kind, runtime, bound of the job, owner, home, boot and engine.
One with another key is never handed out, and is ended when the pool is filled. It ends by itself at its time, which its supervisor
keeps.

The pool is bounded by its setting and by memory: the cells that wait could use, all at their limit, at most half of what the
machine has available.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine import log
from engine.errors import EngineFailure, SandboxError
from engine.files import lock, make_directory, sha256_hex
from engine.sandbox import origin, probed, tally, uids
from engine.sandbox.cell import JOB_WAIT_S, Cell, in_thread
from engine.sandbox.launch import Launch, Wish
from engine.sandbox.place import IDLE, Idle, Intent, Place, boot_id, cells_directory, intent_of, owned, read_idle
from engine.sandbox.policy import CellPolicy, Kind

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

PER_JOB: dict[Kind, int] = {"run": 1, "gate": 2}
"""Kinds of cells that may wait, and how many of them one job takes: a gate runs the tests, and again with the entry replaced."""

MARGIN_S = 15.0
"""A cell that ends by itself within this is not handed out any more."""

MEMORY_SHARE = 0.5


@asynccontextmanager
async def borrowed_cell(
    sandbox: Sandbox,
    *,
    image_id: str,
    kind: Kind,
    deadline_s: float,
    generation: int = 1,
    run_id: str = "",
    prepare: Callable[[], Awaitable[object]] | None = None,
) -> AsyncIterator[Cell]:
    """A started, attested cell without a job: one that waited, or else a new one; destroyed like any when the block is left.

    A replacement is made meanwhile, by the sandbox's keeper. `prepare` is called before a new one is started. Raises as it, and as
    `engine.sandbox.cell.open_cell`.
    """
    wishes = partial(
        candidates, sandbox, image_id=image_id, kind=kind, deadline_s=deadline_s, generation=generation, run_id=run_id
    )
    cell = await _taken(sandbox, await in_thread(wishes))
    if cell is None:
        if prepare is not None:
            await prepare()
        policy = await sandbox.fitting_policy(kind, await sandbox.choose_runtime(image_id))
        cell = Cell(sandbox, Launch(sandbox, Wish(image_id, kind, deadline_s, generation, run_id, policy, policy)))
    try:
        if not cell.is_warm:
            await cell.start()
        if sandbox.keeper is not None:
            sandbox.keeper.count(warm=int(cell.is_warm), cold=int(not cell.is_warm))
            sandbox.keeper.refill(cell.wish)
        yield cell
    finally:
        await cell.finish()


def candidates(
    sandbox: Sandbox,
    *,
    image_id: str,
    kind: Kind,
    deadline_s: float,
    generation: int = 0,
    run_id: str = "",
) -> list[Wish]:
    """What a cell that waits could be for such a job, the best first: one for each policy that it may have.

    Which one it is depends on the engine, which is not asked: a cell that waits says what was chosen when it was made.
    """
    chosen = sandbox.known_runtime(image_id)
    policies: list[CellPolicy] = []
    if chosen != "runc":
        gvisor = sandbox.policy(kind, "runsc")
        policies += [gvisor.with_bell(), gvisor]
    if chosen != "runsc":
        policies.append(sandbox.policy(kind, "runc"))
    return [Wish(image_id, kind, deadline_s, generation, run_id, policy, policy) for policy in policies]


async def _taken(sandbox: Sandbox, wishes: list[Wish]) -> Cell | None:
    """An idle cell that is alive; those that are not are left to the reaper, which the keeper calls."""
    while (launch := await in_thread(partial(_first, sandbox, wishes))) is not None:
        cell = Cell(sandbox, launch)
        try:
            await cell.start()
        except (SandboxError, EngineFailure) as error:
            log.warning("pool.dead", cell=cell.cell_id, error=error.code)
            cell.abandon()
            if sandbox.keeper is not None:
                sandbox.keeper.count(dead=1)
                sandbox.keeper.reap()
        except BaseException:
            await cell.finish()
            raise
        else:
            return cell
    return None


def _first(sandbox: Sandbox, wishes: list[Wish]) -> Launch | None:
    return next((launch for wish in wishes if (launch := take(sandbox, wish)) is not None), None)


def key_of(sandbox: Sandbox, wish: Wish) -> str:
    """What an idle cell must have been made for, to be used for this: SHA-256 over everything that makes a difference."""
    parts = (
        wish.image_id,
        wish.policy.digest,
        wish.kind,
        wish.policy.runtime,
        f"{wish.deadline_s:g}",
        f"{os.geteuid()}:{os.getegid()}",
        sandbox.home_id,
        boot_id(),
        sandbox.engine.host,
        sandbox.engine.mark,
    )
    return sha256_hex("\n".join(parts).encode())


def take(sandbox: Sandbox, wish: Wish) -> Launch | None:
    """The oldest idle cell for this wish, owned and used up from here on; None when there is none."""
    if sandbox.settings.warm_cells == 0 or wish.kind not in PER_JOB:
        return None
    key = key_of(sandbox, wish)
    latest = sandbox.clock.now() + timedelta(seconds=MARGIN_S)
    for path in _idle_places(sandbox.settings.home):
        idle = read_idle(path)
        if idle is None or idle.key != key or idle.until < latest:
            continue
        taken = Place.take(path, key=key)
        if taken is None:
            continue
        try:
            return Launch.taken(sandbox, wish, *taken)
        except (SandboxError, EngineFailure) as error:
            log.warning("pool.dead", cell=path.name, error=error.code)
            tally.add(sandbox.settings.home, dead=1)
    return None


def idle_cells(sandbox: Sandbox, wish: Wish) -> list[Idle]:
    """The cells that `take` would find at this moment, the one that has waited longest first."""
    if sandbox.settings.warm_cells == 0 or wish.kind not in PER_JOB:
        return []
    key, latest = key_of(sandbox, wish), sandbox.clock.now() + timedelta(seconds=MARGIN_S)
    found = map(read_idle, _idle_places(sandbox.settings.home))
    return [idle for idle in found if idle is not None and idle.key == key and idle.until >= latest]


def _idle_places(home: Path) -> list[Path]:
    """Directories of cells that wait, the one that has waited longest first."""
    found = []
    for path in cells_directory(home).glob(f"*/{IDLE}"):
        with suppress(OSError):
            found.append((path.stat().st_mtime_ns, path.parent))
    return [path for _, path in sorted(found)]


# filling


async def fill(sandbox: Sandbox, wish: Wish) -> int:
    """Make idle cells for jobs like this one until the pool has its size; how many were made.

    None where the probe has not held with the engine as it is now: jobs do not ask that of a cell that waits.

    Raises:
        SandboxError, EngineFailure: a cell could not be made; nothing is left of it but what `Sandbox.reap` lists.
    """
    idle = replace(wish, generation=0, run_id="", idle_s=sandbox.settings.warm_idle_s + JOB_WAIT_S)
    key = await in_thread(partial(key_of, sandbox, idle))
    await in_thread(partial(end_stale, sandbox, idle.kind, key))
    if not await in_thread(partial(probed.has_held, sandbox, idle.policy.runtime, idle.image_id)):
        return 0
    made = 0
    while True:
        cell = Cell(sandbox, Launch(sandbox, idle))
        try:
            if not await in_thread(partial(_reserve, sandbox, cell, idle)):
                return made
            await cell.start()
            cell.shelve(key)
        except BaseException:
            await cell.finish()
            raise
        made += 1
        tally.add(sandbox.settings.home, made=1)


def _reserve(sandbox: Sandbox, cell: Cell, idle: Wish) -> bool:
    """Write the intent of one more, unless there are enough; one process at a time, so that two do not make one too many."""
    place = make_directory(sandbox.settings.home / "pool")
    with lock(place / "fill.lock"):
        waiting = sum(intent.kind == idle.kind for intent in _waiting(sandbox.settings.home))
        if waiting >= sandbox.settings.warm_cells * PER_JOB[idle.kind] or not _memory_left(sandbox, idle):
            return False
        cell.prepare()
    return True


def _waiting(home: Path) -> list[Intent]:
    """Intents of the cells that wait or are being made to wait.

    The lock is asked first: a cell gets its `idle.json` before that is free.
    """
    found = []
    for path in cells_directory(home).iterdir():
        intent = intent_of(path)
        if intent is not None and intent.idle_until is not None and (owned(path) or (path / IDLE).exists()):
            found.append(intent)
    return found


def _memory_left(sandbox: Sandbox, idle: Wish) -> bool:
    waiting = len(_waiting(sandbox.settings.home))
    return (waiting + 1) * idle.policy.memory <= MEMORY_SHARE * available_memory()


def available_memory() -> int:
    """Bytes that the machine could give without swapping (`MemAvailable`)."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def end_stale(sandbox: Sandbox, kind: Kind, key: str) -> int:
    """End the idle cells of one kind that no wish like the current one will ever take; how many."""
    ended = 0
    for path in _idle_places(sandbox.settings.home):
        idle, intent = read_idle(path), intent_of(path)
        if idle is None or intent is None or intent.kind != kind or idle.key == key:
            continue
        ended += end_idle(sandbox, path, idle.key)
    if ended:
        tally.add(sandbox.settings.home, stale=ended)
    return ended


def end_idle(sandbox: Sandbox, path: Path, key: str) -> bool:
    """End one idle cell and prove it gone; False when somebody took it, or the engine did not let go of it (the reaper has it then)."""
    taken = Place.take(path, key=key)
    if taken is None:
        return False
    place, idle = taken
    try:
        sandbox.engine.destroy(idle.container_id)
        origin.end(sandbox, path, place.intent, idle.container_id)
        uids.clear(place.intent.uid, place.intent.cell)
    except SandboxError as error:
        log.warning("cell.left_behind", cell=path.name, error=error.code)
        place.leave()
        return False
    place.remove()
    return True
