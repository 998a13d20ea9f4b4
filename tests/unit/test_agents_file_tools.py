"""File tools: bounded, sorted, never outside the workspace, and the same as what behaviour tests are answered."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from time import process_time
from typing import Any

import anyio
import pytest
from cloche._workspace import Workspace

from engine.agents import file_tools, open_handlers
from engine.agents import workspace as workspace_module
from engine.agents.file_tools import TOOLS, FileToolHandler
from engine.clock import SystemClock
from engine.run.calls import CallFailed, CallKey, CallRequest, RunContext

LOG = b"".join(b"2026-11-30 line %d \xc3\xa4\xff\n" % i for i in range(2000))
FILES: dict[str, bytes] = {
    "a.txt": b"one\ntwo\nthree\n",
    "no_end.txt": b"one\ntwo",
    "empty.txt": b"",
    "unicode.txt": "äöü€😀".encode() * 50,
    "broken.txt": b"ok\n\xff\xfe\x80 bad\n\xc3",
    "logs/app.log": LOG,
    "logs/deep/x.log": b"error: x\n",
    "logs/.hidden.log": b"error: hidden\n",
    "logs.d/b.log": b"error: b\n",
    "Ünicode/ä.log": b"error: u\n",
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    found = tmp_path / "workspace"
    for path, content in FILES.items():
        (found / path).parent.mkdir(parents=True, exist_ok=True)
        (found / path).write_bytes(content)
    return found


def call(top: Path, fn: str, **args: Any) -> Any:
    handler = open_handlers(clock=SystemClock(), model=None)[fn]
    context = RunContext("r", "w", Path("/"), top, frozenset({"workspace.read"}), "")
    return asyncio.run(handler.execute(CallRequest(CallKey("/", fn, 1, "0" * 64), args, "", "key", context))).value


def failure(top: Path, fn: str, **args: Any) -> tuple[str, str]:
    with pytest.raises(CallFailed) as caught:
        call(top, fn, **args)
    return caught.value.type_name, caught.value.message


SAME: list[tuple[str, dict[str, Any]]] = [
    *[("read", {"path": path}) for path in FILES],
    *[("read", {"path": "a.txt", "offset": offset, "limit": limit}) for offset in range(16) for limit in (1, 4, 5, 30)],
    *[("read", {"path": "unicode.txt", "offset": 0, "limit": limit}) for limit in range(1, 20)],
    ("read", {"path": "logs/app.log", "offset": 1000, "limit": 5000}),
    ("read", {"path": "./logs//app.log", "limit": 100}),
    ("list", {}),
    ("list", {"path": "logs"}),
    ("list", {"path": "./logs/deep"}),
    ("glob", {"pattern": "*.txt"}),
    ("glob", {"pattern": "**/*.log"}),
    ("glob", {"pattern": "logs/**"}),
    ("glob", {"pattern": "logs/*"}),
    ("glob", {"pattern": "l?gs/[ad]*.log"}),
    ("glob", {"pattern": "*/[!a]*.log"}),
    ("glob", {"pattern": "[a-c].*"}),
    ("glob", {"pattern": "no+thing (here)"}),
    ("grep", {"pattern": "error"}),
    ("grep", {"pattern": "^error: [bx]$", "path": "logs"}),
    ("grep", {"pattern": "line 1[0-9]{3} ä", "path": "logs/app.log"}),
    ("grep", {"pattern": "line", "max_matches": 3}),
    ("grep", {"pattern": "t", "path": "no_end.txt", "max_matches": 1}),
    ("grep", {"pattern": "", "path": "empty.txt"}),
    ("grep", {"pattern": "", "path": "a.txt"}),
]


@pytest.mark.parametrize(("fn", "args"), SAME)
def test_a_run_answers_as_a_behaviour_test_is_answered(top: Path, fn: str, args: dict[str, Any]) -> None:
    assert call(top, fn, **args) == Workspace(FILES).tools()[fn](**args)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("read", {"path": "none.txt"}, "FileNotFoundError"),
    ("read", {"path": "none/none.txt"}, "FileNotFoundError"),
    ("read", {"path": "logs"}, "IsADirectoryError"),
    ("read", {"path": "."}, "IsADirectoryError"),
    ("read", {"path": "../secret"}, "ValueError"),
    ("read", {"path": "logs/../../secret"}, "ValueError"),
    ("read", {"path": "/etc/passwd"}, "ValueError"),
    ("read", {"path": ""}, "ValueError"),
    ("read", {"path": "a\0b"}, "ValueError"),
    ("read", {"path": "a.txt", "limit": 0}, "ValueError"),
    ("read", {"path": "a.txt", "limit": 1_048_577}, "ValueError"),
    ("read", {"path": "a.txt", "offset": -1}, "ValueError"),
    ("list", {"path": "a.txt"}, "NotADirectoryError"),
    ("list", {"path": "none"}, "FileNotFoundError"),
    ("list", {"path": "/"}, "ValueError"),
    ("glob", {"pattern": "../*"}, "ValueError"),
    ("glob", {"pattern": "/etc/*"}, "ValueError"),
    ("glob", {"pattern": ""}, "ValueError"),
    ("grep", {"pattern": "(?=a)"}, "ValueError"),
    ("grep", {"pattern": "("}, "ValueError"),
    ("grep", {"pattern": "a", "path": "none"}, "FileNotFoundError"),
    ("grep", {"pattern": "a", "max_matches": 0}, "ValueError"),
    ("grep", {"pattern": "a", "max_matches": 10_001}, "ValueError"),
]


@pytest.mark.parametrize(("fn", "args", "type_name"), BAD)
def test_bad_paths_and_numbers_fail_as_they_do_in_a_behaviour_test(
    top: Path, fn: str, args: dict[str, Any], type_name: str
) -> None:
    assert failure(top, fn, **args)[0] == type_name
    with pytest.raises(Exception) as caught:
        Workspace(FILES).tools()[fn](**args)
    assert type(caught.value).__name__ == type_name


@pytest.mark.parametrize("value", [True, "1", 1.5, None])
def test_an_argument_of_another_type_fails_the_call(top: Path, value: object) -> None:
    assert failure(top, "read", path="a.txt", limit=value)[0] == "ValueError"
    assert failure(top, "read", path=3)[0] == "ValueError"


def test_an_offset_larger_than_any_file_is_no_crash(top: Path) -> None:
    assert failure(top, "read", path="a.txt", offset=2**70)[0] == "ValueError"


def test_pages_give_every_byte_once_and_never_cut_a_line(top: Path) -> None:
    texts, offset = [], 0
    while offset is not None:
        found = call(top, "read", path="logs/app.log", offset=offset, limit=1000)
        assert found["text"].endswith("\n")
        texts.append(found["text"])
        offset = found["next"]
    assert "".join(texts) == LOG.decode(errors="backslashreplace")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("TOP SECRET error", encoding="utf-8")
    return tmp_path / "secret"


def test_links_are_refused_wherever_they_stand(top: Path, secret: Path) -> None:
    (top / "link.txt").symlink_to(secret)
    (top / "linked").symlink_to(secret.parent)
    (top / "inner.txt").symlink_to("a.txt")
    for fn, path in [
        ("read", "link.txt"),
        ("read", "inner.txt"),
        ("read", "linked/secret"),
        ("list", "linked"),
        ("grep", "linked"),
        ("grep", "link.txt"),
    ]:
        args = {"pattern": "error"} if fn == "grep" else {}
        type_name, message = failure(top, fn, path=path, **args)
        assert (type_name, "links are not followed" in message) == ("PermissionError", True), (fn, path)


def test_links_are_not_walked_into_and_listed_as_what_they_are(top: Path, secret: Path) -> None:
    (top / "linked").symlink_to(secret.parent)
    (top / "loop").symlink_to(top)
    assert not any("linked" in path or "loop" in path for path in call(top, "glob", pattern="**")["items"])
    assert not any("SECRET" in item["text"] for item in call(top, "grep", pattern="error")["items"])
    listed = {item["name"]: item for item in call(top, "list")["items"]}
    assert listed["linked"] == {"name": "linked", "kind": "other", "size": 0}


def test_special_files_are_no_files_and_block_nothing(top: Path) -> None:
    os.mkfifo(top / "pipe")
    assert failure(top, "read", path="pipe")[0] == "PermissionError"
    assert "pipe" not in call(top, "glob", pattern="*")["items"]
    assert {"name": "pipe", "kind": "other", "size": 0} in call(top, "list")["items"]
    assert call(top, "grep", pattern="nothing here")["items"] == []


def test_the_workspace_itself_may_be_reached_through_a_link(top: Path, tmp_path: Path) -> None:
    (tmp_path / "shortcut").symlink_to(top)
    assert call(tmp_path / "shortcut", "read", path="a.txt")["size"] == 14


def test_a_workspace_that_is_gone_fails_the_call(tmp_path: Path) -> None:
    assert failure(tmp_path / "gone", "list")[0] == "FileNotFoundError"


def test_names_that_are_no_text_are_left_out(top: Path) -> None:
    (Path(os.fsdecode(os.fsencode(top) + b"/\xff\xfe.txt"))).write_bytes(b"error")
    assert all(item["name"].isprintable() for item in call(top, "list")["items"])
    assert len(call(top, "glob", pattern="*.txt")["items"]) == 5


def test_lists_are_cut_and_say_so(top: Path) -> None:
    many = top / "many"
    many.mkdir()
    for i in range(10_001):
        (many / f"{i:05}").touch()
    found = call(top, "list", path="many")
    assert (len(found["items"]), found["more"], found["items"][-1]["name"]) == (10_000, True, "09999")
    found = call(top, "glob", pattern="many/*")
    assert (len(found["items"]), found["more"]) == (10_000, True)


def test_a_walk_is_bounded(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_module, "WALKED", 5)
    assert failure(top, "glob", pattern="**")[0] == "OSError"
    assert failure(top, "list")[0] == "OSError"


def test_a_pattern_that_would_backtrack_for_ever_takes_no_time(top: Path) -> None:
    (top / "a").mkdir()
    (top / "a" / ("a" * 200)).touch()
    (top / "evil.txt").write_bytes(b"a" * 100_000 + b"\n")
    assert call(top, "grep", pattern="(a+)+$x", path="evil.txt") == {"items": [], "more": False}
    assert call(top, "glob", pattern="a/" + "*a" * 40 + "*b") == {"items": [], "more": False}


@pytest.mark.parametrize("fn", ["grep", "glob"])
def test_a_long_pattern_is_refused_before_anything_is_made_of_it(top: Path, fn: str) -> None:
    assert failure(top, fn, pattern="a" * 2001) == ("ValueError", "pattern has at most 2,000 characters, not 2,001")
    assert call(top, fn, pattern="a" * 2000)["items"] == []


def test_a_long_path_is_refused(top: Path) -> None:
    for fn in ("read", "list"):
        assert failure(top, fn, path="x/" * 2049) == ("ValueError", "path has at most 4,096 characters, not 4,098")


def test_a_pattern_that_needs_much_memory_is_refused(top: Path) -> None:
    assert failure(top, "grep", pattern="[xy]{1000}" * 30)[0] == "ValueError"


@pytest.mark.parametrize("fn", ["grep", "glob"])
def test_a_search_ends_when_its_time_is_over(top: Path, monkeypatch: pytest.MonkeyPatch, fn: str) -> None:
    monkeypatch.setattr(file_tools, "SEARCH_S", -1.0)
    assert failure(top, fn, pattern="x") == ("TimeoutError", "the search took longer than -1 s")


def test_a_pattern_that_makes_the_most_work_ends_soon_after_its_time(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "long.txt").write_bytes(b"xy" * 2_000_000)
    monkeypatch.setattr(file_tools, "SEARCH_S", 0.5)
    heavy = "|".join(f"[xy]*x[xy]{{{length}}}z" for length in range(992, 1000))
    before = process_time()
    assert failure(top, "grep", pattern=heavy, path="long.txt")[0] == "TimeoutError"
    assert process_time() - before < 60  # where nothing looked at the time, it was minutes


def test_very_long_lines_are_given_in_pieces_under_one_number(top: Path) -> None:
    (top / "long.txt").write_bytes(b"x\n" + b"y" * 150_000 + b"\nz\n")
    found = call(top, "grep", pattern="[yz]", path="long.txt")
    assert [(item["line"], len(item["text"])) for item in found["items"]] == [
        (2, 65_536),
        (2, 65_536),
        (2, 18_928),
        (3, 1),
    ]


def test_every_file_tool_of_the_authoring_api_is_executed(top: Path) -> None:
    import cloche.programs

    assert set(TOOLS) == set(cloche.programs.__all__)


def test_searches_of_many_runs_leave_threads_for_all_else(top: Path) -> None:
    """A search may take half a minute, and a run makes 16 at once: ending another run's cell must not wait for them."""
    over = threading.Event()

    def search(_top: Path, _args: dict[str, Any]) -> bool:
        return over.wait(120)

    async def both() -> bool:
        context = RunContext("r", "w", Path("/"), top, frozenset({"workspace.read"}), "")
        request = CallRequest(CallKey("/", "grep", 1, "0" * 64), {}, "", "key", context)
        async with anyio.create_task_group() as runs:
            for _ in range(60):
                runs.start_soon(FileToolHandler(search).execute, request)
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(60):
                await anyio.to_thread.run_sync(over.set, abandon_on_cancel=True)
            served = over.is_set()
            over.set()
        return served

    assert anyio.run(both)
