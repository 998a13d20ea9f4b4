"""The main job through the command line, on real containers: publish, run, look, interrupt, resume, cancel."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from tests.helpers.commands import EXAMPLES, Commands, end, package
from tests.helpers.sandbox import wait_for

pytestmark = pytest.mark.sandbox

PAGES = """
    from cloche import now
    from cloche.programs import read

    from .helpers.constant import ANSWER


    def pages(task: str) -> dict[str, object]:
        total = 0
        for i in range(int(task)):
            total += len(read("data.txt", offset=i, limit=1)["text"])
        return {"total": total, "answer": ANSWER, "at": now()}
"""

SLEEPER = """
    import asyncio

    from cloche import now

    from .helpers.constant import ANSWER


    async def _doze() -> None:
        await asyncio.sleep(600)


    def sleeper(task: str) -> int:
        now()
        asyncio.run(_doze())
        return ANSWER
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "data.txt").write_text("x" * 10_000)
    return folder


def publish(cloche: Commands, folder: Path, *options: str) -> dict[str, object]:
    """Publish and insist on it."""
    done = cloche("workflows", "publish", folder, "--json", *options)
    assert done.code == 0, done
    return done.data


def test_a_package_on_another_one_is_published_and_run_at_its_pins(cloche: Commands, tmp_path: Path) -> None:
    first = publish(cloche, EXAMPLES / "requirements_parse")
    second = publish(cloche, EXAMPLES / "dependency_review")
    assert second["pins"] == {"requirements_parse": first["revision"]}
    listed = cloche("workflows", "list", "--json").data
    assert [row["workflow_id"] for row in listed["workflows"]] == ["dependency_review", "requirements_parse"]
    assert listed["problems"] == []

    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "requirements.txt").write_text("anyio==4.9.0\ndocker\n")
    ran = cloche("workflows", "run", "dependency_review", "--workspace", workspace, "--json")
    assert (ran.code, ran.data["status"]) == (0, "completed"), ran.stderr
    groups = [node["name"] for node in ran.data["calls"] if node["kind"] == "dependency"]
    assert all("requirements_parse" in name for name in groups)
    assert "docker" in json.dumps(ran.data["value"])

    shown = cloche("runs", "show")
    assert shown.code == 0
    assert "✓ glob(" in shown.stdout
    assert f"pin       requirements_parse {first['revision']}" in shown.stdout
    assert re.search(r"^  1  \d\d:\d\d:\d\d .* completed$", shown.stdout, re.MULTILINE)


def test_the_same_bytes_are_not_published_twice_and_new_ones_need_replace(cloche: Commands, tmp_path: Path) -> None:
    folder = package(tmp_path, "pages", PAGES)
    first = publish(cloche, folder)
    again = cloche("workflows", "publish", folder, "--replace", "--json")
    assert (again.code, again.error["code"]) == (4, "revision_unchanged")
    (folder / "helpers" / "constant.py").write_text("ANSWER = 43\n")
    taken = cloche("workflows", "publish", folder, "--json")
    assert (taken.code, taken.error["code"]) == (4, "name_taken")
    second = publish(cloche, folder, "--replace")
    log = cloche("workflows", "log", "pages", "--json").data["revisions"]
    assert [row["revision"] for row in log] == [second["revision"], first["revision"]]
    changes = cloche("workflows", "diff", "pages", str(first["revision"])[:8]).stdout
    assert "-ANSWER = 42" in changes
    assert "+ANSWER = 43" in changes


def test_an_old_revision_runs_after_a_new_one_was_published(cloche: Commands, tmp_path: Path, workspace: Path) -> None:
    folder = package(tmp_path, "pages", PAGES)
    first = publish(cloche, folder)
    (folder / "helpers" / "constant.py").write_text("ANSWER = 43\n")
    publish(cloche, folder, "--replace")
    old = cloche(
        "workflows", "run", f"pages@{str(first['revision'])[:10]}", "1", "--workspace", workspace, "--json"
    ).data
    new = cloche("workflows", "run", "pages", "1", "--workspace", workspace, "--json").data
    assert (old["value"]["answer"], new["value"]["answer"]) == (42, 43)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_goes_on_where_it_stopped(
    number: signal.Signals, cloche: Commands, tmp_path: Path, workspace: Path
) -> None:
    publish(cloche, package(tmp_path, "pages", PAGES))
    process = cloche.start("workflows", "run", "pages", "3000", "--workspace", workspace)
    run_id = cloche.wait_for_calls(50)
    answer = end(process, number=number)
    assert answer.code == (-9 if number is signal.SIGKILL else 130)
    before = cloche("runs", "show", run_id, "--json").data
    assert before["status"] == "interrupted"
    assert 50 <= before["counts"]["completed"] < 3001

    resumed = cloche("runs", "resume", run_id, "--json")
    assert resumed.code == 0, resumed.stderr
    assert resumed.data["value"]["total"] == 3000
    assert resumed.data["counts"]["replayed"] >= before["counts"]["completed"]
    assert resumed.data["counts"]["calls"] == 3001
    assert len(resumed.data["generations"]) == 2
    again = cloche("runs", "resume", run_id, "--json").data
    assert again["value"] == resumed.data["value"]
    assert len(again["generations"]) == 2
    assert cloche("cells", "list", "--json").data["cells"] == []


