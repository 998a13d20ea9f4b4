"""Commands leave a started cell behind for the next one, which then needs no container engine at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.sandbox.docker import Engine
from tests.helpers.commands import Commands
from tests.helpers.publishing import package_files, write_package
from tests.helpers.sandbox import wait_for

pytestmark = pytest.mark.sandbox


@pytest.fixture
def warm(cloche: Commands) -> Iterator[Commands]:
    """Commands whose pool has one place of a kind; nothing of it is left at the end."""
    commands = replace(cloche, environment={**cloche.environment, "CLOCHE_WARM_CELLS": "1"})
    yield commands
    settled(commands)
    assert commands("cells", "reap", "--idle", "--json").code == 0
    assert cells(commands) == []


def cells(commands: Commands) -> list[Any]:
    return list(commands("cells", "list", "--json").data["cells"])


def settled(commands: Commands) -> list[Any]:
    """The cells of the home, once only such are left that wait."""
    found: list[Any] = []

    def quiet() -> bool:
        found[:] = cells(commands)
        return all(one["idle"] for one in found) and "run" in {one["kind"] for one in found}

    wait_for(quiet, timeout_s=60)
    return found


def test_the_second_run_starts_in_the_cell_that_the_first_one_left_and_asks_no_engine(
    warm: Commands, tmp_path: Path, engine_with_image: Engine
) -> None:
    package = write_package(tmp_path / "candidates", "greet", package_files("greet"))
    assert warm("workflows", "publish", package, "--json").code == 0
    first = warm("workflows", "run", "greet", "a", "--json").data
    (waiting,) = [one for one in settled(warm) if one["kind"] == "run"]

    before = warm("cells", "list", "--json").data["pool"]
    engineless = replace(warm, environment={**warm.environment, "PYTHONPROFILEIMPORTTIME": "1"})
    answer = engineless("workflows", "run", "greet", "b", "--json")
    assert " docker" not in answer.stderr, warm("cells", "list", "--json").data["pool"]
    second = answer.data
    assert [run["status"] for run in (first, second)] == ["completed", "completed"]
    assert waiting["cell_id"] not in {one["cell_id"] for one in settled(warm)}
    pool = warm("cells", "list", "--json").data["pool"]
    assert (pool["warm"] - before["warm"], pool["cold"] - before["cold"], pool["dead"], pool["failed"]) == (1, 0, 0, 0)
