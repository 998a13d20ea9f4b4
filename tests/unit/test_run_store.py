"""Runs on disk: created whole, found by id, damage named, and what may leave a run into a model."""

from __future__ import annotations

import json
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from engine.agents import open_handlers
from engine.clock import SystemClock
from engine.errors import Conflict, UsageError
from engine.run.claim import claimed, read_owner
from engine.run.folder import Run
from engine.run.journal import JournalDamaged, read
from engine.run.payload import public_payload, summary
from engine.run.projection import result_of, view_of
from engine.run.status import Status
from engine.run.store import RunNotFound
from engine.run.view import RunView
from tests.helpers.cells import Answers, CallError, ScriptedCells, ask
from tests.helpers.runs import Bench

Playing = Generator[Any, Any, Any]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def finished(bench: Bench) -> tuple[Run, RunView]:
    """A completed run with one call."""

    def program() -> Playing:
        return (yield ask("llm", prompt="secret prompt"))

    run = bench.create()
    return run, bench.drive(run, ScriptedCells([program]), {"llm": Answers(lambda _: "secret reply")})


def test_a_created_run_is_found_by_its_id_whatever_its_session(bench: Bench) -> None:
    run = bench.create(session="mine")
    found = bench.store.open(run.run_id)
    assert found == run
    assert found.folder == bench.home / "sessions/mine/workflows" / run.run_id
    assert stat.S_IMODE(found.folder.stat().st_mode) == 0o700
    assert {path.name for path in found.folder.iterdir()} == {"run.json", "journal.jsonl"}
    assert list(found.folder.parent.iterdir()) == [found.folder]


def test_a_run_that_was_never_executed_is_interrupted(bench: Bench) -> None:
    view = view_of(bench.create())
    assert (view.status, view.reason) == (Status.INTERRUPTED, "not_started")


@pytest.mark.parametrize("run_id", ["20261130T120000Z-ffffffff", "../..", "*", ""])
def test_a_run_that_does_not_exist_is_not_found(bench: Bench, run_id: str) -> None:
    bench.create()
    with pytest.raises(RunNotFound) as caught:
        bench.store.open(run_id)
    assert caught.value.exit_code == 5


def test_a_run_id_is_used_once_and_ids_have_the_form_of_ids(bench: Bench) -> None:
    bench.create()
    with pytest.raises(Conflict):
        bench.create()
    for changes in ({"session": "../x"}, {"run_id": "x"}):
        with pytest.raises(UsageError):
            bench.create(**changes)


def test_runs_are_listed_newest_first_and_broken_ones_are_told(bench: Bench) -> None:
    ids = [f"20261130T12000{i}Z-0000000{i}" for i in range(3)]
    runs = [bench.create(run_id=run_id, session="ab"[i % 2]) for i, run_id in enumerate(ids)]
    listed, broken = bench.store.list()
    assert ([run.run_id for run in listed], broken) == (ids[::-1], [])
    assert [run.run_id for run in bench.store.list(session="b")[0]] == [ids[1]]
    (runs[0].folder / "run.json").write_text("{", encoding="utf-8")
    listed, broken = bench.store.list()
    assert [run.run_id for run in listed] == [ids[2], ids[1]]
    assert "run.json" in str(broken[0])


def test_the_newest_of_runs_made_within_one_second_is_the_last_one(bench: Bench) -> None:
    made = [("20261130T120000Z-ffffffff", 0.1), ("20261130T120000Z-00000000", 0.3), ("20261130T120000Z-77777777", 0.2)]
    begun = bench.clock.now().timestamp()
    for run_id, later in made:
        bench.create(run_id=run_id, created_at=begun + later)
    assert [run.run_id[-1] for run in bench.store.list()[0]] == ["0", "7", "f"]
    assert bench.store.newest().run_id == made[1][0]


def test_a_changed_run_json_is_told(bench: Bench) -> None:
    run, _ = finished(bench)
    path = run.folder / "run.json"
    path.write_bytes(path.read_bytes().replace(b"/srv/data", b"/srv/dat4"))
    with pytest.raises(JournalDamaged, match=r"run\.json"):
        bench.store.open(run.run_id).read()


def test_any_changed_byte_of_the_last_line_is_told(bench: Bench) -> None:
    run, _ = finished(bench)
    raw = run.journal_path.read_bytes()
    begin, number = raw[:-1].rfind(b"\n") + 1, raw.count(b"\n")
    for offset in range(begin, len(raw)):
        changed = bytearray(raw)
        changed[offset] ^= 0x01
        run.journal_path.write_bytes(bytes(changed))
        with pytest.raises(JournalDamaged) as caught:
            run.read()
        assert caught.value.line == number
    run.journal_path.write_bytes(raw[:begin])
    with pytest.raises(JournalDamaged, match="is missing"):
        run.read()


