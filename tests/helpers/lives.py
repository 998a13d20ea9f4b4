"""Runs of small packages in real cells that lose their cell at `llm("die …")`, and are gone on with in another cell.

A program dies where it asks a prompt that begins with `die`: its cell is killed while that call is executed, once for each such
prompt, and the next generation executes it again. What else was executed stands in `Lived.executions`, by generation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.agents.draws import NewIdHandler, NowHandler, RandomHandler
from engine.agents.waits import TimerHandler
from engine.clock import SystemClock
from engine.run.calls import CallFailed, CallHandler, CallKey, CallRequest, CallResult, Effects, Kind
from engine.run.folder import Run
from engine.run.generation import Choices, Limits
from engine.run.history import History
from engine.run.lifecycle import drive
from engine.run.projection import result_of
from engine.run.status import Status
from engine.run.store import RunStore
from engine.run.verdict import Verdict
from engine.run.verify import Subject, verify
from engine.run.view import RunView
from engine.sandbox import labels
from engine.sandbox.cell import Cell, open_cell
from engine.sandbox.service import Sandbox
from tests.helpers.crash_checks import check_executions
from tests.helpers.ledger import Execution
from tests.helpers.runs import make_spec
from tests.helpers.sandbox import end_process, snapshot

DEADLINE_S = 300
MOST_GENERATIONS = 12

Speed = Callable[[int, str], float]
"""Seconds that a prompt takes in a generation."""


def at_once(generation: int, prompt: str) -> float:
    """Nothing takes time."""
    return 0.0


@dataclass
class Lives:
    """Where such runs live: a sandbox and a home."""

    sandbox: Sandbox
    image_id: str
    home: Path
    _trees: int = 0
    _runs: int = 0

    @property
    def store(self) -> RunStore:
        return RunStore(self.home, clock=SystemClock())

    def cells(self, *, run_id: str, generation: int) -> AbstractAsyncContextManager[Cell]:
        return open_cell(
            self.sandbox,
            image_id=self.image_id,
            kind="run",
            deadline_s=DEADLINE_S,
            run_id=run_id,
            generation=generation,
        )

    def tree(self, body: str, **files: str) -> Path:
        """A package `sample` in a directory of its own."""
        self._trees += 1
        return snapshot(self.home / f"tree{self._trees}", body, **files)

    def new(self, *bodies: str, task: Any = None, speed: Speed = at_once, **spec: Any) -> Lived:
        """A run of a program; of several ones, each is executed by one generation, and the last one by all further ones."""
        self._runs += 1
        fields: dict[str, Any] = {
            "run_id": f"20261130T120000Z-{self._runs:08x}",
            "workflow_id": "sample",
            "pins": {},
            "created_at": SystemClock().now().timestamp(),
        }
        run = self.store.create(make_spec(**{**fields, "task": task, "cap": 100_000, **spec}))
        return Lived(self, run, [self.tree(body) for body in bodies], speed)

    def kill_cells(self) -> int:
        """SIGKILL the first process of every cell of this home; how many there were."""
        found = self.sandbox.engine.containers({labels.HOME: self.sandbox.home_id})
        pids = [int(self.sandbox.engine.inspect(one.id)["State"]["Pid"]) for one in found]
        for pid in pids:
            end_process(pid)
        return len(pids)


@dataclass
class Lived:
    """One run and what was executed for it. `answers` replaces what prompts give; `died` are those that its cell died at."""

    lives: Lives
    run: Run
    trees: Sequence[Path]
    speed: Speed
    answers: Mapping[str, Callable[[CallRequest], Any]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    executions: list[Execution] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    generation: int = 0

    def handlers(self) -> dict[str, CallHandler]:
        """All that programs here call. Every execution stands in `executions`."""
        clock = SystemClock()
        return {
            "llm": Answering(self, self._answer),
            "agent": Answering(self, self._answer),
            "emit": Answering(self, _nothing, instant=True),
            "now": Answering(self, _value_of(NowHandler(clock)), instant=True),
            "random": Answering(self, _value_of(RandomHandler()), instant=True),
            "new_id": Answering(self, _value_of(NewIdHandler()), instant=True),
            "timer": Answering(self, _value_of(TimerHandler(clock)), kind="timer"),
        }

    async def _answer(self, request: CallRequest) -> Any:
        prompt = request.args["prompt"]
        if isinstance(prompt, str) and prompt.startswith("die") and prompt not in self.died:
            self.died.append(prompt)
            assert self.lives.kill_cells() == 1
            await asyncio.Event().wait()
        if isinstance(prompt, str) and prompt.startswith("fail"):
            raise CallFailed("ModelError", f"no answer to {prompt}", "Traceback of the host")
        if (seconds := self.speed(self.generation, prompt)) > 0:
            await asyncio.sleep(seconds)
        made = self.answers.get(prompt) if isinstance(prompt, str) else None
        return made(request) if made else f"<{prompt}>"

    async def live(self, *, choices: Choices | None = None, **options: Any) -> RunView:
        """One generation, in a cell of its own."""
        self.generation += 1
        return await drive(
            self.run,
            snapshot=self.trees[min(self.generation, len(self.trees)) - 1],
            cells=self.lives.cells,
            handlers=self.handlers(),
            prove_gone=_gone,
            choices=choices,
            limits=self.limits,
            **options,
        )

    async def to_its_end(self) -> RunView:
        """Go on for as long as a cell dies; then check what must hold of every run."""
        for _ in range(MOST_GENERATIONS):
            died = len(self.died)
            view = await self.live()
            if len(self.died) == died:
                self.check()
                return view
            assert (view.status, view.reason) == (Status.FAILED, "sandbox"), view.message
        raise AssertionError("it does not come to an end")

    def check(self) -> None:
        """No completed call was executed again, and each execution has its record."""
        check_executions(self.history, self.executions)

    @property
    def history(self) -> History:
        return self.run.read()[1]

    @property
    def result(self) -> Any:
        return result_of(self.run)

    def prompts(self, generation: int = 0) -> list[str]:
        """Prompts of the executions of a generation, or of all."""
        records = {record.key: record for record in self.history.records.values()}
        return [
            self.run.value(records[one.key].started.args, records[one.key].started.args_blob).get("prompt", one.key.fn)
            for one in self.executions
            if generation in (0, one.generation)
        ]

    async def verified(self, tree: Path | None = None, *, revision: str = "") -> Verdict:
        """Held against its record, by its last program or by another one."""
        spec = self.run.spec
        subject = Subject(tree or self.trees[-1], revision or spec.revision, spec.snapshot_digest)
        return await verify(self.run, subject, cells=self.lives.cells, deadline_s=DEADLINE_S)


@dataclass
class Answering:
    """Answers calls of one function; every execution is noted when its effect is there."""

    lived: Lived
    answer: Callable[[CallRequest], Awaitable[Any]]
    instant: bool = False
    counted: bool = False
    kind: Kind = ""
    effects: Effects = Effects.NONE
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        value = await self.answer(request)
        self._note(request.key, request.idempotency_key)
        return CallResult(value, {})

    def _note(self, key: CallKey, word: str) -> None:
        lived = self.lived
        lived.executions.append(Execution(lived.run.run_id, key, word, lived.generation, 0))


def _value_of(handler: CallHandler) -> Callable[[CallRequest], Awaitable[Any]]:
    async def value(request: CallRequest) -> Any:
        return (await handler.execute(request)).value

    return value


async def _nothing(request: CallRequest) -> None:
    return None


async def _gone(_cell_id: str) -> None:
    return None
