"""What a user gets for every kind of bad input: one clear sentence, its own name, the right exit code, and nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.commands import EXAMPLES, Answer, Commands, end, package
from tests.helpers.sandbox import wait_for

pytestmark = pytest.mark.sandbox

TRIVIAL = """
    from .helpers.constant import ANSWER


    def trivial(task: str) -> int:
        return ANSWER
"""


def check_refused(answer: Answer, *, exit_code: int, code: str) -> None:
    """With `--json`: the exit code, the name, one sentence, a way out, and no traceback."""
    assert answer.code == exit_code, answer
    assert answer.error["code"] == code
    assert answer.error["message"]
    assert answer.error["exit"] == exit_code
    assert "Traceback" not in answer.stderr + answer.stdout


def workflow(name: str, *lines: str) -> str:
    """A workflow.py whose entry has this body."""
    body = "\n".join(f"    {line}" for line in lines)
    imports = "import asyncio\nfrom cloche import emit\nfrom .helpers.constant import ANSWER\n"
    return f"{imports}\n\ndef {name}(task: str) -> object:\n{body}\n"


@pytest.fixture(scope="module")
def with_trivial(shared: Commands, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    folder = package(tmp_path_factory.mktemp("trivial"), "trivial", TRIVIAL)
    done = shared("workflows", "publish", folder)
    assert done.code == 0, done
    return shared


# arguments


def test_no_command_prints_help_and_a_wrong_one_is_a_usage_error(shared: Commands) -> None:
    assert "workflows" in shared("--help").stdout
    assert shared().stderr.startswith("Usage:")
    for words in (["nonsense"], ["runs", "nonsense"], ["runs", "show", "--nonsense"], ["workflows", "validate"]):
        answer = shared(*words)
        assert answer.code == 2, words
        assert "Traceback" not in answer.stderr


def test_a_directory_that_is_none_is_named(shared: Commands, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for verb in ("validate", "test", "publish"):
        check_refused(shared("workflows", verb, tmp_path / "absent", "--json"), exit_code=5, code="not_found")
        assert shared("workflows", verb, tmp_path / "file", "--json").code == 2


def test_an_unknown_workflow_revision_or_run_is_not_found(with_trivial: Commands) -> None:
    assert with_trivial("workflows", "run", "absent", "--json").code == 5
    assert with_trivial("workflows", "show", "absent", "--json").code == 5
    check_refused(
        with_trivial("workflows", "run", f"trivial@{'0' * 40}", "--json"), exit_code=5, code="unknown_revision"
    )
    check_refused(
        with_trivial("runs", "resume", "20260101T000000Z-00000000", "--json"), exit_code=5, code="run_not_found"
    )
    assert with_trivial("runs", "show", "../../etc", "--json").code == 5


def test_a_workspace_or_task_that_cannot_be_used_makes_no_run(with_trivial: Commands, tmp_path: Path) -> None:
    before = with_trivial.runs()
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for words in (
        ["--workspace", str(tmp_path / "absent")],
        ["--task-file", str(tmp_path / "absent")],
        ["--task-file", str(tmp_path / "large")],
        ["--task-file", str(tmp_path / "binary")],
        ["--model", "openai:gpt"],
        ["--model", f"scripted:{tmp_path / 'absent.toml'}"],
        ["--session", "../x"],
        ["task", "--task-file", str(tmp_path / "large")],
    ):
        answer = with_trivial("workflows", "run", "trivial", *words, "--json")
        assert answer.code == 2, (words, answer)
        assert answer.error["fix"], words
    assert with_trivial.runs() == before


def test_a_task_comes_from_standard_input(shared: Commands, tmp_path: Path) -> None:
    folder = package(tmp_path, "echo", workflow("echo", "return [task, ANSWER]"))
    assert shared("workflows", "publish", folder).code == 0
    answer = shared("workflows", "run", "echo", "--task-file", "-", "--json", stdin="grüße\n".encode())
    assert answer.data["value"] == ["grüße\n", 42]


def test_a_setting_that_is_no_number_is_a_usage_error(shared: Commands) -> None:
    wrong = Commands(shared.home, {"CLOCHE_MEMORY_BYTES": "lots"})
    check_refused(wrong("workflows", "list", "--json"), exit_code=2, code="usage")


# packages


@pytest.mark.parametrize(("name", "code"), [("invalid_package", "invalid_candidate"), ("failing_test", "tests_failed")])
def test_a_refused_package_publishes_nothing(name: str, code: str, shared: Commands) -> None:
    answer = shared("workflows", "publish", EXAMPLES / "refused" / name, "--json")
    check_refused(answer, exit_code=1, code=code)
    assert name not in {row["workflow_id"] for row in shared("workflows", "list", "--json").data["workflows"]}
    assert not (shared.home / "catalog" / "workflow" / name).exists()


def test_a_corrupt_catalog_entry_is_reported_and_hides_nothing(cloche: Commands, tmp_path: Path) -> None:
    for name in ("trivial", "second"):
        assert cloche("workflows", "publish", package(tmp_path, name, TRIVIAL.replace("trivial", name))).code == 0
    (cloche.home / "catalog" / "workflow" / "second" / ".git" / "HEAD").write_text("nonsense")
    listed = cloche("workflows", "list", "--json")
    assert listed.code == 0
    assert [row["workflow_id"] for row in listed.data["workflows"]] == ["trivial"]
    assert [row["name"] for row in listed.data["problems"]] == ["second"]
    answer = cloche("workflows", "run", "second", "--json")
    assert answer.code in (5, 7)
    assert "Traceback" not in answer.stderr


def test_two_publishers_of_one_package_do_not_mix(cloche: Commands, tmp_path: Path) -> None:
    folder = package(tmp_path, "trivial", TRIVIAL)
    racing = [cloche.start("workflows", "publish", folder, "--json") for _ in range(2)]
    ended = [(process.communicate(timeout=120), process.returncode) for process in racing]
    assert sorted(code for _, code in ended) == [0, 4], ended
    assert len(cloche("workflows", "log", "trivial", "--json").data["revisions"]) == 1


# the engine


def test_without_an_engine_one_sentence_says_what_to_do_and_no_run_is_made(with_trivial: Commands) -> None:
    without = Commands(with_trivial.home, {"DOCKER_HOST": "unix:///nonexistent/docker.sock"})
    before = with_trivial.runs()
    for words in (
        ["workflows", "run", "trivial"],
        ["workflows", "test", str(EXAMPLES / "requirements_parse")],
        ["cells", "list"],
    ):
        answer = without(*words, "--json")
        assert answer.code == 3, answer
        assert answer.error["fix"]
        assert "Traceback" not in answer.stderr
    assert without("doctor").code == 3
    assert with_trivial.runs() == before


@contextmanager
def silent_engine(path: Path) -> Iterator[str]:
    """Something that accepts and never answers."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    kept: list[socket.socket] = []

    def accept() -> None:
        try:
            while True:
                kept.append(listener.accept()[0])
        except OSError:
            return

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"unix://{path}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in kept:
            connection.close()


