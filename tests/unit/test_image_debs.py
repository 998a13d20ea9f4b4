"""Debian packages: kept, checked, and when the mirror has moved on, named."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SandboxUnavailable
from engine.files import sha256_hex
from sandbox_images.build import update_lock
from sandbox_images.debs import BuilderUnavailable, DebAltered, Debian, DownloadFailed, LockedVersionGone, open_debian
from sandbox_images.layer import read_tar
from sandbox_images.lockfile import Change, Lock, LockedPackage, read_lock, write_lock
from tests.helpers.fake_mirror import FakeMirror, fake_mirror


@pytest.fixture
def mirror(tmp_path: Path) -> FakeMirror:
    return fake_mirror(tmp_path / "debian")


@pytest.fixture
def debian(mirror: FakeMirror, tmp_path: Path) -> Debian:
    return open_debian(tmp_path / "debs", env=mirror.env)


def locked(deb: Path) -> LockedPackage:
    name, version, _ = deb.name.split("_")
    digest = sha256_hex(deb.read_bytes())
    return LockedPackage(name=name, version=version.replace("%3a", ":"), architecture="all", sha256=digest)


def lock_of(debian: Debian, *debs: Path) -> Lock:
    return Lock(architecture=debian.architecture, package=tuple(locked(deb) for deb in debs))


def test_locked_packages_are_downloaded_once_and_kept(mirror: FakeMirror, debian: Debian) -> None:
    lock = lock_of(debian, mirror.offer("one", "1:1.0-1"), mirror.offer("two", "2"))
    first = debian.fetch_locked(lock)
    assert [path.name for path in first] == ["one_1%3a1.0-1_all.deb", "two_2_all.deb"]
    assert debian.fetch_locked(lock) == first
    assert mirror.calls() == ["download one=1:1.0-1 two=2"]


def test_the_lists_are_updated_only_after_a_download_failed(mirror: FakeMirror, debian: Debian) -> None:
    lock = lock_of(debian, mirror.offer("one", "1", where="news"))
    debian.fetch_locked(lock)
    assert mirror.calls() == ["download one=1", "update", "download one=1"]


def test_a_version_that_is_gone_is_named_with_the_way_out(mirror: FakeMirror, debian: Debian) -> None:
    there = mirror.offer("here", "1")
    gone = mirror.offer("away", "1.0-1")
    lock = lock_of(debian, there, gone)
    gone.rename(gone.with_name("away_1.0-2_all.deb"))
    with pytest.raises(LockedVersionGone, match=r"no longer has away 1\.0-1,") as caught:
        debian.fetch_locked(lock)
    assert "cloche image lock --update" in caught.value.fix
    assert isinstance(caught.value, SandboxUnavailable)
    assert {path.name for path in debian.cache.iterdir()} == {".lock"}


def test_other_bytes_than_locked_are_refused_and_not_kept(mirror: FakeMirror, debian: Debian) -> None:
    lock = lock_of(debian, mirror.offer("one", "1", content="good"))
    mirror.offer("one", "1", content="evil")
    with pytest.raises(DebAltered, match="one 1 has other bytes"):
        debian.fetch_locked(lock)
    assert {path.name for path in debian.cache.iterdir()} == {".lock"}


def test_a_kept_file_that_was_altered_is_fetched_again(mirror: FakeMirror, debian: Debian) -> None:
    lock = lock_of(debian, mirror.offer("one", "1"))
    (kept,) = debian.fetch_locked(lock)
    kept.write_bytes(b"altered")
    (again,) = debian.fetch_locked(lock)
    assert sha256_hex(again.read_bytes()) == lock.package[0].sha256


def test_what_a_killed_download_left_behind_goes_away_with_the_next(mirror: FakeMirror, debian: Debian) -> None:
    (debian.cache / ".fetch-dead").mkdir()
    debian.fetch_locked(lock_of(debian, mirror.offer("one", "1")))
    assert {path.name for path in debian.cache.iterdir()} == {".lock", "one_1_all.deb"}


def test_a_failure_that_is_no_missing_version_keeps_apts_words(mirror: FakeMirror, debian: Debian) -> None:
    deb = mirror.offer("one", "1")
    (mirror.root / "bin" / "apt-get").write_text("#!/bin/sh\necho 'E: Temporary failure resolving' >&2; exit 100\n")
    with pytest.raises(DownloadFailed, match="Temporary failure resolving"):
        debian.fetch_locked(lock_of(debian, deb))


def test_a_lock_for_another_architecture_is_refused(debian: Debian) -> None:
    package = LockedPackage(name="one", version="1", architecture="all", sha256="0" * 64)
    with pytest.raises(BuilderUnavailable, match="the image lock is for sparc"):
        debian.fetch_locked(Lock(architecture="sparc", package=(package,)))


def test_a_machine_without_apt_is_told_how_to_get_an_image(tmp_path: Path) -> None:
    with pytest.raises(BuilderUnavailable, match="has no apt-get") as caught:
        open_debian(tmp_path / "debs", env={"PATH": str(tmp_path)})
    assert "cloche image import" in caught.value.fix
    assert "--base" in caught.value.fix
    assert not (tmp_path / "debs").exists()


def test_the_files_of_a_package_come_out_of_it(mirror: FakeMirror, debian: Debian) -> None:
    deb = mirror.offer("one", "1", content="hello")
    assert read_tar(debian.unpack(deb))["usr/one"].data == b"hello"


def test_a_lock_update_shows_what_changed_and_keeps_the_names(
    mirror: FakeMirror, debian: Debian, tmp_path: Path
) -> None:
    old, same = mirror.offer("moved", "1"), mirror.offer("same", "1")
    path = tmp_path / "lock.toml"
    write_lock(path, lock_of(debian, old, same))
    old.unlink()
    mirror.offer("moved", "2", where="news")
    assert update_lock(path, cache=debian.cache, env=mirror.env) == (Change("moved", "1", "2"),)
    assert [(package.name, package.version) for package in read_lock(path).package] == [("moved", "2"), ("same", "1")]
    assert [path.name for path in debian.fetch_locked(read_lock(path))] == ["moved_2_all.deb", "same_1_all.deb"]


def test_a_lock_update_that_fails_leaves_the_old_lock(mirror: FakeMirror, debian: Debian, tmp_path: Path) -> None:
    deb = mirror.offer("one", "1")
    path = tmp_path / "lock.toml"
    write_lock(path, lock_of(debian, deb))
    before = path.read_bytes()
    deb.unlink()
    with pytest.raises(DownloadFailed):
        update_lock(path, cache=debian.cache, env=mirror.env)
    assert path.read_bytes() == before
