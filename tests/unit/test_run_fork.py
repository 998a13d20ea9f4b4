"""Forks: which records they begin with, how they go on from there, and that their source stays as it is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.catalog.snapshots import PinnedSnapshot
from engine.errors import StorageFull
from engine.files import lock
from engine.run.calls import CallFailed, Effects
from engine.run.claim import RunOwned
from engine.run.decisions import decide_unknown
from engine.run.folder import Run
from engine.run.fork import forked_spec, inherit
from engine.run.journal import JournalDamaged
from engine.run.named import CallNotFound
from engine.run.projection import result_of
from engine.run.status import Status
from engine.run.verify import Subject, verify
from engine.run.view import calls_of
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, CallError, Die, GiveUp, ScriptedCells, Still, ask, begin
from tests.helpers.runs import Bench

Playing = Generator[Any, Any, Any]
LEFT, RIGHT = "/parallel@workflow.main[1.1]", "/parallel@workflow.main[1.2]"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@dataclass
class Counting:
    """Answers with the prompt and how often it was executed; fails for the prompts in `failing`."""

    failing: tuple[str, ...] = ()
    prompts: list[str] = field(default_factory=list)

    @property
    def handler(self) -> Answers:
        return Answers(self._answer, counted=True)

    def _answer(self, request: Any) -> str:
        prompt = request.args["prompt"]
        self.prompts.append(prompt)
        if prompt in self.failing:
            raise CallFailed("ModelError", "no answer")
        return f"{prompt} {len(self.prompts)}"


def three() -> Playing:
    found = []
    for prompt in ("one", "two", "three"):
        found.append((yield ask("llm", prompt=prompt)))
    return found


def snapshot(run: Run, **changes: Any) -> PinnedSnapshot:
    spec = run.spec
    fields = {"digest": spec.snapshot_digest, "path": run.folder, "workflow_id": spec.workflow_id}
    fields |= {"revision": spec.revision, "tree_id": spec.tree_id, "pins": spec.pins}
    return PinnedSnapshot(**{**fields, **changes})


def fork(bench: Bench, run: Run, seq: int, **changes: Any) -> Run:
    bench.clock.pass_by(3600)
    inherited = inherit(run, seq)
    spec = forked_spec(run.spec, inherited, snapshot=snapshot(run, **changes), now=bench.clock.now())
    return bench.store.create(spec, inherited=inherited)


def call(run: Run, nth: int) -> int:
    """The number of the nth call that was made."""
    return list(run.read()[1].places.values())[nth - 1][-1].seq


def contents(run: Run) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}


def test_a_fork_replays_what_is_before_the_call_and_executes_from_there(bench: Bench) -> None:
    run, llm = bench.create(), Counting()
    bench.drive(run, ScriptedCells([three]), {"llm": llm.handler})
    before = contents(run)
    made = fork(bench, run, call(run, 2))
    view = bench.drive(made, ScriptedCells([three]), {"llm": llm.handler})
    assert (view.status, llm.prompts) == (Status.COMPLETED, ["one", "two", "three", "two", "three"])
    assert result_of(made) == ["one 1", "two 4", "three 5"]
    assert [one.replayed for one in calls_of(view.calls)] == [True, False, False]
    assert contents(run) == before
    assert result_of(run) == ["one 1", "two 2", "three 3"]


def test_a_fork_is_a_run_of_its_own_that_names_its_parent(bench: Bench) -> None:
    run = bench.create(cap=7)
    bench.drive(run, ScriptedCells([three]), {"llm": Counting().handler})
    made = bench.store.open(fork(bench, run, call(run, 3)).run_id)
    spec = made.spec
    assert spec.run_id != run.run_id
    for name in ("workflow_id", "revision", "task", "seed", "workspace", "model", "permissions", "cap", "session"):
        assert getattr(spec, name) == getattr(run.spec, name)
    assert spec.created_at == run.spec.created_at + 3600
    assert spec.forked_from is not None
    assert (spec.forked_from.run, spec.forked_from.seq) == (run.run_id, call(run, 3))
    assert spec.began_at == run.spec.began_at
    again = fork(bench, made, call(made, 1))
    assert again.spec.began_at == run.spec.began_at


def test_what_a_fork_copies_does_not_count_towards_its_cap(bench: Bench) -> None:
    run, llm = bench.create(cap=2), Counting()
    assert bench.drive(run, ScriptedCells([three]), {"llm": llm.handler}).status is Status.CAPPED
    made = fork(bench, run, call(run, 2))
    assert bench.drive(made, ScriptedCells([three]), {"llm": llm.handler}).executions == 2
    assert llm.prompts == ["one", "two", "two", "three"]


def test_the_program_of_a_fork_sees_the_recorded_times(bench: Bench) -> None:
    run = bench.create()
    bench.drive(run, ScriptedCells([three]), {"llm": Counting().handler})
    made, cells = fork(bench, run, call(run, 2)), ScriptedCells([three])
    bench.drive(made, cells, {"llm": Counting().handler})
    assert cells.opened[0].job is not None
    assert cells.opened[0].job.at == run.spec.created_at
    first = next(records[0] for records in made.read()[1].places.values())
    assert (first.generation, first.ended_at) == (0, run.spec.created_at)


def test_large_values_come_along_without_being_copied(bench: Bench) -> None:
    def program() -> Playing:
        first = yield ask("llm", prompt="p" * 100_000)
        return [len(first), (yield ask("llm", prompt="two"))]

    run = bench.create()
    bench.drive(run, ScriptedCells([program]), {"llm": Counting().handler})
    made = fork(bench, run, call(run, 2))
    names = sorted(path.name for path in (run.folder / "blobs").iterdir())
    assert sorted(path.name for path in (made.folder / "blobs").iterdir()) == names
    assert (made.folder / "blobs" / names[0]).stat().st_ino == (run.folder / "blobs" / names[0]).stat().st_ino
    assert bench.drive(made, ScriptedCells([program]), {"llm": Counting().handler}).status is Status.COMPLETED


def test_large_values_are_copied_where_they_cannot_be_linked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> Playing:
        yield ask("llm", prompt="p" * 100_000)
        yield ask("llm", prompt="two")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    run = bench.create()
    bench.drive(run, ScriptedCells([program]), {"llm": Counting().handler})
    monkeypatch.setattr(os, "link", refuse)
    made = fork(bench, run, call(run, 2))
    assert bench.drive(made, ScriptedCells([program]), {"llm": Counting().handler}).status is Status.COMPLETED


# which records


def test_a_fork_from_the_first_call_begins_with_nothing(bench: Bench) -> None:
    run, llm = bench.create(), Counting()
    bench.drive(run, ScriptedCells([three]), {"llm": llm.handler})
    made = fork(bench, run, call(run, 1))
    assert len(made.read()[0].lines) == 1
    bench.drive(made, ScriptedCells([three]), {"llm": llm.handler})
    assert len(llm.prompts) == 6


def test_a_handled_failure_before_the_call_is_raised_again(bench: Bench) -> None:
    def program() -> Playing:
        try:
            yield ask("llm", prompt="one")
        except CallError:
            pass
        return (yield ask("llm", prompt="two"))

    run, llm = bench.create(), Counting(failing=("one",))
    bench.drive(run, ScriptedCells([program]), {"llm": llm.handler})
    made = fork(bench, run, call(run, 2))
    assert bench.drive(made, ScriptedCells([program]), {"llm": llm.handler}).status is Status.COMPLETED
    assert llm.prompts == ["one", "two", "two"]


def test_a_failure_that_ended_the_source_is_executed_again(bench: Bench) -> None:
    def program() -> Playing:
        yield begin("llm", scope=LEFT, prompt="left")
        yield begin("llm", scope=RIGHT, prompt="right")
        answers = []
        for _ in range(2):
            _, found = yield Still()
            answers.append(found)
        for found in answers:
            if isinstance(found, CallError):
                raise found
        return answers

    run, llm = bench.create(), Counting(failing=("left",))
    assert bench.drive(run, ScriptedCells([program]), {"llm": llm.handler}).status is Status.FAILED
    made = fork(bench, run, call(run, 2))
    llm.failing = ()
    assert bench.drive(made, ScriptedCells([program]), {"llm": llm.handler}).status is Status.COMPLETED
    assert sorted(llm.prompts) == ["left", "left", "right", "right"]


def test_a_call_that_was_executed_twice_is_taken_with_both_attempts(bench: Bench) -> None:
    def program() -> Playing:
        first = yield ask("llm", prompt="one")
        return [first, (yield ask("llm", prompt="two"))]

    run, llm = bench.create(), Counting(failing=("one",))
    bench.drive(run, ScriptedCells([program]), {"llm": llm.handler})
    llm.failing = ()
    bench.drive(run, ScriptedCells([program]), {"llm": llm.handler})
    made = fork(bench, run, call(run, 2))
    view = bench.drive(made, ScriptedCells([program]), {"llm": llm.handler})
    assert llm.prompts == ["one", "one", "two", "two"]
    assert [one.attempts for one in calls_of(view.calls)] == [2, 1]


def test_an_unknown_outcome_before_the_call_stays_one_for_a_person_to_decide(bench: Bench) -> None:
    async def never(_request: object) -> Any:
        await asyncio.Event().wait()

    def program() -> Playing:
        yield begin("bash", scope=LEFT, prompt="left")
        yield begin("llm", scope=RIGHT, prompt="right")
        yield Still()
        yield Die(Cause.SUPERVISOR_LOST)

    run = bench.create()

    async def interrupt() -> None:
        handlers = {"bash": Answers(never, effects=Effects.SOME), "llm": Counting().handler}
        running = asyncio.ensure_future(bench.drive_async(run, ScriptedCells([program]), handlers))
        while len(run.read()[1].records) < 2:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(interrupt())
    made = fork(bench, run, call(run, 2))
    handlers = {"bash": Answers(lambda _: "done", effects=Effects.SOME), "llm": Counting().handler}
    view = bench.drive(made, ScriptedCells([program]), handlers)
    assert (view.status, view.reason) == (Status.INTERRUPTED, "unknown_outcome")
    decide_unknown(made, call(made, 1), what="value", value="given", by="anna")
    another = fork(bench, made, call(made, 1))
    assert len(another.read()[0].lines) == 1


def test_a_dropped_call_is_taken_as_dropped(bench: Bench) -> None:
    async def never(_request: object) -> Any:
        await asyncio.Event().wait()

    def program() -> Playing:
        number = yield begin("bash", scope=LEFT, prompt="left")
        yield begin("llm", scope=RIGHT, prompt="right")
        yield Still()
        yield GiveUp(number)
        return (yield ask("llm", prompt="after"))

    run, bash, llm = bench.create(), Answers(never, effects=Effects.SOME), Counting()
    bench.drive(run, ScriptedCells([program]), {"bash": bash, "llm": llm.handler})
    made = fork(bench, run, call(run, 3))
    assert bench.drive(made, ScriptedCells([program]), {"bash": bash, "llm": llm.handler}).status is Status.COMPLETED
    assert (len(bash.executed), llm.prompts) == (1, ["right", "after", "after"])


def test_a_fork_is_verified_like_any_run(bench: Bench) -> None:
    run = bench.create()
    bench.drive(run, ScriptedCells([three]), {"llm": Counting().handler})
    made = fork(bench, run, call(run, 2))
    bench.drive(made, ScriptedCells([three]), {"llm": Counting().handler})
    subject = Subject(made.folder, revision=made.spec.revision, digest=made.spec.snapshot_digest)
    verdict = asyncio.run(verify(made, subject, cells=ScriptedCells([three]), deadline_s=60))
    assert (verdict.holds, verdict.asked) == (True, 3)


# another revision


def test_a_fork_is_not_told_from_the_record_what_its_revision_may_not_ask_for(bench: Bench) -> None:
    def asking() -> Playing:
        found = [(yield ask("llm", prompt="one"))]
        try:
            found.append((yield ask("read", path="notes.txt")))
        except CallError as error:
            found.append(error.type_name)
        found.append((yield ask("llm", prompt="two")))
        return found

    files, llm = Answers(lambda _: "what the file holds", permission="workspace.read"), Counting()
    handlers = {"read": files, "llm": llm.handler}
    run = bench.create(permissions=("workspace.read",))
    bench.drive(run, ScriptedCells([asking]), handlers)
    assert result_of(run) == ["one 1", "what the file holds", "two 2"]

    inherited = inherit(run, call(run, 3), refused=frozenset({"read"}))
    spec = forked_spec(run.spec, inherited, snapshot=snapshot(run), now=bench.clock.now())
    made = bench.store.create(spec.model_copy(update={"permissions": ()}), inherited=inherited)
    bench.drive(made, ScriptedCells([asking]), handlers)
    assert result_of(made) == ["one 1", "PermissionError", "two 3"]


def test_a_fork_on_another_revision_gets_its_pins_and_permissions(bench: Bench, tmp_path: Path) -> None:
    run = bench.create()
    bench.drive(run, ScriptedCells([three]), {"llm": Counting().handler})
    package = tmp_path / "tree" / "workflows" / run.spec.workflow_id
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text(
        f'[project]\nname = "{run.spec.workflow_id}"\nversion = "2"\ndescription = "A."\nkeywords = ["a"]\n'
        '[tool.cloche]\npermissions = ["workspace.write", "network"]\n'
    )
    revision = "e" * 40
    made = fork(bench, run, call(run, 2), revision=revision, digest="f" * 64, pins={}, path=tmp_path / "tree")
    assert (made.spec.revision, made.spec.snapshot_digest, made.spec.pins) == (revision, "f" * 64, {})
    assert made.spec.permissions == ("workspace.write",)


# refusals


def test_a_run_that_is_executed_and_a_call_that_is_none_are_refused(bench: Bench) -> None:
    run = bench.create()
    bench.drive(run, ScriptedCells([three]), {"llm": Counting().handler})
    with pytest.raises(CallNotFound, match="has no call 2"):
        inherit(run, 2)
    with lock(run.folder / "run.lock"), pytest.raises(RunOwned):
        inherit(run, call(run, 1))


def test_a_source_that_is_damaged_behind_the_call_is_refused(bench: Bench) -> None:
    run = bench.create()
    bench.drive(run, ScriptedCells([three]), {"llm": Counting().handler})
    raw = run.journal_path.read_bytes()
    run.journal_path.write_bytes(raw.replace(b'"three"', b'"three!"'))
    with pytest.raises(JournalDamaged):
        inherit(run, call(run, 1))


def test_a_damaged_large_value_is_refused_before_anything_is_made(bench: Bench) -> None:
    def program() -> Playing:
        yield ask("llm", prompt="p" * 100_000)
        yield ask("llm", prompt="two")

    run = bench.create()
    bench.drive(run, ScriptedCells([program]), {"llm": Counting().handler})
    blob = next((run.folder / "blobs").iterdir())
    blob.write_bytes(blob.read_bytes()[:-3] + b'x!"')
    with pytest.raises(JournalDamaged):
        fork(bench, run, call(run, 2))
    assert [one.run_id for one in bench.store.list()[0]] == [run.run_id]


def test_a_fork_that_cannot_be_written_leaves_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageFull("no space left.")

    run = bench.create()
    bench.drive(run, ScriptedCells([three]), {"llm": Counting().handler})
    monkeypatch.setattr("engine.run.store.begun", full)
    with pytest.raises(StorageFull):
        fork(bench, run, call(run, 2))
    assert [path.name for path in run.folder.parent.iterdir()] == [run.run_id]
