"""The reaper on an engine that lists and then fails: what could not be ended is in its list."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from engine.errors import EngineTimeout
from engine.sandbox.docker import Engine
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
        sandbox = make_sandbox(tmp_path, Engine(host, timeout_s=0.3))
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
