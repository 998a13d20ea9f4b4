"""Uids of cells: one owner each, free with the owner's death, and not given out while a container may have it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import SandboxUnavailable
from engine.sandbox import uids
from engine.sandbox.uids import COUNT, FIRST, NoUidLeft, claim


def nobody() -> frozenset[int]:
    return frozenset()


def must_not_ask() -> frozenset[int]:
    pytest.fail("the engine was asked")


def test_two_claims_differ_and_a_released_uid_comes_back_without_asking(tmp_path: Path) -> None:
    place = (tmp_path / "locks",)
    first = claim("a", must_not_ask, directories=place)
    second = claim("b", must_not_ask, directories=place)
    assert first.uid != second.uid
    assert {FIRST <= one.uid < FIRST + COUNT for one in (first, second)} == {True}
    first.release()
    third = claim("c", must_not_ask, directories=place)
    assert third.uid == first.uid
    second.release()
    third.release()


def test_an_abandoned_uid_is_given_out_last_and_only_when_no_container_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uids, "COUNT", 2)
    place = (tmp_path / "locks",)
    gone = claim("a", must_not_ask, directories=place)
    gone.abandon()
    other = claim("b", must_not_ask, directories=place)
    assert other.uid != gone.uid
    with pytest.raises(NoUidLeft):
        claim("c", lambda: frozenset({gone.uid}), directories=place)
    again = claim("d", nobody, directories=place)
    assert again.uid == gone.uid
    other.release()
    again.release()


def test_when_every_owner_was_killed_each_uid_is_given_out_again_and_the_engine_is_asked_once_per_claim(
    tmp_path: Path,
) -> None:
    for uid in range(FIRST, FIRST + COUNT):
        (tmp_path / str(uid)).write_text("killed")
    alive, asked = frozenset({FIRST, FIRST + 7}), 0

    def ask() -> frozenset[int]:
        nonlocal asked
        asked += 1
        return alive

    held = [claim(f"cell{n}", ask, directories=(tmp_path,)) for n in range(COUNT - 2)]
    assert {one.uid for one in held} == set(range(FIRST, FIRST + COUNT)) - alive
    assert asked == len(held)
    with pytest.raises(NoUidLeft):
        claim("more", ask, directories=(tmp_path,))
    held[0].release()
    again = claim("again", must_not_ask, directories=(tmp_path,))
    assert again.uid == held[0].uid
    for one in (again, *held[1:]):
        one.release()


def test_when_every_owner_was_killed_and_no_engine_answers_nothing_is_claimed(tmp_path: Path) -> None:
    for uid in range(FIRST, FIRST + COUNT):
        (tmp_path / str(uid)).write_text("killed")

    def ask() -> frozenset[int]:
        raise SandboxUnavailable("no engine.", fix="Start it.")

    with pytest.raises(SandboxUnavailable, match="no engine"):
        claim("a", ask, directories=(tmp_path,))
    assert {path.read_text() for path in tmp_path.iterdir()} == {"killed"}


def test_an_owner_who_came_and_was_killed_after_the_engine_was_asked_keeps_the_uid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uids, "COUNT", 1)
    claim("long dead", must_not_ask, directories=(tmp_path,)).abandon()

    def ask() -> frozenset[int]:
        claim("just killed", nobody, directories=(tmp_path,)).abandon()
        return frozenset()

    with pytest.raises(NoUidLeft):
        claim("a", ask, directories=(tmp_path,))
    assert (tmp_path / str(FIRST)).read_text() == "just killed"


def test_a_claim_dies_with_its_process_and_not_before(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from engine.sandbox.uids import claim\n"
        "c = claim('x', frozenset, directories=(Path(sys.argv[1]),)); print(c.uid, flush=True); sys.stdin.read()"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        theirs = int(owner.stdout.readline())
        lock = tmp_path / str(theirs)
        assert uids._try(lock) is None
        owner.kill()
    descriptor = uids._try(lock)
    assert descriptor is not None
    assert os.pread(descriptor, 10, 0) == b"x"
    os.close(descriptor)


def test_when_all_are_taken_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uids, "COUNT", 2)
    held = [claim(str(n), nobody, directories=(tmp_path,)) for n in range(2)]
    with pytest.raises(NoUidLeft):
        claim("more", nobody, directories=(tmp_path,))
    for one in held:
        one.release()


def test_a_link_in_the_shared_directory_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    place = tmp_path / "locks"
    place.mkdir()
    for uid in range(FIRST, FIRST + COUNT - 1):
        (place / str(uid)).symlink_to(target)
    only = claim("a", nobody, directories=(place,))
    assert only.uid == FIRST + COUNT - 1
    assert not target.exists()
    only.release()


@pytest.mark.parametrize("put", ["fifo", "name of another file"])
def test_what_is_no_lock_in_the_shared_directory_is_neither_written_nor_in_the_way(tmp_path: Path, put: str) -> None:
    theirs, place = tmp_path / "theirs", tmp_path / "locks"
    theirs.write_text("somebody's text")
    place.mkdir()
    for uid in range(FIRST, FIRST + COUNT - 1):
        if put == "fifo":
            os.mkfifo(place / str(uid))
        else:
            (place / str(uid)).hardlink_to(theirs)
    claims = [claim("a", nobody, directories=(place,))]
    assert claims[0].uid == FIRST + COUNT - 1
    with pytest.raises(NoUidLeft):
        claim("b", nobody, directories=(place,))
    assert theirs.read_text() == "somebody's text"
    claims[0].release()


def test_a_link_in_place_of_the_shared_directory_opens_no_other_directory_to_everybody(tmp_path: Path) -> None:
    private, link, second = tmp_path / "private", tmp_path / "link", tmp_path / "second"
    private.mkdir(mode=0o700)
    link.symlink_to(private)
    one = claim("a", nobody, directories=(link, second))
    assert private.stat().st_mode & 0o7777 == 0o700
    assert list(private.iterdir()) == []
    assert [path.name for path in second.iterdir()] == [str(one.uid)]
    one.release()


def test_no_directory_for_the_locks_is_said(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SandboxUnavailable, match="locks"):
        claim("a", nobody, directories=(file / "under",))


def test_the_locks_can_be_shared_by_all_users(tmp_path: Path) -> None:
    place = tmp_path / "locks"
    one = claim("a", nobody, directories=(place,))
    assert place.stat().st_mode & 0o7777 == 0o1777
    assert (place / str(one.uid)).stat().st_mode & 0o777 == 0o666
    one.release()
