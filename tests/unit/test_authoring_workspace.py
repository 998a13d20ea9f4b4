"""The workspace in memory: pages, order, bounds, and what it refuses."""

from __future__ import annotations

import pytest
from cloche._workspace import LISTED, Workspace
from hypothesis import given
from hypothesis import strategies as st

FILES = Workspace(
    {
        "a.txt": "one\ntwo\nthree\n",
        "logs/app.log": "ERROR 1\nok\nERROR 2",
        "logs/old/app.log": "ERROR 3\n",
        "logs/.hidden": "x",
        "raw.bin": b"ok \xff\xfe\n",
    }
)


def test_a_page_ends_behind_its_last_line_end() -> None:
    assert FILES.read("a.txt", limit=6) == {"text": "one\n", "next": 4, "size": 14}
    assert FILES.read("a.txt", offset=4, limit=6) == {"text": "two\n", "next": 8, "size": 14}
    assert FILES.read("a.txt", offset=8) == {"text": "three\n", "next": None, "size": 14}


def test_a_line_longer_than_the_limit_is_cut_between_characters() -> None:
    files = Workspace({"a": "äöü€𝄞"})
    assert files.read("a", limit=3) == {"text": "ä", "next": 2, "size": 13}
    assert files.read("a", offset=6, limit=4) == {"text": "€", "next": 9, "size": 13}
    assert files.read("a", offset=9, limit=4) == {"text": "𝄞", "next": None, "size": 13}


def test_a_limit_smaller_than_one_character_still_goes_on() -> None:
    assert Workspace({"a": "𝄞x"}).read("a", limit=1) == {"text": "\\xf0", "next": 1, "size": 5}


def test_bytes_that_do_not_decode_are_written_as_hex() -> None:
    assert FILES.read("raw.bin")["text"] == "ok \\xff\\xfe\n"


def test_an_offset_at_or_behind_the_end_gives_nothing_and_no_next() -> None:
    assert FILES.read("a.txt", offset=14) == {"text": "", "next": None, "size": 14}
    assert FILES.read("a.txt", offset=99) == {"text": "", "next": None, "size": 14}
    assert Workspace({"empty": ""}).read("empty") == {"text": "", "next": None, "size": 0}


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.integers(4, 30))
def test_reading_on_gives_every_byte_once(text: str, limit: int) -> None:
    files = Workspace({"f": text})
    gathered, at = "", 0
    while at is not None:
        page = files.read("f", offset=at, limit=limit)
        gathered, at = gathered + page["text"], page["next"]
    assert gathered == text


def test_a_folder_is_listed_by_name_with_kind_and_size() -> None:
    assert FILES.list("logs") == {
        "items": [
            {"name": ".hidden", "kind": "file", "size": 1},
            {"name": "app.log", "kind": "file", "size": 18},
            {"name": "old", "kind": "directory", "size": 0},
        ],
        "more": False,
    }
    assert [item["name"] for item in FILES.list()["items"]] == ["a.txt", "logs", "raw.bin"]


def test_a_long_listing_says_that_there_is_more() -> None:
    files = Workspace({f"d/{n:05}": "" for n in range(LISTED + 1)})
    listed = files.list("d")
    assert (len(listed["items"]), listed["more"]) == (LISTED, True)
    assert (len(files.glob("**")["items"]), files.glob("**")["more"]) == (LISTED, True)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.txt", ["a.txt"]),
        ("**/*.log", ["logs/app.log", "logs/old/app.log"]),
        ("logs/*", ["logs/.hidden", "logs/app.log"]),
        ("logs/**", ["logs/.hidden", "logs/app.log", "logs/old/app.log"]),
        ("**/app.log", ["logs/app.log", "logs/old/app.log"]),
        ("logs/**/app.log", ["logs/app.log", "logs/old/app.log"]),
        ("[ab].txt", ["a.txt"]),
        ("[!a]*.bin", ["raw.bin"]),
        ("[a-c].t?t", ["a.txt"]),
        ("*.[", []),
        ("logs", []),
    ],
)
def test_a_glob_matches_names_and_never_across_folders(pattern: str, found: list[str]) -> None:
    assert FILES.glob(pattern) == {"items": found, "more": False}


def test_grep_gives_matches_by_path_and_line() -> None:
    assert FILES.grep("ERROR", path="logs") == {
        "items": [
            {"path": "logs/app.log", "line": 1, "text": "ERROR 1"},
            {"path": "logs/app.log", "line": 3, "text": "ERROR 2"},
            {"path": "logs/old/app.log", "line": 1, "text": "ERROR 3"},
        ],
        "more": False,
    }
    assert FILES.grep("xff")["items"] == [{"path": "raw.bin", "line": 1, "text": "ok \\xff\\xfe"}]


def test_grep_stops_at_its_bound_and_says_so() -> None:
    assert len(FILES.grep("ERROR", max_matches=2)["items"]) == 2
    assert FILES.grep("ERROR", max_matches=2)["more"] is True
    assert FILES.grep("ERROR", max_matches=3)["more"] is False


@pytest.mark.parametrize("pattern", ["(?=x)", r"(a)\1", "(?<!a)b", "(", "a*+"])
def test_grep_refuses_patterns_that_are_not_linear_time(pattern: str) -> None:
    with pytest.raises(ValueError):
        FILES.grep(pattern)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", "a\0b"])
def test_a_path_cannot_leave_the_workspace(path: str) -> None:
    for tool in (FILES.read, FILES.list, FILES.glob):
        with pytest.raises(ValueError):
            tool(path)
    with pytest.raises(ValueError):
        FILES.grep("x", path=path)


def test_wrong_kinds_of_path_have_their_own_errors() -> None:
    with pytest.raises(FileNotFoundError):
        FILES.read("none.txt")
    with pytest.raises(IsADirectoryError):
        FILES.read("logs")
    with pytest.raises(NotADirectoryError):
        FILES.list("a.txt")
    with pytest.raises(FileNotFoundError):
        FILES.list("none")
    with pytest.raises(FileNotFoundError):
        FILES.grep("x", path="none")


@pytest.mark.parametrize(("offset", "limit"), [(-1, 1), (0, 0), (0, 1_048_577), (True, 1), (0, 1.0)])
def test_numbers_out_of_bounds_are_refused(offset: int, limit: int) -> None:
    with pytest.raises(ValueError):
        FILES.read("a.txt", offset=offset, limit=limit)


@pytest.mark.parametrize("files", [{"a": "", "a/b": ""}, {".": ""}, {"../a": ""}])
def test_a_workspace_that_no_folder_could_hold_is_refused(files: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        Workspace(files)
