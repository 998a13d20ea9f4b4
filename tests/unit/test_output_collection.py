"""What a program leaves in its output folder, listed and read by the guest: every kind of entry, and trees made to be slow."""

import os
import socket
from pathlib import Path

import pytest
from cloche_guest import collect

MOST = {"files": 1000, "total_bytes": 64 << 20}


@pytest.fixture
def top(tmp_path):
    made = tmp_path / "output"
    made.mkdir()
    return made


def find(top, **bounds):
    return collect.find(str(top), **{**MOST, **bounds})


def skipped(found):
    return dict(entry.split(": ", 1) for entry in found.skipped)


def test_links_and_special_files_are_left_out_and_named(top, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (top / "to_file").symlink_to(tmp_path / "secret")
    (top / "to_proc").symlink_to("/proc/self/environ")
    (top / "to_folder").symlink_to("/etc")
    (top / "loop").symlink_to("loop")
    (top / "dangling").symlink_to("nothing")
    os.mkfifo(top / "fifo")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(top / "socket"))
    (top / "kept").write_text("1")
    os.link(top / "kept", top / "hard link")
    found = find(top)
    listening.close()
    assert found.files == [("hard link", 1), ("kept", 1)]
    links = dict.fromkeys(["dangling", "loop", "to_file", "to_folder", "to_proc"], "a link")
    assert skipped(found) == {**links, "fifo": "a FIFO", "socket": "a socket"}


def test_an_output_folder_that_is_something_else_gives_nothing(tmp_path):
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "file", "fifo"):
        found = find(tmp_path / name)
        assert (found.files, found.left_out, found.problem) == ([], 1, "")


def test_a_sparse_file_counts_with_all_that_would_be_read_of_it(top):
    with (top / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert find(top).problem == f"more than {64 << 20} bytes"


NAMES = {
    b"line\nend": "line\\nend",
    b"bell\x07": "bell\\x07",
    b"escape\x1b[31m": "escape\\x1b[31m",
    b"\xff\xfe": "\\udcff\\udcfe",
    "right\u202eleft".encode(): "right\\u202eleft",
    b"back\\slash": "back\\slash",
}


def test_names_that_cannot_be_kept_are_shown_without_harm(top):
    for name in NAMES:
        (top / os.fsdecode(name)).touch()
    found = find(top)
    assert found.files == []
    assert sorted(found.skipped) == sorted(f"{shown}: a name that cannot be kept" for shown in NAMES.values())


def test_names_that_only_look_alike_are_kept_apart(top):
    names = ["A", "a", "e\u0301", "\u00e9", "-rf", "--", " ", "...", "a b", "*"]
    for name in names:
        (top / name).write_text(name)
    assert [path for path, _ in find(top).files] == sorted(names)


def test_a_tree_deeper_than_any_path_is_cut_off_where_it_is_too_deep(top):
    here, name = Path.cwd(), "d" * 15
    os.chdir(top)
    try:
        for _ in range(300):
            Path(name).mkdir()
            os.chdir(name)
    finally:
        os.chdir(here)
    (top / "long").mkdir()
    (top / "long" / ("n" * 240)).write_text("x")
    found = find(top)
    assert found.files == []
    shown = skipped(found)
    assert shown["/".join(["d" * 15] * collect.DEPTH)] == "too deep"
    assert "a path of more than 200 characters" in shown.values()


def test_more_folders_than_descriptors_are_all_looked_into(top):
    for number in range(300):
        (top / f"{number:03d}").mkdir()
        (top / f"{number:03d}" / "file").write_text("x")
    found = find(top)
    assert (len(found.files), found.left_out) == (300, 0)


@pytest.mark.parametrize(
    ("bounds", "make", "problem"),
    [
        ({"files": 3}, lambda top: [(top / str(n)).touch() for n in range(4)], "more than 3 files"),
        ({"total_bytes": 3}, lambda top: (top / "x").write_text("1234"), "more than 3 bytes"),
        ({"files": 0}, lambda top: [(top / str(n)).mkdir() for n in range(1001)], "more than 1000 entries"),
        ({"patience_s": 0.0}, lambda top: (top / "x").touch(), "looking through it took more than 0 s"),
    ],
)
def test_a_tree_past_a_bound_has_a_named_problem(top, bounds, make, problem):
    make(top)
    assert find(top, **bounds).problem == problem


def test_what_the_program_made_unreadable_is_left_out_for_a_user_without_rights(tmp_path):
    """As in a cell: the reader has the program's uid and no capabilities."""
    top = tmp_path / "output"
    tmp_path.chmod(0o711)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.getuid() and folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)
    top.mkdir()
    (top / "shut").mkdir()
    (top / "shut" / "inside").write_text("x")
    (top / "secret").write_text("x")
    (top / "open").write_text("x")
    if os.geteuid() == 0:
        for path in (top, *top.rglob("*")):
            os.chown(path, 4242, 4242)
    (top / "secret").chmod(0)
    (top / "shut").chmod(0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(4242, 4242, 4242)
                os.setresuid(4242, 4242, 4242)
            found = find(top)
            os.write(writing, repr((found.files, found.skipped)).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    (top / "shut").chmod(0o700)
    told = os.read(reading, 10_000).decode()
    os.close(reading)
    os.close(writing)
    assert told == repr(
        ([("open", 1)], ["secret: unreadable: Permission denied", "shut: unreadable: Permission denied"])
    )
