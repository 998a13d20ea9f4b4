"""What is there and what is missing, found by trying: every finding comes from an attempt, never from a list of features."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from typing import Any

from anyio import to_thread

from engine import proc
from engine.errors import ClocheError, SandboxError
from engine.images import Images
from engine.sandbox.engine_errors import RuntimeMissing
from engine.sandbox.service import Sandbox
from engine.settings import Settings, tool_environment

MIB = 1024 * 1024
FREE_BYTES = 512 * MIB


@dataclass(frozen=True)
class Finding:
    """One thing that was tried. `state`: ok, missing (needed), absent (optional). `fix` says what to do."""

    name: str
    state: str
    detail: str
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The public JSON form."""
        return asdict(self)


async def examine(settings: Settings, sandbox: Sandbox, images: Images) -> list[Finding]:
    """Findings in the order in which they build on each other; those after a missing one may be left out."""
    found = [_python(), _git(), _home(settings)]
    engine = await to_thread.run_sync(_engine, sandbox)
    found.append(engine)
    found.append(await _image(images, engine_answers=engine.state == "ok"))
    if any(finding.state == "missing" for finding in found):
        return found
    image_id = images.current().image_id
    return found + [await runtime_finding(sandbox, name, image_id) for name in ("runc", "runsc")]


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("python", "ok", version)


def _git() -> Finding:
    try:
        done = proc.run(["git", "--version"], env=tool_environment(), timeout_s=10)
    except proc.ProcessFailed as error:
        return Finding("git", "missing", error.message, "Install git (apt-get install git).")
    return Finding("git", "ok", done.stdout.decode("utf-8", "replace").strip().removeprefix("git version "))


def _home(settings: Settings) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=settings.home) as file:
            file.write(b"x")
        free = shutil.disk_usage(settings.home).free
    except OSError as error:
        return Finding(
            "home", "missing", f"{settings.home}: {error.strerror}", "Set CLOCHE_HOME to a writable directory."
        )
    if free < FREE_BYTES:
        return Finding("home", "missing", f"{settings.home}: {free // MIB} MiB free", "Free at least 512 MiB.")
    return Finding("home", "ok", f"{settings.home} ({free // MIB} MiB free)")


def _engine(sandbox: Sandbox) -> Finding:
    try:
        version = sandbox.engine.version()
        runtimes = ", ".join(sorted(sandbox.engine.runtimes()))
    except SandboxError as error:
        return Finding("engine", "missing", error.message, error.fix)
    return Finding("engine", "ok", f"{version.version}, runtimes {runtimes}")


async def _image(images: Images, *, engine_answers: bool) -> Finding:
    try:
        image = images.current()
        if not engine_answers:
            return Finding("image", "ok", f"{image.image_id[:19]} (not loaded: no engine)")
        await images.load(image)
    except ClocheError as error:
        return Finding("image", "missing", error.message, error.fix)
    locked = "locked" if image.locked else "unlocked: current versions of the mirror"
    return Finding("image", "ok", f"{image.image_id[:19]} ({locked})")


async def runtime_finding(sandbox: Sandbox, name: Any, image_id: str) -> Finding:
    """What a trial cell of this runtime came to."""
    trial = await sandbox.trial(name, image_id)
    if trial.passed:
        assert trial.end is not None
        return Finding(name, "ok", f"a trial cell started, attested and ended in {trial.end.accounting.start_s:.2f} s")
    fix = trial.fix or "Run `cloche sandbox probe`."
    if name != "runsc" or sandbox.settings.runtime == "runsc":
        return Finding(name, "missing", trial.message, fix)
    if trial.code == RuntimeMissing.code or sandbox.settings.runtime == "runc":
        return Finding(name, "absent", trial.message)
    return Finding(name, "absent", f"its trial cell failed, so `auto` takes runc: {trial.message}", fix)
