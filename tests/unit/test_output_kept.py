"""Where output of a cell lands on the host: never outside its folder, bounded, and the owner's to read and remove."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import EngineFailure
from engine.files import remove_tree
from engine.run.kept import GAPS, Kept
from engine.sandbox.frames import Artifact, Output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    (made / "output").mkdir(parents=True)
    return made


def below(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_odd_names_land_where_they_say(folder: Path) -> None:
    names = ["-rf", "--", " ", "...", "*", "A", "a", "e\u0301", "\u00e9", "~", "$HOME", "a b/c;d", "n" * 200]
    kept = Kept(folder, 1, 1000)
    for name in names:
        kept.artifact(Artifact(name, name.encode()))
    assert below(folder / "output") == {name: name.encode() for name in names}
    assert below(folder).keys() == {f"output/{name}" for name in names}


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "", ".."])
def test_a_path_that_leaves_its_folder_is_refused_also_here(folder: Path, path: str) -> None:
    with pytest.raises(EngineFailure):
        Kept(folder, 1, 1000).artifact(Artifact(path, b"x"))
    assert below(folder) == {}


Prepare = Callable[[Path, Path], object]

LINKS: dict[str, tuple[str, Prepare]] = {
    "the folder itself": ("x", lambda out, away: (out.rmdir(), out.symlink_to(away))),
    "a folder on the way": ("a/x", lambda out, away: (out / "a").symlink_to(away)),
    "a deeper folder": ("a/b/x", lambda out, away: ((out / "a").mkdir(), (out / "a" / "b").symlink_to(away))),
}


@pytest.mark.parametrize("name", LINKS)
def test_nothing_is_written_through_a_link(folder: Path, tmp_path: Path, name: str) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (away / "x").write_text("before")
    path, prepare = LINKS[name]
    prepare(folder / "output", away)
    with pytest.raises(EngineFailure):
        Kept(folder, 1, 1000).artifact(Artifact(path, b"written"))
    assert below(away) == {"x": b"before"}


def test_a_link_or_a_fifo_in_a_files_place_is_replaced_and_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "away").write_text("before")
    (folder / "output" / "link").symlink_to(tmp_path / "away")
    os.mkfifo(folder / "output" / "fifo")
    kept = Kept(folder, 1, 1000)
    for name in ("link", "fifo"):
        kept.artifact(Artifact(name, b"x"))
    assert (tmp_path / "away").read_text() == "before"
    assert below(folder / "output") == {"link": b"x", "fifo": b"x"}


def test_a_folder_that_is_renamed_while_files_come_takes_none_of_them_along(folder: Path, tmp_path: Path) -> None:
    kept = Kept(folder, 1, 1000)
    kept.artifact(Artifact("a/1", b"1"))
    (folder / "output" / "a").rename(tmp_path / "moved")
    (folder / "output" / "a").symlink_to(tmp_path / "moved")
    with pytest.raises(EngineFailure):
        kept.artifact(Artifact("a/2", b"2"))
    assert below(tmp_path / "moved") == {"1": b"1"}


def test_gaps_without_end_do_not_fill_a_log(folder: Path) -> None:
    kept = Kept(folder, 1, 1000)
    for number in range(5_000):
        kept.output(Output("stdout", 10 * number, b"x"))
    kept.close()
    log = (folder / "logs" / "stdout.log").read_bytes()
    assert log.count(b"bytes were not kept") == GAPS
    assert len(log) < 1000 + 50 * GAPS


def test_generations_without_end_do_not_fill_a_log(folder: Path) -> None:
    log, longest = folder / "logs" / "stdout.log", 0
    for generation in range(1, 29):
        kept = Kept(folder, generation, 1000)
        kept.output(Output("stdout", 0, b"%02d" % generation + b"x" * 300))
        kept.close()
        longest = max(longest, log.stat().st_size)
    assert 1000 < longest < 2000
    text = log.read_bytes()
    assert b"earlier ones were not kept" in text.split(b"\n", 1)[0]
    assert b"28xxx" in text
    assert b"27xxx" in text


def run_as_ordinary_user(home: Path, work: Callable[[Path], None]) -> None:
    """`work(home / "run")` in a child with uid and gid 4242 and no other right; its failure is ours."""
    home.mkdir()
    os.chown(home, 4242, 4242)
    for path in home.parents:
        if path != Path("/tmp") and path.is_relative_to("/tmp"):
            path.chmod(path.stat().st_mode | 0o011)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(4242, 4242, 4242)
            os.setresuid(4242, 4242, 4242)
            work(home / "run")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def keep_and_remove(run: Path) -> None:
    """What an owner without root does: have output kept, read it, remove it; nothing is left that needs other rights."""
    kept = Kept(run, 1, 1000)
    names = ["-rf", "a/b/c/d/e/f/g/h/i/j/k", "\u00e9", "n" * 200, "x.sh"]
    for name in names:
        kept.artifact(Artifact(name, b"#!/bin/sh\n"))
    kept.output(Output("stderr", 0, b"x"))
    kept.close()
    assert below(run / "output").keys() == set(names)
    for path in run.rglob("*"):
        assert path.stat().st_uid == os.getuid()
        assert path.stat().st_mode & 0o7777 == (0o700 if path.is_dir() else 0o600)
    remove_tree(run)
    assert not run.exists()


def test_what_is_kept_is_the_owners_to_read_and_remove_without_root(tmp_path: Path) -> None:
    home = tmp_path / "home"
    if os.geteuid():
        home.mkdir()
        keep_and_remove(home / "run")
        return
    run_as_ordinary_user(home, keep_and_remove)
    assert list(home.iterdir()) == []
