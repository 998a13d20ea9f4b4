"""The lock file: one form, read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_images.lockfile import (
    CELL_LOCK,
    Change,
    Lock,
    LockDamaged,
    LockedPackage,
    changes,
    read_lock,
    render_lock,
    write_lock,
)

ZLIB = LockedPackage(name="zlib1g", version="1:1.2.13.dfsg-1", architecture="amd64", sha256="a" * 64)
TZDATA = LockedPackage(name="tzdata", version="2026f-0+deb12u1", architecture="all", sha256="b" * 64)


def test_a_lock_reads_back_as_it_was_written(tmp_path: Path) -> None:
    write_lock(tmp_path / "lock.toml", Lock(architecture="amd64", package=(TZDATA, ZLIB)))
    assert read_lock(tmp_path / "lock.toml") == Lock(architecture="amd64", package=(TZDATA, ZLIB))


def test_the_order_of_packages_does_not_change_the_bytes() -> None:
    forth, back = (Lock(architecture="amd64", package=order) for order in ((TZDATA, ZLIB), (ZLIB, TZDATA)))
    assert render_lock(forth) == render_lock(back)


def test_the_file_of_a_package_with_an_epoch_has_the_name_that_apt_gives_it() -> None:
    assert ZLIB.file_name == "zlib1g_1%3a1.2.13.dfsg-1_amd64.deb"


def test_cloches_own_lock_is_in_normal_form_and_names_no_address() -> None:
    data = CELL_LOCK.read_bytes()
    assert render_lock(read_lock()) == data
    assert b"//" not in data


GOOD = render_lock(Lock(architecture="amd64", package=(TZDATA,))).decode()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version = ", "not TOML"),
        (GOOD.replace("version = 1", "version = 2"), "damaged at version"),
        (GOOD.replace("b" * 64, "b" * 63), "damaged at package.0.sha256"),
        (GOOD.replace("2026f-0+deb12u1", "1 --force"), "damaged at package.0.version"),
        (GOOD.replace('"tzdata"', '"-o=x"'), "damaged at package.0.name"),
        (GOOD + 'mirror = "example"\n', "damaged at package.0.mirror"),
        (GOOD + GOOD.partition("\n\n")[2], "names a package twice"),
        ('version = 1\narchitecture = "amd64"\npackage = []\n', "damaged at package"),
    ],
)
def test_a_damaged_lock_is_refused_and_the_place_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "lock.toml").write_text(text)
    with pytest.raises(LockDamaged, match=told):
        read_lock(tmp_path / "lock.toml")


def test_a_missing_lock_is_named(tmp_path: Path) -> None:
    with pytest.raises(LockDamaged, match=r"absent\.toml"):
        read_lock(tmp_path / "absent.toml")


def test_changes_show_new_gone_and_moved_packages_and_no_others() -> None:
    old = {"a": "1", "b": "1", "c": "1"}
    new = {"a": "1", "b": "2", "d": "1"}
    assert changes(old, new) == (Change("b", "1", "2"), Change("c", "1", ""), Change("d", "", "1"))
    assert [str(change) for change in changes(old, new)] == ["b: 1 → 2", "c: 1 → (none)", "d: (none) → 1"]