def test_a_changed_or_missing_blob_is_told(bench: Bench) -> None:
    def program() -> Playing:
        return (yield ask("llm", prompt="x"))

    run = bench.create()
    bench.drive(run, ScriptedCells([program]), {"llm": Answers(lambda _: "y" * 100_000)})
    (blob,) = (run.folder / "blobs").iterdir()
    content = blob.read_bytes()
    blob.write_bytes(content.replace(b"y", b"z", 1))
    with pytest.raises(JournalDamaged, match=blob.name):
        result_of(run)
    blob.unlink()
    with pytest.raises(JournalDamaged, match="not there"):
        result_of(run)


def test_a_damaged_journal_can_be_neither_shown_nor_resumed(bench: Bench) -> None:
    run, _ = finished(bench)
    raw = run.journal_path.read_bytes()
    run.journal_path.write_bytes(raw.replace(b'"cell":"c0', b'"cell":"d0', 1))
    for use in (lambda: view_of(run), lambda: bench.drive(run, ScriptedCells([lambda: iter(())]), {})):  # type: ignore[arg-type,return-value]
        with pytest.raises(JournalDamaged, match="line 3") as caught:
            use()
        assert caught.value.exit_code == 7


def test_a_torn_line_is_cut_off_and_told_by_the_next_generation(bench: Bench) -> None:
    def program() -> Playing:
        return None
        yield

    run = bench.create()
    with run.journal_path.open("ab") as file:
        file.write(b'{"s":2,"at":')
    view = bench.drive(run, ScriptedCells([program]), {})
    assert (view.status, view.generations[0].torn) == (Status.COMPLETED, 12)
    assert read(run.journal_path).torn == 0


def test_the_owner_is_named_in_the_lock(bench: Bench) -> None:
    import os

    run = bench.create()
    assert (run.is_owned(), read_owner(run)) == (False, None)
    with claimed(run):
        owner = read_owner(run)
        assert run.is_owned()
        assert owner is not None
        assert owner.pid == os.getpid()
    assert not run.is_owned()


def test_the_public_payload_has_no_arguments_errors_or_results(bench: Bench) -> None:
    run, view = finished(bench)
    payload = public_payload(run, view)
    assert "secret" not in json.dumps(payload)
    assert (payload["return_result"], "result" in payload) == (False, False)
    assert (payload["status"], payload["workflow_id"], payload["calls"][0]["function"]) == (
        "completed",
        "log_triage",
        "llm",
    )
    assert public_payload(run, view, result_wanted=True)["result"] == "secret reply"


def test_what_a_workflow_delivers_is_the_result_that_leaves(bench: Bench) -> None:
    def program() -> Playing:
        yield ask("deliver", result={"large": "x" * 100_000})
        yield ask("deliver", result={"rows": 3})
        yield ask("deliver", path="report.txt")
        return "not this"

    run = bench.create()
    view = bench.drive(run, ScriptedCells([program]), open_handlers(clock=SystemClock(), model=None))
    payload = public_payload(run, view)
    assert (payload["return_result"], payload["result"]) == (True, {"rows": 3})
    assert len(view.deliveries) == 3


def test_a_run_that_did_not_complete_gives_no_result_even_if_asked(bench: Bench) -> None:
    def program() -> Playing:
        yield ask("deliver", result=1)
        raise ValueError("secret error")

    run = bench.create()
    view = bench.drive(run, ScriptedCells([program]), open_handlers(clock=SystemClock(), model=None))
    payload = public_payload(run, view, result_wanted=True)
    assert (payload["return_result"], "result" in payload, "secret" in json.dumps(payload)) == (False, False, False)


def test_the_summary_does_not_hide_handled_failures(bench: Bench) -> None:
    def program() -> Playing:
        try:
            yield ask("llm", prompt="x")
        except CallError:
            return "fine"

    view = bench.drive(bench.create(), ScriptedCells([program]), open_handlers(clock=SystemClock(), model=None))
    assert view.status is Status.COMPLETED
    assert "1 of them failed" in summary(view)


def test_draws_are_recorded_one_each_and_replay(bench: Bench) -> None:
    def program(last: Any) -> Any:
        def play() -> Playing:
            found = [(yield ask("now")), (yield ask("random")), (yield ask("new_id")), (yield ask("random"))]
            if last:
                raise ValueError("again")
            return found

        return play

    run, handlers = bench.create(), open_handlers(clock=SystemClock(), model=None)
    cells = ScriptedCells([program(True), program(False)])
    bench.drive(run, cells, handlers)
    bench.drive(run, cells, handlers)
    assert cells.opened[0].replies == cells.opened[1].replies
    moment, first, identifier, second = (reply[2] for reply in cells.opened[1].replies)
    assert moment["$datetime"][1] == {"$timezone": [0, None]}
    assert 0 <= first < 1
    assert first != second
    assert len(identifier) == 32