def test_an_engine_that_hangs_is_given_up(with_trivial: Commands, tmp_path: Path) -> None:
    with silent_engine(tmp_path / "e.sock") as host:
        hanging = Commands(with_trivial.home, {"DOCKER_HOST": host, "CLOCHE_ENGINE_TIMEOUT_S": "1"})
        check_refused(hanging("workflows", "run", "trivial", "--json"), exit_code=3, code="engine_timeout")


def test_a_missing_image_says_how_to_build_it(cloche: Commands, tmp_path: Path) -> None:
    (cloche.home / "images" / "current.json").unlink()
    folder = package(tmp_path, "trivial", TRIVIAL)
    answer = cloche("workflows", "publish", folder, "--json")
    assert answer.code == 3
    assert "cloche image build" in answer.error["fix"]


# damage


def test_a_damaged_journal_is_named_by_line_and_hides_no_other_run(cloche: Commands, tmp_path: Path) -> None:
    assert cloche("workflows", "publish", package(tmp_path, "trivial", TRIVIAL)).code == 0
    broken, whole = (cloche("workflows", "run", "trivial", "--json").data["run_id"] for _ in range(2))
    journal = cloche.home / "sessions" / "default" / "workflows" / broken / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], lines[1].replace(b"run.started", b"run.startex"), *lines[2:]]))
    answer = cloche("runs", "resume", broken, "--json")
    check_refused(answer, exit_code=7, code="journal_damaged")
    assert "line 2" in answer.error["message"]
    listed = cloche("runs", "list", "--json").data
    assert [row["run_id"] for row in listed["runs"]] == [whole]
    assert len(listed["problems"]) == 1


@contextmanager
def small_disk(path: Path, *, size: str) -> Iterator[Path]:
    """A file system of this size."""
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk_fails_before_the_effect_and_the_run_goes_on_later(cloche: Commands, tmp_path: Path) -> None:
    lines = ("for i in range(200):", "    emit({'text': 'x' * 20_000, 'i': i})", "return ANSWER")
    assert cloche("workflows", "publish", package(tmp_path, "chatty", workflow("chatty", *lines))).code == 0
    with small_disk(cloche.home / "sessions", size="2m") as disk:
        answer = cloche("workflows", "run", "chatty", "--json")
        assert answer.code == 7, answer
        run_id = next(path.name for path in (disk / "default" / "workflows").iterdir() if not path.name.startswith("."))
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        view = cloche("runs", "show", run_id, "--json").data
        assert view["status"] in ("failed", "interrupted")
        done = cloche("runs", "resume", run_id, "--json")
        assert (done.code, done.data["value"]) == (0, 42), done
        assert done.data["counts"]["replayed"] >= view["counts"]["completed"] > 0


# programs

