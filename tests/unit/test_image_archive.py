"""Image archives: the id is the config's hash, and nothing altered passes."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from cloche_guest.control import Paths

from engine.files import sha256_hex
from engine.sandbox.policy import ENTRYPOINT
from sandbox_images.archive import LABEL
from sandbox_images.content import PYTEST_DIRECTORY, PYTHON, skeleton
from sandbox_images.extend import BaseRefused, extend_archive
from sandbox_images.guest_files import PYTEST_LINK, PYTHON_LINK
from sandbox_images.layer import file, read_tar
from sandbox_images.verify import ImageAltered, open_archive, verify_archive
from tests.helpers.tiny_images import INFO, PYTHON_TREE, rewrite, tiny_archive


def test_an_unaltered_archive_reads_back_as_it_was_built(tmp_path: Path) -> None:
    image = tiny_archive(tmp_path)
    assert verify_archive(image.path) == image
    assert image.path.stem == image.image_id.removeprefix("sha256:")
    with open_archive(image.path) as archive:
        assert f"sha256:{sha256_hex(archive.config_data)}" == image.image_id


def test_the_labels_say_what_the_image_is(tmp_path: Path) -> None:
    with open_archive(tiny_archive(tmp_path).path) as archive:
        labels = archive.labels()
    assert labels[f"{LABEL}image"] == "cell"
    assert labels[f"{LABEL}locked"] == "true"
    assert labels[f"{LABEL}guest"] == INFO.guest


def test_an_altered_layer_is_refused(tmp_path: Path) -> None:
    image = tiny_archive(tmp_path)
    rewrite(image.path, lambda name, data: (name, data.replace(b"#!", b"!#") if name.endswith("layer.tar") else data))
    with pytest.raises(ImageAltered, match=r"layer 1 has the digest sha256:[0-9a-f]{64}, and its config says"):
        verify_archive(image.path)


def test_an_altered_config_is_refused(tmp_path: Path) -> None:
    image = tiny_archive(tmp_path)
    rewrite(image.path, lambda name, data: (name, data.replace(b"PATH=/usr/bin", b"PATH=/tmp/bin")))
    with pytest.raises(ImageAltered, match="its config has the digest"):
        verify_archive(image.path)


def test_a_consistent_archive_of_another_image_is_refused_when_an_id_is_expected(tmp_path: Path) -> None:
    image = tiny_archive(tmp_path)
    other = tiny_archive(tmp_path, PYTHON_TREE | {"etc/extra": file(b"")})
    with pytest.raises(ImageAltered, match="and not sha256:"):
        verify_archive(other.path, expect=image.image_id)


def manifest_with(**fields: object) -> bytes:
    return json.dumps([{"Config": "x.json", "Layers": ["x/layer.tar"], **fields}]).encode()


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (b"[]", "exactly one image"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (manifest_with(Layers=[]), "no config or no layers"),
        (manifest_with(Config=7), "no config or no layers"),
        (manifest_with(Config="../../etc/passwd"), "etc/passwd is missing"),
        (b" " * (4 * 1024 * 1024 + 1), "larger than"),
    ],
)
def test_a_manifest_of_another_shape_is_refused(tmp_path: Path, manifest: bytes, told: str) -> None:
    image = tiny_archive(tmp_path)
    rewrite(image.path, lambda name, data: (name, manifest if name == "manifest.json" else data))
    with pytest.raises(ImageAltered, match=told):
        verify_archive(image.path)


def test_a_second_member_of_the_same_name_is_refused(tmp_path: Path) -> None:
    image = tiny_archive(tmp_path)
    with tarfile.open(image.path, "a") as archive:
        archive.addfile(tarfile.TarInfo("manifest.json"), io.BytesIO())
    with pytest.raises(ImageAltered, match="a name occurs twice"):
        verify_archive(image.path)


def test_a_cut_archive_and_one_that_is_no_tar_are_refused(tmp_path: Path) -> None:
    image = tiny_archive(tmp_path)
    image.path.write_bytes(image.path.read_bytes()[:1000])
    with pytest.raises(ImageAltered):
        verify_archive(image.path)
    image.path.write_bytes(b"no tar at all" * 100)
    with pytest.raises(ImageAltered, match="not a complete tar"):
        verify_archive(image.path)


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageAltered, match=r"absent\.tar"):
        verify_archive(tmp_path / "absent.tar")


def test_an_image_that_is_no_cell_is_refused_with_the_way_to_make_one(tmp_path: Path) -> None:
    image = tiny_archive(tmp_path)
    strange: dict[str, bytes] = {}

    def without_labels(name: str, data: bytes) -> tuple[str, bytes]:
        if name.endswith(".json") and name != "manifest.json":
            data = data.replace(b'"io.cloche.image":"cell"', b'"io.cloche.image":"none"')
            strange["id"] = sha256_hex(data).encode()
            return f"{sha256_hex(data)}.json", data
        if name == "manifest.json":
            data = data.replace(image.path.stem.encode(), strange["id"])
        return name, data

    rewrite(image.path, without_labels)
    with pytest.raises(ImageAltered, match="--base"):
        verify_archive(image.path)


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    root = tmp_path / "guest"
    for package in ("cloche", "cloche_guest"):
        (root / package / "__pycache__").mkdir(parents=True)
        (root / package / "__init__.py").write_text("")
        (root / package / "__pycache__" / "stale.py").write_text("")
    (root / "cloche" / "live.py").write_text("")
    (root / "cloche" / "data.json").write_text("{}")
    (root / "cloche" / "notes.txt").write_text("")
    return root


def test_a_given_base_gets_the_guest_on_top_and_keeps_its_own_layers(tmp_path: Path, guest: Path) -> None:
    base = tiny_archive(tmp_path, {"usr/local/bin/python3.12": file(b""), **PYTHON_TREE})
    made = extend_archive(base.path, tmp_path, guest=guest)
    assert verify_archive(made.path) == made
    assert made.diff_ids[:-1] == base.diff_ids
    assert (made.locked, made.info.base) == (False, base.image_id)
    assert made.info.python == "/usr/local/bin/python3.12"
    with open_archive(made.path) as archive:
        *_, (_, _, top) = archive.layers()
        tree = read_tar(top.read())
    paths = {path for path in tree if path.startswith("opt/cloche/")}
    assert paths == {
        "opt/cloche/cloche",
        "opt/cloche/cloche/__init__.py",
        "opt/cloche/cloche/data.json",
        "opt/cloche/cloche_guest",
        "opt/cloche/cloche_guest/__init__.py",
        "opt/cloche/pytest",
        "opt/cloche/python",
    }
    assert tree["opt/cloche/python"].target == "/usr/local/bin/python3.12"
    assert tree["opt/cloche/pytest"].target == made.info.pytest


def test_a_cell_finds_python_and_pytest_where_every_image_has_them() -> None:
    assert {f"/{PYTHON_LINK}", f"/{PYTEST_LINK}"} == {ENTRYPOINT[0], Paths().pytest}
    tree = skeleton()
    assert (tree[PYTHON_LINK].target, tree[PYTEST_LINK].target) == (PYTHON, PYTEST_DIRECTORY)


@pytest.mark.parametrize(
    ("lacking", "told"),
    [
        ({"usr/bin/python3.10": file(b""), "usr/lib/x/site-packages/pytest/__init__.py": file(b"")}, "no Python 3.11"),
        ({"usr/bin/python3.11": file(b"")}, "no pytest"),
    ],
)
def test_a_base_without_python_or_pytest_is_refused(tmp_path: Path, guest: Path, lacking: dict, told: str) -> None:
    base = tiny_archive(tmp_path, lacking)
    with pytest.raises(BaseRefused, match=told):
        extend_archive(base.path, tmp_path / "none", guest=guest)
