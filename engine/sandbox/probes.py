"""The probe: attempts to get out of a real cell, each with a positive control in a container without protection.

"Blocked" means something only when the same attempt, with the same program, gets through where nothing protects. The
attempts are files under `sandbox_images/probes`: read here as text for what they say of themselves, run only inside containers.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from anyio import to_thread

from engine import ids
from engine.errors import SandboxError
from engine.files import make_directory, storage
from engine.sandbox.cell import open_cell
from engine.sandbox.frames import CaseResult, End
from engine.sandbox.jobs import ProbeJob
from engine.sandbox.labels import labels_of
from engine.sandbox.place import Intent, Place, boot_id, container_name
from engine.sandbox.policy import ENTRYPOINT, CellPolicy, Runtime

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

DEADLINE_S = 120.0
ATTEMPT_S = 20.0
OUTPUT_BYTES = 16 * 1024

CONTROL_CAPABILITIES = ("SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN", "NET_RAW")
"""Beside an engine's usual ones. Not `privileged`: where the engine itself lacks a capability, that cannot start."""

Verdict = Literal["blocked", "through", "unproven"]


class ProbeFailed(SandboxError):
    """The probe could not be carried out; nothing is known of the sandbox."""

    code = "probe_failed"


@dataclass(frozen=True)
class Attempt:
    """One attempt as its file describes it."""

    name: str
    tries: str
    expect: str
    why: str
    source: bytes


@dataclass(frozen=True)
class ProbeRow:
    """What became of one attempt in the cell and in the unprotected container.

    `verdict`: blocked (stopped in the cell, through in the control), through, or unproven (the control was stopped as
    well, so that nothing follows).
    """

    attempt: Attempt
    cell: str
    control: str
    verdict: Verdict

    def to_dict(self) -> dict[str, str]:
        """The public JSON form."""
        return {
            "name": self.attempt.name,
            "tries": self.attempt.tries,
            "expect": self.attempt.expect,
            "why": self.attempt.why,
            "cell": self.cell,
            "control": self.control,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class ProbeReport:
    """All rows, ordered by name. `held`: every attempt was blocked, and every control got through."""

    runtime: str
    image_id: str
    policy_digest: str
    rows: tuple[ProbeRow, ...]

    @property
    def held(self) -> bool:
        return bool(self.rows) and all(row.verdict == "blocked" for row in self.rows)


def attempts() -> tuple[Attempt, ...]:
    """The attempts of this version, by name."""
    folder = resources.files("sandbox_images.probes")
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".py")), key=lambda item: item.name)
    return tuple(_described(item.name.removesuffix(".py"), item.read_bytes()) for item in files if item.name[0] != "_")


def _described(name: str, source: bytes) -> Attempt:
    tree = ast.parse(source)
    said = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("EXPECT", "WHY")
    }
    return Attempt(name, ast.get_docstring(tree) or "", said["EXPECT"], said["WHY"], source)


async def probe(
    sandbox: Sandbox,
    *,
    image_id: str,
    runtime: Runtime | None = None,
    policy: CellPolicy | None = None,
    claimed: CellPolicy | None = None,
    only: tuple[str, ...] = (),
    progress: Callable[[str], None] | None = None,
) -> ProbeReport:
    """Make every attempt (or those named in `only`) in a cell and in the control.

    `policy` and `claimed`: see `open_cell`; a test takes a protection away and sees an attempt get through.

    Raises:
        ProbeFailed: the cell or the control did not report every attempt. SandboxError: there was no cell.
    """
    tell = progress or (lambda _: None)
    chosen = tuple(attempt for attempt in attempts() if not only or attempt.name in only)
    with _laid_out(sandbox.settings.home, chosen) as folder:
        tell(f"{len(chosen)} attempts in a cell")
        cell_said, facts = await _in_cell(sandbox, chosen, folder, image_id, runtime, policy, claimed)
        tell("the same attempts in an unprotected container")
        control_said = await to_thread.run_sync(_in_control, sandbox, chosen, folder, image_id)
    rows = [_row(attempt, cell_said[attempt.name], control_said[attempt.name]) for attempt in chosen]
    return ProbeReport(rows=tuple(rows), image_id=image_id, **facts)


def _row(attempt: Attempt, cell: tuple[bool, str], control: tuple[bool, str]) -> ProbeRow:
    if cell[0]:
        verdict: Verdict = "through"
    else:
        verdict = "blocked" if control[0] else "unproven"
    return ProbeRow(attempt, cell[1], control[1], verdict)


@contextmanager
def _laid_out(home: Path, chosen: tuple[Attempt, ...]) -> Iterator[Path]:
    """A snapshot with the attempts, and a file of the host that one of them looks for."""
    make_directory(home)
    with storage(home), TemporaryDirectory(prefix=".probe-", dir=home) as place:
        folder = Path(place)
        (folder / "planted.txt").write_text("a file of the host\n", encoding="utf-8")
        probes = folder / "snapshot" / "probes"
        probes.mkdir(parents=True)
        for attempt in chosen:
            (probes / f"{attempt.name}.py").write_bytes(attempt.source)
        (probes / "bait.txt").write_text("unchanged\n", encoding="utf-8")
        parameters = {"host_file": str(folder / "planted.txt")}
        (probes / "parameters.json").write_text(json.dumps(parameters), encoding="utf-8")
        yield folder


