"""A peer's process, as the benchmark sees it: started in the peers' environment, asked one thing at a time, ended at the end."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".cache" / "peers" / "bin" / "python"
READY = ROOT / ".cache" / "peers" / ".ready"
MISSING = (
    "DBOS and LangGraph are not installed, so the figures beside them are left out. `make peers` installs them into .cache/peers "
    "from .ci/requirements-peers.lock; it needs a package index that pip can reach."
)


class PeerFailed(Exception):
    """A peer's process ended before it answered; its last words are on stderr."""


class Peer:
    """Answers questions. Made by `open_peer`."""

    def __init__(self, module: str, process: subprocess.Popen[str]) -> None:
        self._module = module
        self._process = process

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Have one task done. Raises PeerFailed."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next answer. Raises PeerFailed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerFailed(f"{self._module} ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def available() -> bool:
    """True when the peers' environment is there and was installed to its end."""
    return READY.exists()


def environment() -> dict[str, str]:
    """What a peer's process gets: ours, and nothing is traced to anybody."""
    return {**os.environ, "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}


@contextmanager
def open_peer(module: str, *arguments: str | Path) -> Iterator[Peer]:
    """The peer of `tests.benchmarks.peers.<module>`, ready for questions."""
    argv = [PYTHON, "-m", f"tests.benchmarks.peers.{module}", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ROOT, env=environment(), stdin=pipe, stdout=pipe, text=True) as process:
        try:
            peer = Peer(module, process)
            peer.answer()
            yield peer
        finally:
            process.kill()
