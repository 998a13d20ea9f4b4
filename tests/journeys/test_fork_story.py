"""A run forked before one of its calls, through the command line: the same revision, a mended one, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.clock import SystemClock
from engine.run.store import RunStore
from tests.helpers.commands import Commands, end, package

pytestmark = pytest.mark.sandbox

COUNT = """
    from cloche import now
    from cloche.programs import read

    from .helpers.constant import ANSWER


    def count(task: str) -> dict[str, object]:
        at = now()
        first = len(read("a.txt")["text"])
        second = len(read("b.txt")["text"])
        return {"at": at, "first": first, "second": second, "per": ANSWER // int(task)}
"""


HUMBLE = """
    import dataclasses
    import operator

    from cloche import now

    from .helpers.constant import ANSWER


    def count(task: str) -> int:
        loaded = operator.attrgetter("sys")(dataclasses).modules
        read = loaded["importlib"].import_module("cloche.programs").read
        now()
        return ANSWER * len(read("a.txt")["text"])
"""
"""May not read, and imports what does where no rule sees it."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.txt").write_text("a" * 10)
    (folder / "b.txt").write_text("b" * 20)
    return folder


@pytest.fixture
def folder(cloche: Commands, tmp_path: Path) -> Path:
    made = package(tmp_path, "count", COUNT)
    assert cloche("workflows", "publish", made, "--json").code == 0
    return made


def call(cloche: Commands, run_id: str, nth: int) -> str:
    """The number of the nth call, as `runs show` prints it."""
    return str(cloche("runs", "show", run_id, "--json").data["calls"][nth - 1]["seq"])


def contents(cloche: Commands, run_id: str) -> dict[str, bytes]:
    place = RunStore(cloche.home, clock=SystemClock()).open(run_id).folder
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_fork_keeps_what_is_before_its_call_and_makes_the_rest_again(
    cloche: Commands, folder: Path, workspace: Path
) -> None:
    run_id = cloche("workflows", "run", "count", "2", "--workspace", workspace, "--json").data["run_id"]
    value = cloche("runs", "show", run_id, "--result", "--json").data["value"]
    (workspace / "a.txt").write_text("a" * 100)
    (workspace / "b.txt").write_text("b" * 200)
    before = contents(cloche, run_id)
    forked = cloche("runs", "fork", run_id, "--from", call(cloche, run_id, 3), "--json")
    assert forked.code == 0, forked
    assert forked.data["value"] == {**value, "second": 200}
    assert forked.data["forked_from"]["run"] == run_id
    assert (forked.data["counts"]["replayed"], forked.data["counts"]["executed"]) == (2, 1)
    assert contents(cloche, run_id) == before
    text = cloche("runs", "show").stdout
    assert f"forked    from {run_id}, before its call" in text
    assert cloche("runs", "verify", forked.data["run_id"], "--json").code == 0
    assert cloche("runs", "verify", run_id, "--json").code == 0


def test_a_failed_run_goes_on_in_a_fork_on_a_mended_revision(cloche: Commands, folder: Path, workspace: Path) -> None:
    failed = cloche("workflows", "run", "count", "0", "--workspace", workspace, "--json")
    assert (failed.code, failed.data["reason"]) == (1, "program")
    run_id = failed.data["run_id"]
    workflow = folder / "workflow.py"
    workflow.write_text(workflow.read_text().replace("ANSWER // int(task)", "ANSWER // max(1, int(task))"))
    mended = cloche("workflows", "publish", folder, "--replace", "--json").data["revision"]
    last = call(cloche, run_id, 3)
    same = cloche("runs", "fork", run_id, "--from", last, "--json")
    assert (same.code, same.data["reason"]) == (1, "program")
    forked = cloche("runs", "fork", run_id, "--from", last, "--revision", mended[:12], "--json")
    assert forked.code == 0, forked
    assert (forked.data["revision"], forked.data["value"]["per"]) == (mended, 42)
    assert forked.data["counts"]["replayed"] == 2
    assert cloche("runs", "show", run_id, "--json").data["status"] == "failed"


def test_a_revision_that_may_not_read_is_not_told_by_a_fork_what_another_one_read(
    cloche: Commands, folder: Path, workspace: Path
) -> None:
    run_id = cloche("workflows", "run", "count", "2", "--workspace", workspace, "--json").data["run_id"]
    humble = package(folder.parent / "humble", "count", HUMBLE, permissions='"ask"')
    revision = cloche("workflows", "publish", humble, "--replace", "--json").data["revision"]
    forked = cloche("runs", "fork", run_id, "--from", call(cloche, run_id, 3), "--revision", revision, "--json")
    assert (forked.code, forked.data["reason"]) == (1, "program")
    assert "needs the permission workspace.read" in forked.data["error"]["message"]
    assert forked.data["counts"]["replayed"] == 1


def test_what_cannot_be_forked_is_refused_and_makes_no_run(cloche: Commands, folder: Path, workspace: Path) -> None:
    assert cloche("runs", "fork", "20261130T120000Z-00000001", "--from", "4").code == 5
    run_id = cloche("workflows", "run", "count", "2", "--workspace", workspace, "--json").data["run_id"]
    missing = cloche("runs", "fork", run_id, "--from", "1", "--json")
    assert (missing.code, missing.error["code"]) == (5, "call_not_found")
    assert cloche("runs", "fork", run_id, "--json").error["code"] == "usage"
    first = call(cloche, run_id, 1)
    gone = cloche("runs", "fork", run_id, "--from", first, "--revision", "0" * 40, "--json")
    assert gone.code == 5
    journal = RunStore(cloche.home, clock=SystemClock()).open(run_id).journal_path
    journal.write_bytes(journal.read_bytes().replace(b"b.txt", b"c.txt", 1))
    damaged = cloche("runs", "fork", run_id, "--from", first, "--json")
    assert (damaged.code, damaged.error["code"]) == (7, "journal_damaged")
    assert len(list((cloche.home / "sessions" / "default" / "workflows").iterdir())) == 1


LONG = """
    import asyncio

    from cloche.programs import read

    from .helpers.constant import ANSWER


    async def _until_it_may_go() -> None:
        while read("say.txt")["text"].strip() != "go":
            await asyncio.sleep(0.05)


    def long(task: str) -> int:
        for i in range(int(task)):
            read("a.txt", offset=i, limit=1)
        asyncio.run(_until_it_may_go())
        return ANSWER
"""


def test_a_run_is_forked_when_it_ended_and_not_before(cloche: Commands, tmp_path: Path, workspace: Path) -> None:
    assert cloche("workflows", "publish", package(tmp_path, "long", LONG), "--json").code == 0
    (workspace / "say.txt").write_text("wait\n")
    process = cloche.start("workflows", "run", "long", "20", "--workspace", workspace)
    run_id = cloche.wait_for_calls(20)
    running = cloche("runs", "fork", run_id, "--from", call(cloche, run_id, 10), "--json")
    assert (running.code, running.error["code"]) == (4, "run_owned")
    end(process)
    (workspace / "say.txt").write_text("go\n")
    tenth = call(cloche, run_id, 10)
    before = contents(cloche, run_id)
    forked = cloche("runs", "fork", run_id, "--from", tenth, "--json")
    assert forked.code == 0, forked
    assert (forked.data["value"], forked.data["counts"]["replayed"]) == (42, 9)
    assert contents(cloche, run_id) == before
