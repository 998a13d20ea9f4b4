"""The image store: one current image, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import ClocheError
from sandbox_images.guest_files import guest_digest, guest_tree
from sandbox_images.store import CurrentDamaged, adopt, build, build_from_base, current, ensure_built
from sandbox_images.verify import ImageAltered
from tests.helpers.tiny_images import INFO, rewrite, tiny_archive


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    root = tmp_path / "guest"
    for package in ("cloche", "cloche_guest"):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").write_text("")
    return root


def left(home: Path) -> set[str]:
    return {path.name for path in (home / "images").iterdir()} - {".lock"}


def test_no_image_is_current_at_first(tmp_path: Path) -> None:
    assert current(tmp_path) is None


def test_an_imported_image_becomes_current_and_survives_the_file_it_came_from(tmp_path: Path) -> None:
    made = tiny_archive(tmp_path)
    image = adopt(tmp_path / "home", made.path)
    made.path.unlink()
    assert current(tmp_path / "home") == image
    assert image.image_id == made.image_id
    assert left(tmp_path / "home") == {"current.json", image.path.name}


def test_an_altered_import_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    made = tiny_archive(tmp_path)
    rewrite(made.path, lambda name, data: (name, data + b"\0" if name.endswith("layer.tar") else data))
    with pytest.raises(ImageAltered):
        adopt(tmp_path / "home", made.path)
    assert not (tmp_path / "home").exists()


def test_an_imported_image_is_used_while_its_guest_is_the_installed_one(tmp_path: Path, guest: Path) -> None:
    info = INFO.model_copy(update={"guest": guest_digest(guest_tree(guest))})
    image = adopt(tmp_path / "home", tiny_archive(tmp_path, info=info).path)
    nowhere = {"PATH": str(tmp_path)}
    assert ensure_built(tmp_path / "home", guest=guest, env=nowhere) == image
    (guest / "cloche" / "new.py").write_text("")
    with pytest.raises(ClocheError, match="has no apt-get"):
        ensure_built(tmp_path / "home", guest=guest, env=nowhere)
    assert current(tmp_path / "home") == image


def test_an_image_from_a_given_base_becomes_current(tmp_path: Path, guest: Path) -> None:
    base = tiny_archive(tmp_path)
    image = build_from_base(tmp_path / "home", base.path, guest=guest)
    assert current(tmp_path / "home") == image
    assert image.info.base == base.image_id


def test_a_failed_build_leaves_nothing_but_the_image_that_was_current(tmp_path: Path, guest: Path) -> None:
    home = tmp_path / "home"
    image = adopt(home, tiny_archive(tmp_path).path)
    before = left(home)
    with pytest.raises(ClocheError):
        build(home, guest=guest, env={"PATH": str(tmp_path)})
    assert left(home) == before
    assert current(home) == image


def test_what_a_killed_build_left_behind_goes_away_with_the_next(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "images" / ".build-dead" / "root-x").mkdir(parents=True)
    image = adopt(home, tiny_archive(tmp_path).path)
    assert left(home) == {"current.json", image.path.name}


def test_a_record_whose_archive_is_gone_counts_as_none(tmp_path: Path) -> None:
    adopt(tmp_path / "home", tiny_archive(tmp_path).path).path.unlink()
    assert current(tmp_path / "home") is None


@pytest.mark.parametrize("change", [{"version": 2}, {"image_id": "sha256:../../etc"}, {"extra": 1}])
def test_a_damaged_record_is_named_with_the_way_out(tmp_path: Path, change: dict[str, object]) -> None:
    adopt(tmp_path, tiny_archive(tmp_path).path)
    record = tmp_path / "images" / "current.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | change))
    with pytest.raises(CurrentDamaged, match=r"current\.json is damaged") as caught:
        current(tmp_path)
    assert "cloche image build" in caught.value.fix
