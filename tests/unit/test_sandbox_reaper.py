"""The reaper on an engine that lists and then fails, and beside others that make and remove cells at that moment."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.errors import EngineTimeout
from engine.sandbox.docker import Engine
from engine.sandbox.place import Intent, Place, container_name
from engine.sandbox.service import home_id
from tests.helpers.fake_engine import Behaviour, after_version, answer, fake_engine, hang
from tests.helpers.sandbox import make_sandbox

CELL = "c0123456789abcdef"


def engine_with_one_cell(home: str, then: Behaviour) -> Behaviour:
    """Lists one cell of the home; everything else is `then`."""
    labels = {"io.cloche.home": home, "io.cloche.cell": CELL, "io.cloche.expires": "99999999999"}
    listed = answer([{"Id": "x" * 64, "Names": [f"/cloche-{CELL}"], "State": "running", "Labels": labels}])
    shown = answer({"Id": "x" * 64, "Config": {"Labels": labels}, "State": {"Running": True}})

    def behave(connection: socket.socket, request: bytes) -> None:
        if b"/containers/json" in request:
            listed(connection, request)
        elif b"GET /" in request:
            shown(connection, request)
        else:
            then(connection, request)

    return after_version(behave)


@pytest.mark.parametrize(
    ("then", "told"),
    [(hang, "gave no answer"), (answer({"message": "device busy"}, "500 Internal Server Error"), "device busy")],
    ids=["hangs", "refuses"],
)
def test_what_could_not_be_removed_is_listed_with_the_reason_and_kept(
    tmp_path: Path, then: Behaviour, told: str
) -> None:
    place = tmp_path / "cells" / CELL
    place.mkdir(parents=True)
    (place / "cell.json").write_text("{}")
    with fake_engine(engine_with_one_cell(home_id(tmp_path), then)) as host:
        sandbox = make_sandbox(tmp_path, Engine(host, timeout_s=2))
        (reaped,) = sandbox.reap()
        assert (reaped.cell_id, reaped.why) == (CELL, "owner_dead")
        assert told in reaped.problem
        (listed,) = sandbox.list_cells()
        assert (listed.cell_id, listed.owned, listed.state) == (CELL, False, "running")
    assert place.is_dir()


def test_nothing_is_touched_when_the_engine_does_not_answer(tmp_path: Path) -> None:
    place = tmp_path / "cells" / CELL
    place.mkdir(parents=True)
    with fake_engine(hang) as host, pytest.raises(EngineTimeout):
        make_sandbox(tmp_path, Engine(host, timeout_s=0.3)).reap()
    assert place.is_dir()


def test_a_home_keeps_its_id_and_two_homes_differ(tmp_path: Path) -> None:
    first = home_id(tmp_path / "a")
    assert home_id(tmp_path / "a") == first
    assert home_id(tmp_path / "b") != first
    assert len(first) == 32


def engine_without_cells() -> Behaviour:
    return after_version(answer([]))


def intent(cell: str) -> Intent:
    now = datetime.now(UTC)
    return Intent(
        cell=cell,
        container=container_name(cell),
        kind="run",
        image_id="sha256:0",
        runtime="runc",
        policy="0",
        uid=0,
        run_id="",
        generation=0,
        owner_pid=1,
        boot_id="0",
        created_at=now,
        expires_at=now,
    )


@pytest.mark.parametrize("record", [True, False], ids=["record made", "record to come"])
def test_a_directory_that_is_just_being_made_is_left_alone(tmp_path: Path, record: bool) -> None:
    aside = tmp_path / "cells" / f".{CELL}"
    aside.mkdir(parents=True)
    if record:  # its maker has opened it, and comes to lock it next
        (aside / "cell.json").touch()
    with fake_engine(engine_without_cells()) as host:
        assert make_sandbox(tmp_path, Engine(host)).reap() == []
    assert aside.is_dir()


def test_no_record_is_put_into_a_directory_that_its_owner_is_removing(tmp_path: Path) -> None:
    place = Place.make(tmp_path, intent(CELL))
    (place.path / "cell.json").unlink()
    with fake_engine(engine_without_cells()) as host:
        assert make_sandbox(tmp_path, Engine(host)).reap() == []
    assert list(place.path.iterdir()) == []
    place.remove()


def test_cells_that_come_and_go_while_others_reap_harm_nobody(tmp_path: Path) -> None:
    over = threading.Event()

    def reap_on(host: str) -> int:
        sandbox, reaped = make_sandbox(tmp_path, Engine(host)), 0
        while not over.is_set():
            reaped += len(sandbox.reap())
        return reaped

    with fake_engine(engine_without_cells()) as host, ThreadPoolExecutor(2) as pool:
        reapers = [pool.submit(reap_on, host) for _ in range(2)]
        try:
            for number in range(300):
                place = Place.make(tmp_path, intent(f"c{number:016x}"))
                (place.path / "in" / "parts").mkdir(parents=True)
                place.remove()
        finally:
            over.set()
        assert [reaper.result() for reaper in reapers] == [0, 0]
    assert list((tmp_path / "cells").iterdir()) == []