def test_a_run_is_cancelled_from_another_process_for_good(cloche: Commands, tmp_path: Path, workspace: Path) -> None:
    publish(cloche, package(tmp_path, "sleeper", SLEEPER))
    process = cloche.start("workflows", "run", "sleeper", "--workspace", workspace)
    run_id = cloche.wait_for_calls(1)
    cancelled = cloche("runs", "cancel", run_id, "--json")
    assert (cancelled.code, cancelled.data["status"]) == (0, "cancelled")
    process.communicate(timeout=120)
    assert process.returncode == 6
    refused = cloche("runs", "resume", run_id, "--json")
    assert refused.code == 6
    assert cloche("cells", "list", "--json").data["cells"] == []


def test_a_run_without_an_owner_is_cancelled_by_whoever_asks(cloche: Commands, tmp_path: Path, workspace: Path) -> None:
    publish(cloche, package(tmp_path, "sleeper", SLEEPER))
    process = cloche.start("workflows", "run", "sleeper", "--workspace", workspace)
    run_id = cloche.wait_for_calls(1)
    end(process, number=signal.SIGKILL)
    assert cloche("runs", "cancel", run_id, "--json").data["status"] == "cancelled"
    assert cloche("cells", "list", "--json").data["cells"] == []


def test_two_resumers_do_not_run_one_run_at_once(cloche: Commands, tmp_path: Path, workspace: Path) -> None:
    publish(cloche, package(tmp_path, "sleeper", SLEEPER))
    process = cloche.start("workflows", "run", "sleeper", "--workspace", workspace)
    run_id = cloche.wait_for_calls(1)
    second = cloche("runs", "resume", run_id, "--json")
    assert (second.code, second.error["code"]) == (4, "run_owned")
    assert str(process.pid) in second.error["message"]
    end(process)


def test_watch_follows_a_run_to_its_end(cloche: Commands, tmp_path: Path, workspace: Path) -> None:
    publish(cloche, package(tmp_path, "sleeper", SLEEPER))
    process = cloche.start("workflows", "run", "sleeper", "--workspace", workspace)
    run_id = cloche.wait_for_calls(1)
    watching = cloche.start("runs", "watch", run_id)
    end(process)
    stdout, _ = watching.communicate(timeout=120)
    assert watching.returncode == 1
    assert b"interrupted" in stdout


def test_the_weekly_report_says_that_its_model_is_scripted(cloche: Commands, tmp_path: Path) -> None:
    publish(cloche, EXAMPLES / "weekly_report")
    from examples import inputs

    made = inputs.ensure(tmp_path / "inputs", megabytes=1)
    model = f"scripted:{EXAMPLES / 'weekly_model.toml'}"
    ran = cloche(
        "workflows", "run", "weekly_report", "2026-W48", "--workspace", made.weekly, "--model", model, "--json"
    )
    assert ran.data["status"] == "completed", ran.stderr
    shown = cloche("runs", "show").stdout
    assert "model     scripted" in shown
    (folder,) = re.findall(r"^files   (.+)$", shown, re.MULTILINE)
    assert (Path(folder) / "weekly.md").is_file()


def test_a_probe_of_this_machine_holds(shared: Commands) -> None:
    wanted = ("files_host_path", "forged_end", "memory_hog", "hook_in_conftest", "survivor")
    done = shared(
        "sandbox", "probe", "--group", "network", "--json", *(word for name in wanted for word in ("--only", name))
    )
    assert done.code == 0, done
    assert {row["verdict"] for row in done.data["attempts"]} == {"blocked"}
    assert {row["name"] for row in done.data["attempts"] if row["group"] != "network"} == set(wanted)
    assert len(done.data["attempts"]) > len(wanted)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--only", "network_inett"), "no attempt 'network_inett'.\n  → Did you mean network_inet"),
        (("--group", "networks"), "no group 'networks'.\n  → Did you mean network"),
    ],
)
def test_an_attempt_or_group_that_does_not_exist_is_told_with_those_like_it(
    words: tuple[str, str], told: str, shared: Commands
) -> None:
    done = shared("sandbox", "probe", *words)
    assert done.code == 2
    assert told in done.stderr


def test_doctor_tries_a_cell_of_each_runtime(shared: Commands) -> None:
    done = shared("doctor", "--json")
    assert done.code == 0, done
    states = {finding["name"]: finding["state"] for finding in done.data["findings"]}
    assert states["runc"] == "ok"
    assert states["runsc"] in ("ok", "absent")


def test_reaping_ends_what_a_killed_command_left(cloche: Commands, tmp_path: Path, workspace: Path) -> None:
    publish(cloche, package(tmp_path, "sleeper", SLEEPER))
    process = cloche.start("workflows", "run", "sleeper", "--workspace", workspace)
    cloche.wait_for_calls(1)
    end(process, number=signal.SIGKILL)
    assert [cell["owned"] for cell in cloche("cells", "list", "--json").data["cells"]] == [False]
    assert [one["why"] for one in cloche("cells", "reap", "--json").data["reaped"]] == ["owner_dead"]
    wait_for(lambda: cloche("cells", "list", "--json").data["cells"] == [])
