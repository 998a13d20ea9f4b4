"""The script behind `make engine`, with a root of its own, and a container in the engine that it started."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker

SCRIPT = Path(__file__).parents[2] / ".ci" / "engine.py"


GRACE_S = 90
"""What an engine gives the program of `left_running` to end, were it asked to: longer than any start or stop takes."""

AT_ONCE_S = 25
"""In which a start or stop is done that waits for nothing: less than the 30 s that the script itself is patient."""


class ScriptedEngine:
    """The script with a root of its own, short enough for the unix addresses below it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = f"unix://{root}/docker.sock"

    def call(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
        return subprocess.run(
            [sys.executable, str(SCRIPT), *words],
            env={**inherited, "CLOCHE_ENGINE_ROOT": str(self.root), **environment},
            capture_output=True,
            text=True,
            timeout=200,
        )

    def pid(self) -> int:
        return int(json.loads((self.root / "run" / "engine.json").read_text())["pid"])

    def processes(self) -> list[str]:
        """Command lines of everything alive that names our root."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    line = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if f"{self.root}/".encode() in line:
                    found.append(line.replace(b"\0", b" ").decode())
        return found


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def left_running(engine: ScriptedEngine, *, runtime: str = "runc") -> Iterator[int]:
    """Host pid of a labelled container's program that ignores SIGTERM; the host's own files stand in for an image."""
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    client = docker.DockerClient(base_url=engine.address, timeout=60)
    try:
        client.api.import_image_from_data(empty.getvalue(), repository="empty")
        binds = [f"{path}:{path}:ro" for path in ("/bin", "/lib", "/lib64", "/usr")]
        container = client.api.create_container(
            "empty",
            ["/bin/sleep", "1000"],
            labels={"io.cloche.home": "test"},
            stop_timeout=GRACE_S,
            host_config=client.api.create_host_config(network_mode="none", runtime=runtime, binds=binds),
        )["Id"]
        client.api.start(container)
        yield client.api.inspect_container(container)["State"]["Pid"]
    finally:
        client.close()