async def _in_cell(
    sandbox: Sandbox,
    chosen: tuple[Attempt, ...],
    folder: Path,
    image_id: str,
    runtime: Runtime | None,
    policy: CellPolicy | None,
    claimed: CellPolicy | None,
) -> tuple[dict[str, tuple[bool, str]], dict[str, str]]:
    job = ProbeJob(tuple(attempt.name for attempt in chosen), DEADLINE_S, ATTEMPT_S, OUTPUT_BYTES)
    said: dict[str, tuple[bool, str]] = {}
    async with open_cell(
        sandbox,
        image_id=image_id,
        kind="probe",
        deadline_s=DEADLINE_S,
        runtime=runtime,
        policy=policy,
        claimed=claimed,
    ) as cell:
        facts = {"runtime": cell.runtime, "policy_digest": cell.policy_digest}
        await cell.deliver(job, folder / "snapshot")
        while not isinstance(frame := await cell.receive(), End):
            if isinstance(frame, CaseResult) and 0 <= frame.case < len(chosen):
                said[chosen[frame.case].name] = (frame.outcome == "passed", frame.detail or frame.outcome)
    _check_complete(chosen, said, "the cell")
    return said, facts


def _in_control(
    sandbox: Sandbox, chosen: tuple[Attempt, ...], folder: Path, image_id: str
) -> dict[str, tuple[bool, str]]:
    """The same attempts as root of a container without any of the protections, with the host's network and a variable of the host."""
    place = Place.make(sandbox.settings.home, _intent(sandbox, image_id))
    gone = False
    try:
        out = place.path / "out"
        out.mkdir()
        (out / "000001.seg").touch()
        config = _control_config(sandbox, place, folder, image_id, [attempt.name for attempt in chosen])
        try:
            container = sandbox.engine.create(config, name=place.intent.container)
            sandbox.engine.start(container)
            sandbox.engine.wait(container, timeout_s=DEADLINE_S)
        finally:
            sandbox.engine.destroy(place.intent.container)
            gone = True
        said = _read_control(out / "control.jsonl")
    finally:
        (place.remove if gone else place.leave)()
    _check_complete(chosen, said, "the unprotected container")
    return said


def _control_config(sandbox: Sandbox, place: Place, folder: Path, image_id: str, names: list[str]) -> dict[str, Any]:
    full = sandbox.policy("probe")
    open_policy = (
        full.with_user(0, 0)
        .with_capabilities(add=CONTROL_CAPABILITIES, drop=())
        .with_seccomp("unconfined")
        .with_new_privileges()
        .with_paths(masked=(), read_only=())
        .with_root(read_only=False)
        .with_inbox(read_only=False)
        .with_network("host")
        .with_tmpfs("/tmp", "size=512m,mode=1777,exec")
        .with_pids(None)
        .with_memory(1024 * 1024 * 1024)
        .with_mount(folder, str(folder))
        .with_environment({"AWS_SECRET_ACCESS_KEY": "planted"})
    )
    for name, _ in full.ulimits:
        open_policy = open_policy.with_ulimit(name, None)
    labels = labels_of(place.intent, home_id=sandbox.home_id)
    config = open_policy.container(image_id=image_id, inbox=folder, outbox=place.path / "out", labels=labels)
    control = resources.files("sandbox_images.probes").joinpath("_control.py").read_text(encoding="utf-8")
    config["Entrypoint"] = [ENTRYPOINT[0], "-B", "-c", control, *names]
    return config


def _intent(sandbox: Sandbox, image_id: str) -> Intent:
    now = sandbox.clock.now()
    cell_id = ids.new_cell_id()
    return Intent(
        cell=cell_id,
        container=container_name(cell_id),
        kind="probe",
        image_id=image_id,
        runtime="runc",
        policy="",
        uid=0,
        run_id="",
        generation=1,
        owner_pid=sandbox.pid,
        boot_id=boot_id(),
        created_at=now,
        expires_at=now + timedelta(seconds=2 * DEADLINE_S),
    )


def _read_control(path: Path) -> dict[str, tuple[bool, str]]:
    said: dict[str, tuple[bool, str]] = {}
    if path.exists():
        for line in path.read_bytes()[: 1024 * 1024].splitlines():
            row = json.loads(line)
            said[str(row["attempt"])] = (bool(row["through"]), str(row["detail"]))
    return said


def _check_complete(chosen: tuple[Attempt, ...], said: dict[str, tuple[bool, str]], where: str) -> None:
    missing = [attempt.name for attempt in chosen if attempt.name not in said]
    if missing:
        raise ProbeFailed(
            f"{where} did not report {', '.join(missing)}.", fix="Run it again; `cloche doctor` tells more."
        )
