"""A whole run of a trivial package by an existing process, beside the least that the engine can do with such a container."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import docker

from engine.agents import open_handlers
from engine.app import App
from engine.catalog.snapshots import PinnedSnapshot
from engine.ids import new_run_id, new_seed
from engine.run.folder import Run
from engine.run.lifecycle import drive
from engine.run.spec import RunSpec
from engine.run.status import Status
from engine.sandbox.cell import open_cell
from engine.sandbox.policy import ENTRYPOINT
from engine.sandbox.segments import outgoing_paths
from tests.benchmarks.figures import Figure, Target, compare
from tests.benchmarks.house import TRIVIAL
from tests.benchmarks.rounds import interleaved

TARGET = Target("ratio", 1.25)
BASELINE = "raw engine API, same hardening"


def measure(app: App, *, root: Path, rounds: int) -> list[Figure]:
    """From a new run to its recorded end, by a process that has the snapshot; and `App.run`, which also reads the catalog.

    Both record, create, read back, attest, execute, and see the container gone. The second also reads package and metadata with
    git and hashes the snapshot, as everybody who names a package does; only the first has a target.
    """
    snapshot = app.snapshots.for_revision(*app.catalog.resolve(TRIVIAL))
    with raw_engine(app, root) as once:
        driven, raw, named, raw_again = interleaved(
            partial(drive_once, app, snapshot),
            once,
            partial(run_once, app, TRIVIAL, "x"),
            once,
            rounds=rounds,
        )
    return [
        compare("one-shot run", measured=driven, baseline=BASELINE, baselines=raw, target=TARGET),
        compare("one-shot run, by name", measured=named, baseline=BASELINE, baselines=raw_again),
    ]


def drive_once(app: App, snapshot: PinnedSnapshot, task: str = "x") -> None:
    """A new run of a snapshot, to its end, in a loop of its own as a caller would have it."""
    anyio.run(partial(_drive, app, new_run(app, snapshot, task), snapshot.path))


def drive_app(app: App, snapshot: PinnedSnapshot, task: str = "x") -> None:
    """The same with a cell as the application gets it: one that waits, if there is one."""
    anyio.run(_drive_app, app, snapshot, task)


async def _drive_app(app: App, snapshot: PinnedSnapshot, task: str) -> None:
    await app.cells.ready("run")
    handlers = open_handlers(clock=app.clock, model=None)
    run, gone = new_run(app, snapshot, task), app.cells.prove_gone
    view = await drive(run, snapshot=snapshot.path, cells=app.cells.run_cell, handlers=handlers, prove_gone=gone)
    assert view.status is Status.COMPLETED, view


def new_run(app: App, snapshot: PinnedSnapshot, task: str) -> Run:
    """A run that nobody executes yet."""
    assert snapshot.revision is not None
    now = app.clock.now()
    spec = RunSpec(
        run_id=new_run_id(now),
        session="default",
        workflow_id=snapshot.workflow_id,
        revision=snapshot.revision,
        tree_id=snapshot.tree_id,
        pins=dict(snapshot.pins),
        snapshot_digest=snapshot.digest,
        task=task,
        seed=new_seed().hex(),
        permissions=(),
        workspace=str(app.settings.home),
        model="",
        created_at=now.timestamp(),
    )
    return app.runs.create(spec)


async def _drive(app: App, run: Run, snapshot: Path) -> None:
    async def prove_gone(cell_id: str) -> None:
        raise AssertionError(f"a new run has no older cell {cell_id}")

    cells = partial(
        open_cell, app.sandbox, image_id=await app.cells.ready(), kind="run", deadline_s=app.settings.run_active_s
    )
    handlers = open_handlers(clock=app.clock, model=None)
    view = await drive(run, snapshot=snapshot, cells=cells, handlers=handlers, prove_gone=prove_gone)
    assert view.status is Status.COMPLETED, view


def run_once(app: App, workflow_id: str, task: str) -> None:
    """One run to its end, in a loop of its own as a caller would have it."""
    view = anyio.run(partial(app.run, workflow_id, task))
    assert view.status is Status.COMPLETED, view


@contextmanager
def raw_engine(app: App, root: Path) -> Iterator[Any]:
    """Create, start, wait, remove, and nothing else: the container that a cell is, but whose program ends at once.

    The body of the create call is the policy's own: same image, limits, seccomp list, mounts and flags of the interpreter; only
    the supervisor is exchanged for `pass`.
    """
    image_id = anyio.run(app.cells.ready)
    inbox, outbox = root / "raw" / "in", root / "raw" / "out"
    for path in (inbox, outbox):
        path.mkdir(parents=True, exist_ok=True)
    for path in outgoing_paths(outbox):
        path.touch()
    labels = {"io.cloche.home": app.sandbox.home_id}
    body = app.sandbox.policy("run").container(image_id=image_id, inbox=inbox, outbox=outbox, labels=labels)
    body["Entrypoint"] = [*ENTRYPOINT[:-1], "-c", "pass"]
    client: Any = docker.APIClient(base_url=app.sandbox.engine.host, version="1.41")

    def once() -> None:
        container = client.create_container_from_config(body, f"cloche-bench-{secrets.token_hex(6)}")["Id"]
        try:
            client.start(container)
            assert client.wait(container)["StatusCode"] == 0
        finally:
            client.remove_container(container, v=True)

    try:
        yield once
    finally:
        client.close()
