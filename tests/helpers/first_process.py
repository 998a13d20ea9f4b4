"""Other code than the supervisor as PID 1 of a container that is otherwise a cell: what a supervisor that was taken over could do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from engine.ids import new_cell_id
from engine.sandbox import labels
from engine.sandbox.exchange import HostLink
from engine.sandbox.place import container_name
from engine.sandbox.policy import ENTRYPOINT, CellPolicy
from engine.sandbox.service import Sandbox


@dataclass(frozen=True)
class Ended:
    """A container whose program has ended and that is not removed yet. `said` is what the program wrote to its first segment."""

    container: str
    exit: int
    directory: Path
    said: str


@contextmanager
def first_process(
    sandbox: Sandbox, image_id: str, program: str, *, policy: CellPolicy | None = None, uid: int | None = None
) -> Iterator[Ended]:
    """Run `program` as PID 1 with the uid, capabilities, limits and mounts of a supervisor, and its exchange laid out by the host.

    `uid` is that of the worker which the container was made for. Container and directory are gone after the block.
    """
    policy = policy or sandbox.policy("run", sandbox.settings.runtime)  # type: ignore[arg-type]
    cell_id = new_cell_id()
    directory = sandbox.settings.home / "taken" / cell_id
    link = HostLink(directory, limits=policy.limits, generation=1, group=policy.group)
    named = {labels.HOME: sandbox.home_id, labels.CELL: cell_id}
    body = policy.container(image_id=image_id, inbox=link.inbox, outbox=link.outbox, labels=named, uid=uid)
    body["Entrypoint"] = [*ENTRYPOINT[:-1], "-c", dedent(program)]
    container = sandbox.engine.create(body, name=container_name(cell_id))
    try:
        sandbox.engine.start(container)
        code = sandbox.engine.wait(container, timeout_s=60)
        said = (link.outbox / "000001.seg").read_bytes().rstrip(b"\0").decode()
        yield Ended(container, code, directory, said)
    finally:
        sandbox.engine.destroy(container)
        link.close()
        for path in sorted(directory.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        directory.rmdir()