HOSTILE: dict[str, tuple[tuple[str, ...], str, str]] = {
    "raises": (("raise ValueError('no such week')",), "failed", "program"),
    "exits_137": (("raise SystemExit(137)",), "failed", "program"),
    "returns_an_object": (("return object()",), "failed", "program"),
    "fills_memory": (("kept = []", "while True:", "    kept.append(bytearray(8_000_000))"), "failed", "limit:memory"),
    "never_ends": (("while True:", "    pass"), "failed", "deadline"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_program_that_fails_is_told_apart_from_a_sandbox_that_fails(
    name: str, cloche: Commands, tmp_path: Path
) -> None:
    lines, status, reason = HOSTILE[name]
    assert cloche("workflows", "publish", package(tmp_path, name, workflow(name, *lines))).code == 0
    short = Commands(cloche.home, {"CLOCHE_RUN_ACTIVE_S": "6", "CLOCHE_MEMORY_BYTES": str(128 * 1024 * 1024)})
    answer = short("workflows", "run", name, "--json")
    assert (answer.code, answer.data["status"], answer.data["reason"]) == (1, status, reason), answer
    shown = cloche("runs", "show")
    assert status in shown.stdout
    assert reason in shown.stdout
    assert cloche("cells", "list", "--json").data["cells"] == []


def test_a_flood_of_output_is_cut_in_the_middle_and_said(cloche: Commands, tmp_path: Path) -> None:
    lines = ("line = 'x' * 999", "for _ in range(64_000):", "    print(line)", "print('the end')", "return ANSWER")
    assert cloche("workflows", "publish", package(tmp_path, "flood", workflow("flood", *lines))).code == 0
    answer = cloche("workflows", "run", "flood", "--json")
    assert (answer.code, answer.data["value"]) == (0, 42)
    generation = answer.data["generations"][0]
    assert generation["stdout_bytes"] == 64_000 * 1000 + len("the end\n")
    assert generation["cut_bytes"] > 50_000_000
    logs = cloche("runs", "logs").stdout
    assert logs.startswith("xxxx")
    assert logs.rstrip().endswith("the end")
    assert f"{generation['cut_bytes']} bytes were not kept" in logs


def test_output_that_is_no_utf8_and_a_read_of_standard_input_harm_nothing(cloche: Commands, tmp_path: Path) -> None:
    body = (
        "from pathlib import Path\n\nfrom .helpers.constant import ANSWER\n\n\n"
        "def odd(task: str) -> object:\n    print('\\udcff\\udcfe\\x1b[31m')\n"
        "    return [Path('/dev/stdin').read_bytes(), ANSWER]\n"
    )
    assert cloche("workflows", "publish", package(tmp_path, "odd", body)).code == 0
    answer = cloche("workflows", "run", "odd", "--json")
    assert answer.data["value"] == [{"$bytes": ""}, 42], answer
    shown = cloche("runs", "logs").stdout
    assert "\x1b" not in shown
    assert "\\udcff\\udcfe\\x1b[31m" in shown


def test_work_in_a_thread_is_a_clear_error_and_a_call_in_a_task_is_none(cloche: Commands, tmp_path: Path) -> None:
    body = (
        "import asyncio\n\nfrom cloche import now\n\nfrom .helpers.constant import ANSWER\n\n\n"
        "async def _ask(task: str) -> object:\n    if task == 'call':\n        return now()\n"
        "    return await asyncio.get_running_loop().run_in_executor(None, now)\n\n\n"
        "def early(task: str) -> object:\n    return [bool(asyncio.run(_ask(task))), ANSWER]\n"
    )
    assert cloche("workflows", "publish", package(tmp_path, "early", body)).code == 0
    answer = cloche("workflows", "run", "early", "call", "--json")
    assert answer.data["value"] == [True, 42], answer
    answer = cloche("workflows", "run", "early", "thread", "--json")
    assert (answer.code, answer.data["reason"]) == (1, "program")
    assert "no threads" in json.dumps(answer.data["error"])


def test_ctrl_c_during_a_gate_publishes_nothing_and_leaves_no_cell(cloche: Commands, tmp_path: Path) -> None:
    test = """
        from ..workflow import trivial


        def test_it_takes_for_ever() -> None:
            while trivial("") == 42:
                pass
    """
    folder = package(tmp_path, "trivial", TRIVIAL, test=test)
    process = cloche.start("workflows", "publish", folder)
    wait_for(lambda: bool(cloche("cells", "list", "--json").data["cells"]), timeout_s=60)
    answer = end(process, number=signal.SIGINT)
    assert answer.code == 130, answer
    assert "Traceback" not in answer.stderr
    assert cloche("workflows", "list", "--json").data["workflows"] == []
    assert cloche("cells", "list", "--json").data["cells"] == []


def test_colour_and_progress_appear_on_a_terminal_only(with_trivial: Commands) -> None:
    answer = with_trivial("workflows", "run", "trivial")
    assert "\x1b" not in answer.stdout + answer.stderr
    assert answer.stdout == "42\n"
    assert os.linesep.join(answer.stderr.splitlines()[:1]).startswith("run ")
