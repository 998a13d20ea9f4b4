"""The probe's control: the same attempts as root of a container without any of a cell's protections.

"Blocked" means something only when the same attempt, with the same program, gets through where nothing protects. What is run
here is Cloche's own text and nothing else; where an attempt would change the host, it stops at the permission to do so.
"""

from __future__ import annotations

import json
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import ids
from engine.errors import SandboxError
from engine.sandbox.attempts import FOLDER
from engine.sandbox.bait import Bait
from engine.sandbox.labels import labels_of
from engine.sandbox.place import Intent, Place, boot_id, container_name
from engine.sandbox.policy import ENTRYPOINT
from engine.sandbox.probe_report import Said

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

DEADLINE_S = 120.0
SAID_BYTES = 1024 * 1024
MEMORY_BYTES = 1024 * 1024 * 1024

CAPABILITIES = ("SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN", "NET_RAW")
"""Beside an engine's usual ones. Not `privileged`: where the engine itself lacks a capability, that cannot start."""

MORE_CAPABILITIES = (
    "DAC_READ_SEARCH",
    "SYSLOG",
    "SYS_BOOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_RAWIO",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
)
"""Where the engine has them. Without them, what they alone allow remains unproven."""


def in_control(
    sandbox: Sandbox, names: list[str], bait: Bait, image_id: str, *, script: str = "_control.py"
) -> dict[str, Said]:
    """What came of each attempt; one that is missing was not reported. `script` is the container's program.

    Raises:
        SandboxError: there was no container.
    """
    try:
        return _once(sandbox, names, bait, image_id, script, (*CAPABILITIES, *MORE_CAPABILITIES))
    except SandboxError:
        return _once(sandbox, names, bait, image_id, script, CAPABILITIES)


def _once(
    sandbox: Sandbox, names: list[str], bait: Bait, image_id: str, script: str, capabilities: tuple[str, ...]
) -> dict[str, Said]:
    place = Place.make(sandbox.settings.home, _intent(sandbox, image_id))
    gone = False
    try:
        out = place.path / "out"
        out.mkdir()
        (out / "000001.seg").touch()
        config = _config(sandbox, place, bait, image_id, capabilities)
        text = resources.files(FOLDER).joinpath(script).read_text(encoding="utf-8")
        config["Entrypoint"] = [ENTRYPOINT[0], "-B", "-c", text, *names]
        try:
            container = sandbox.engine.create(config, name=place.intent.container)
            sandbox.engine.start(container)
            sandbox.engine.wait(container, timeout_s=DEADLINE_S)
        finally:
            sandbox.engine.destroy(place.intent.container)
            gone = True
        return _read(out / "control.jsonl")
    finally:
        (place.remove if gone else place.leave)()


def _config(sandbox: Sandbox, place: Place, bait: Bait, image_id: str, capabilities: tuple[str, ...]) -> dict[str, Any]:
    full = sandbox.policy("probe")
    folder = bait.folder
    open_policy = (
        full.with_user(0, 0)
        .with_capabilities(add=capabilities, drop=())
        .with_seccomp("unconfined")
        .with_new_privileges()
        .with_paths(masked=(), read_only=())
        .with_root(read_only=False)
        .with_inbox(read_only=False)
        .with_outbox(read_only=False)
        .with_network("host")
        .with_ipc("private", shm_bytes=64 * 1024 * 1024)
        .with_cgroup_namespace("host")
        .with_tmpfs("/tmp", "size=512m,mode=1777,exec,suid,dev")
        .with_pids(None)
        .with_memory(MEMORY_BYTES)
        .with_mount(folder, str(folder))
        .with_mount(Path("/proc"), "/host/proc")
        .with_environment({"AWS_SECRET_ACCESS_KEY": "planted", "CLOCHE_PROBE_SECRET_TOKEN": bait.canary})
    )
    for name, _ in full.ulimits:
        open_policy = open_policy.with_ulimit(name, None)
    labels = labels_of(place.intent, home_id=sandbox.home_id)
    config = open_policy.container(image_id=image_id, inbox=folder, outbox=place.path / "out", labels=labels)
    del config["Hostname"]  # the host's, which is what shares a name with it
    config["HostConfig"] |= {"UTSMode": "host", "DeviceCgroupRules": ["a *:* rwm"]}
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


def _read(path: Path) -> dict[str, Said]:
    said: dict[str, Said] = {}
    if path.exists():
        for line in path.read_bytes()[:SAID_BYTES].splitlines():
            row = json.loads(line)
            said[str(row["attempt"])] = Said(bool(row["through"]), str(row["cause"]), str(row["detail"]))
    return said
