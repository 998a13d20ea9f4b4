"""Commands under each runtime: a package is published and run, and the record says under what."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.sandbox.policy import Runtime
from tests.helpers.commands import Commands
from tests.helpers.publishing import package_files, write_package

pytestmark = [pytest.mark.sandbox, pytest.mark.both_runtimes]


def test_a_package_is_published_and_run_by_commands(cloche: Commands, tmp_path: Path, runtime: Runtime) -> None:
    package = write_package(tmp_path / "candidates", "greet", package_files("greet"))
    published = cloche("workflows", "publish", package, "--json")
    assert published.code == 0, published.stderr
    run = cloche("workflows", "run", "greet", "a", "--json").data
    assert (run["status"], run["value"]) == ("completed", "a!")
    (journal,) = cloche.home.glob(f"sessions/*/workflows/{run['run_id']}/journal.jsonl")
    assert f'"runtime":"{runtime}"' in journal.read_text(encoding="utf-8")
