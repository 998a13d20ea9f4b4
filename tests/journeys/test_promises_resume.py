"""A resumed run stays what it was, whatever was published meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.commands import Commands, end, package

pytestmark = pytest.mark.sandbox

TWO = """
    from cloche.programs import read

    from .helpers.constant import ANSWER


    def two(task: str) -> list[object]:
        for i in range(int(task)):
            read("data.txt", offset=i, limit=1)
        return [ANSWER, read("data.txt", limit=1)["size"]]
"""


def test_a_resume_keeps_snapshot_pins_and_workspace_and_publishes_nothing(cloche: Commands, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "data.txt").write_text("x" * 10_000)
    folder = package(tmp_path, "two", TWO)
    first = cloche("workflows", "publish", folder, "--json").data
    process = cloche.start("workflows", "run", "two", "3000", "--workspace", workspace)
    run_id = cloche.wait_for_calls(20)
    end(process)
    (folder / "helpers" / "constant.py").write_text("ANSWER = 43\n")
    second = cloche("workflows", "publish", folder, "--replace", "--json").data
    (tmp_path / "elsewhere").mkdir()
    resumed = cloche("runs", "resume", run_id, "--json", cwd=tmp_path / "elsewhere").data
    assert (resumed["status"], resumed["value"]) == ("completed", [42, 10_000])
    assert resumed["revision"] == first["revision"] != second["revision"]
    log = cloche("workflows", "log", "two", "--json").data["revisions"]
    assert [row["revision"] for row in log] == [second["revision"], first["revision"]]
