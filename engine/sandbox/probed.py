"""Before the first job: the probe must have held with this engine, kernel, runtime, image and policy.

What passed is kept in the home, by those five; a change of any of them asks again. What did not hold is not kept: no job is
done, and the next command asks again. An attempt whose control did not get through either was stopped in the cell by what must
stop it, on a machine where it leads nowhere: that refuses no job, is said in the log, and fails `cloche sandbox probe`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from engine import log
from engine.errors import SandboxUnavailable
from engine.files import Locked, lock, make_directory, write_atomic

if TYPE_CHECKING:
    from engine.sandbox.policy import Runtime
    from engine.sandbox.probe_report import ProbeReport
    from engine.sandbox.service import Sandbox

PASSED = "probed.json"
KEPT = 32
"""Keys kept, the last ones; each is a hundred bytes or two."""

STEP_S = 0.1


class ProbeNotHeld(SandboxUnavailable):
    """An attempt of the probe got through, or was stopped by something else than what must stop it; no job is done there."""

    code = "probe_not_held"


async def probe_first(
    sandbox: Sandbox, *, image_id: str, progress: Callable[[str], None] | None = None
) -> ProbeReport | None:
    """Probe unless it held before; the report when it was made now. Another process that probes the same home is waited for.

    Raises:
        ProbeNotHeld: a cell of this kind does not hold. SandboxError: the probe could not be carried out.
    """
    runtime = await sandbox.choose_runtime(image_id)
    key = await to_thread.run_sync(key_of, sandbox, runtime, image_id)
    home = make_directory(sandbox.settings.home)
    while key not in passed(home):
        with ExitStack() as alone:
            try:
                alone.enter_context(lock(home / ".probe.lock", wait=False))
            except Locked:
                await anyio.sleep(STEP_S)
                continue
            return await _probe_now(sandbox, key, runtime=runtime, image_id=image_id, progress=progress)
    return None


async def _probe_now(
    sandbox: Sandbox, key: str, *, runtime: Runtime, image_id: str, progress: Callable[[str], None] | None
) -> ProbeReport | None:
    from engine.sandbox.probes import probe  # most commands find that it held

    if key in passed(sandbox.settings.home):  # by another process, between the look and the lock
        return None
    if progress:
        progress("Before the first job with this engine, image and policy, a cell is attacked: a few seconds, once.")
    report = await probe(sandbox, image_id=image_id, runtime=runtime)
    refuse(report)
    if unproven := report.of("unproven"):
        log.warning("probe.unproven", attempts=[row.name for row in unproven])
    remember(sandbox.settings.home, key)
    return report


def refuse(report: ProbeReport) -> None:
    """Raises ProbeNotHeld, naming the attempts, when one got through or was stopped by something else than it must be."""
    told = [f"{row.name} got through ({row.cell})" for row in report.of("through")]
    told += [f"{row.name} was stopped by {row.cell}, not by {row.expect}" for row in report.of("unexpected")]
    if told:
        more = f"; and {len(told) - 5} more" if len(told) > 5 else ""
        raise ProbeNotHeld(
            f"a cell under {report.runtime} does not hold: {'; '.join(told[:5])}{more}.",
            fix="No job was done. `cloche sandbox probe` shows every attempt; correct the engine or its host, or use "
            "another runtime (CLOCHE_RUNTIME).",
        )


def key_of(sandbox: Sandbox, runtime: Runtime, image_id: str) -> str:
    """What a passed probe stands for."""
    version = sandbox.engine.version()
    policy = sandbox.policy("probe", runtime).digest
    return " ".join((runtime, version.version, version.kernel, sandbox.engine.host, image_id, policy))


def has_held(sandbox: Sandbox, runtime: Runtime, image_id: str) -> bool:
    """True when jobs may be done with such cells without another probe."""
    return key_of(sandbox, runtime, image_id) in passed(sandbox.settings.home)


def passed(home: Path) -> tuple[str, ...]:
    """The keys under which the probe held, oldest first. What cannot be read did not pass."""
    try:
        kept = json.loads((home / PASSED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    return tuple(key for key in kept if isinstance(key, str)) if isinstance(kept, list) else ()


def remember(home: Path, key: str) -> None:
    """Keep that it held."""
    kept = [*(one for one in passed(home) if one != key), key][-KEPT:]
    write_atomic(make_directory(home) / PASSED, json.dumps(kept, indent=1).encode(), durable=False)
