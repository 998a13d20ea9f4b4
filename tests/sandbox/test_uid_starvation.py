"""A local user who holds the lock of every uid that all users share: root's cells start, and the others are told who it is."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.sandbox import uids
from engine.sandbox.cell import open_cell
from engine.sandbox.service import Sandbox

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("locks of the host; a cell has no part in them"),
]

HOG, OTHER = 65_534, 4_242


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of all users, and root's own, which must lie where only root can make things."""
    with tempfile.TemporaryDirectory(prefix="cloche-", dir="/run") as own:
        monkeypatch.setattr(uids, "DIRECTORIES", (Path(own).with_suffix(".shared"),))
        monkeypatch.setattr(uids, "OF_ROOT", Path(own) / "uids")
        place = uids.DIRECTORIES[0]
        place.mkdir()
        place.chmod(0o1777)
        yield place
        for path in place.iterdir():
            path.unlink()
        place.rmdir()


@contextmanager
def child(user: int, work: Callable[[], str]) -> Iterator[tuple[int, str]]:
    """The pid of a process of this user that did the work and goes on until the block is left, and what the work gave."""
    told, telling = os.pipe()
    waiting, closing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(closing)
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.write(telling, work().encode() or b" ")
            os.read(waiting, 1)
        finally:
            os._exit(0)
    os.close(telling)
    os.close(waiting)
    try:
        yield pid, os.read(told, 64 * 1024).decode()
    finally:
        os.close(closing)
        os.close(told)
        os.waitpid(pid, 0)


def hold_all(directory: Path) -> str:
    """Lock every uid's file, made where it is not there."""
    for uid in range(uids.FIRST, uids.FIRST + uids.COUNT):
        fcntl.flock(os.open(directory / str(uid), os.O_RDWR | os.O_CREAT, 0o666), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "held"


def refused() -> str:
    """What somebody who wants one is told."""
    try:
        uids.claim("a", frozenset)
    except uids.NoUidLeft as error:
        return error.message
    return "claimed"


async def test_a_user_who_holds_every_shared_uid_keeps_no_cell_of_root_from_starting(
    sandbox: Sandbox, image_id: str, shared: Path
) -> None:
    with child(HOG, lambda: hold_all(shared)) as (_, told):
        assert told == "held"
        async with open_cell(sandbox, image_id=image_id, kind="trial", deadline_s=30) as cell:
            assert uids.FIRST <= cell.uid < uids.FIRST + uids.RESERVED
            assert (uids.OF_ROOT / str(cell.uid)).read_text() == cell.cell_id


def test_another_user_is_told_which_user_and_process_holds_them(shared: Path) -> None:
    with child(HOG, lambda: hold_all(shared)) as (pid, _), child(OTHER, refused) as (_, told):
        count = uids.COUNT - uids.RESERVED
        assert told == f"all {count} uids for cells are in use: {count} by nobody (process {pid})."


def test_roots_uids_are_nobody_elses_to_claim_or_to_lock(shared: Path) -> None:
    mine = uids.claim("mine", frozenset)
    assert mine.uid < uids.FIRST + uids.RESERVED

    def try_all() -> str:
        claims = []
        while (got := _one_more()) is not None:
            claims.append(got)
        return f"{min(one.uid for one in claims)} {len(claims)} {os.access(uids.OF_ROOT, os.X_OK)}"

    with child(OTHER, try_all) as (_, told):
        assert told == f"{uids.FIRST + uids.RESERVED} {uids.COUNT - uids.RESERVED} False"
    mine.release()


def _one_more() -> uids.Claim | None:
    try:
        return uids.claim("theirs", frozenset)
    except uids.NoUidLeft:
        return None


def test_root_takes_from_the_shared_ones_when_its_own_are_used_up(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uids, "RESERVED", 2)
    claims = [uids.claim(str(number), frozenset) for number in range(3)]
    assert [one.uid < uids.FIRST + 2 for one in claims] == [True, True, False]
    assert [path.name for path in shared.iterdir()] == [str(claims[2].uid)]
    for one in claims:
        one.release()


def test_a_directory_in_which_others_may_write_is_not_roots(shared: Path) -> None:
    uids.OF_ROOT.mkdir()
    uids.OF_ROOT.chmod(0o777)
    one = uids.claim("a", frozenset)
    assert one.uid >= uids.FIRST + uids.RESERVED
    one.release()
