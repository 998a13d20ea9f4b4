"""Real cells in tests: an engine with the built image, a sandbox in a throw-away home, and tiny packages to run."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from time import monotonic
from typing import Any

from cloche_guest import codec

from engine.clock import SystemClock
from engine.errors import CellLost
from engine.sandbox import labels
from engine.sandbox.cell import Cell, open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.frames import Artifact, Call, CellFrame, End, Output, Result
from engine.sandbox.jobs import RunJob
from engine.sandbox.outcome import CellEnd
from engine.sandbox.service import Sandbox
from engine.settings import Settings
from sandbox_images.store import ensure_built
from tests.helpers.runtimes import runtime_of

CACHE = Path(__file__).parents[2] / ".cache"
"""Shared by all test runs of a checkout: the built image and the packages it is made of."""

HEADER = "from cloche import *\n"


def loaded_image(engine: Engine) -> str:
    """The id of the current image, built and loaded if it was not."""
    image = ensure_built(CACHE / "home", cache=CACHE / "debs", fall_back=True)
    if not engine.image_exists(image.image_id):
        engine.load_image(image.path)
    return image.image_id


def make_sandbox(home: Path, engine: Engine, **settings: Any) -> Sandbox:
    """A sandbox whose state lives in `home`, with the runtime that cells on this engine use."""
    return Sandbox(Settings(home=home, **{"runtime": runtime_of(engine), **settings}), SystemClock(), engine)


def containers_of(sandbox: Sandbox) -> list[str]:
    """Names of the containers that carry this home's label."""
    return [one.name for one in sandbox.engine.containers({labels.HOME: sandbox.home_id})]


@contextmanager
def nothing_left(sandbox: Sandbox) -> Iterator[None]:
    """Fails when the block leaves a container or a cell directory behind; removes them all the same."""
    try:
        yield
    finally:
        left = containers_of(sandbox)
        for name in left:
            sandbox.engine.destroy(name)
        cells = sandbox.settings.home / "cells"
        directories = sorted(path.name for path in cells.iterdir()) if cells.exists() else []
        assert (left, directories) == ([], [])


def wait_for(condition: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
    """Return when the condition holds; fail when it does not in time, which a busy machine has enough of."""
    import threading

    until = monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        assert monotonic() < until, "the condition did not come true"
        pause.wait(0.01)


def snapshot(root: Path, body: str, *, workflow: str = "sample", **files: str) -> Path:
    """A snapshot with one package whose `workflow.py` holds `body`, which defines the entry."""
    package = root / "workflows" / workflow
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f'"""Sample."""\n\nfrom .workflow import {workflow}\n')
    (package / "workflow.py").write_text(dedent(body))
    for name, text in files.items():
        (package / f"{name}.py").write_text(dedent(text))
    return root


@dataclass
class Story:
    """What a cell said, in order, and how it ended."""

    frames: list[CellFrame] = field(default_factory=list)
    end: CellEnd | None = None

    def of(self, kind: type[Any]) -> list[Any]:
        """The frames of one kind."""
        return [frame for frame in self.frames if isinstance(frame, kind)]

    @property
    def result(self) -> Result:
        """The one result."""
        (found,) = self.of(Result)
        assert isinstance(found, Result)
        return found

    @property
    def value(self) -> Any:
        """What the entry returned."""
        assert self.result.error is None, self.result.error
        return codec.decode(self.result.encoded)

    @property
    def word(self) -> End:
        """The supervisor's last word."""
        (found,) = self.of(End)
        assert isinstance(found, End)
        return found

    def output(self, stream: str = "stdout") -> bytes:
        """All that came of a stream, gaps left out."""
        return b"".join(frame.data for frame in self.of(Output) if frame.stream == stream)

    @property
    def files(self) -> dict[str, bytes]:
        """Collected output files."""
        return {frame.path: frame.data for frame in self.of(Artifact)}

    @property
    def ended(self) -> CellEnd:
        """How the cell ended."""
        assert self.end is not None
        return self.end


Answer = Callable[[Cell, Call], Any]


async def tell(cell: Cell, answer: Answer | None = None, *, story: Story | None = None) -> Story:
    """Read to the end, answering every call with `answer(cell, call)` (a value, or None when it answered itself)."""
    story = story or Story()
    while True:
        frame = await cell.receive()
        story.frames.append(frame)
        if isinstance(frame, Call):
            value = None if answer is None else answer(cell, frame)
            await cell.reply_ok(frame.number, codec.encode(value), at=1.0)
        elif isinstance(frame, End):
            story.end = await cell.finish()
            return story


async def tell_or_lose(cell: Cell, answer: Answer | None = None) -> Story:
    """As `tell`, also when the whole cell goes with what its program did; then there is an end and no last word."""
    story = Story()
    try:
        return await tell(cell, answer, story=story)
    except CellLost:
        story.end = await cell.finish()
        return story


@asynccontextmanager
async def running(
    sandbox: Sandbox, image_id: str, snapshot_path: Path, *, task: Any = None, deadline_s: float = 60.0, **options: Any
) -> AsyncIterator[Cell]:
    """A cell that was given the package."""
    async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=deadline_s, **options) as cell:
        await cell.deliver(RunJob("sample", codec.encode(task), "00" * 16, deadline_s), snapshot_path)
        yield cell


async def run_package(
    sandbox: Sandbox,
    image_id: str,
    snapshot_path: Path,
    *,
    answer: Answer | None = None,
    **options: Any,
) -> Story:
    """One package, from start to end."""
    async with running(sandbox, image_id, snapshot_path, **options) as cell:
        return await tell(cell, answer)


def alive(pid: int) -> bool:
    """True while the process exists and is no zombie."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def end_process(pid: int) -> None:
    """SIGKILL one process of ours."""
    os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True)
class SandboxCells:
    """A GateCellFactory without a pool: one cell of an image per job, bounded by the sandbox's own `gate_timeout_s`."""

    sandbox: Sandbox
    image_id: str

    def __call__(self) -> AbstractAsyncContextManager[Cell]:
        deadline_s = self.sandbox.settings.gate_timeout_s
        return open_cell(self.sandbox, image_id=self.image_id, kind="gate", deadline_s=deadline_s)
