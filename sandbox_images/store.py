"""Where built images live, and which one is current.

Owns `$CLOCHE_HOME/images`: `<image id>.tar` per image (kept: a run names its image), `current.json`, `debs/`, and the
lock under which one process at a time builds. Everything is built aside and renamed, so a crash leaves the old state;
what a killed build left behind goes away with the next one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from engine.errors import EngineFailure
from engine.files import fsync_directory, lock, make_directory, remove_tree, storage, write_atomic
from sandbox_images.archive import DIGEST, BuiltImage, ImageInfo
from sandbox_images.build import build_archive
from sandbox_images.debs import DEBIAN_ENV, LockedVersionGone
from sandbox_images.extend import extend_archive
from sandbox_images.guest_files import guest_digest, guest_root, guest_tree
from sandbox_images.lockfile import CELL_LOCK
from sandbox_images.verify import verify_archive

ASIDE = ".build-"
RECIPE_MODULES = ("archive.py", "build.py", "bytecode.py", "content.py", "guest_files.py", "layer.py")

Digest = Annotated[str, StringConstraints(pattern=DIGEST)]


class CurrentDamaged(EngineFailure):
    """`current.json` is not what was written there."""

    code = "image_record_damaged"


class Current(BaseModel):
    """`current.json`, version 1: the image that new cells use.

    `recipe` is the digest of everything that the image was built from; empty for one that was imported or made from
    a given base, which stays current as long as its guest is the installed one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    image_id: Digest
    diff_ids: tuple[Digest, ...]
    recipe: str
    info: ImageInfo


def images_directory(home: Path) -> Path:
    """Created, 0700, when absent."""
    return make_directory(home / "images")


def current(home: Path) -> BuiltImage | None:
    """The image that new cells use, or None when none was built or its archive is gone.

    Cheap: digests are not checked here. `verify_archive(image.path, expect=image.image_id)` does it before a load.

    Raises:
        CurrentDamaged: `current.json` has another shape.
    """
    record = read_current(home)
    return None if record is None else as_image(home, record)


def ensure_built(
    home: Path,
    *,
    cache: Path | None = None,
    lock_path: Path = CELL_LOCK,
    guest: Path | None = None,
    fall_back: bool = False,
    env: Mapping[str, str] = DEBIAN_ENV,
) -> BuiltImage:
    """The current image when it is up to date (lock, guest and builder unchanged; milliseconds), else a new build.

    `fall_back` builds from the mirror's current versions when it no longer has a locked one; the image then says
    `locked=False`, and stays current until something it was built from changes. Two processes build one after the
    other, and the second finds the first one's image.

    Raises:
        As `build`.
    """
    found = up_to_date(home, lock_path=lock_path, guest=guest)
    if found is not None:
        return found
    with exclusive(home) as aside:
        found = up_to_date(home, lock_path=lock_path, guest=guest)
        if found is not None:
            return found
        archive = partial(
            build_archive, aside, cache=cache or home / "images" / "debs", lock_path=lock_path, guest=guest, env=env
        )
        try:
            image = archive(unlocked=False)
        except LockedVersionGone:
            if not fall_back:
                raise
            image = archive(unlocked=True)
        return keep(home, image, recipe=recipe_digest(lock_path, image.guest))


def build(
    home: Path,
    *,
    cache: Path | None = None,
    lock_path: Path = CELL_LOCK,
    guest: Path | None = None,
    unlocked: bool = False,
    env: Mapping[str, str] = DEBIAN_ENV,
) -> BuiltImage:
    """Build the cell image anew and make it current. Packages are kept in `cache`, by default `images/debs`.

    Raises:
        As `sandbox_images.build.build_archive`; the image that was current stays.
    """
    with exclusive(home) as aside:
        packages = cache or home / "images" / "debs"
        image = build_archive(aside, cache=packages, lock_path=lock_path, guest=guest, unlocked=unlocked, env=env)
        return keep(home, image, recipe=recipe_digest(lock_path, image.guest))


def build_from_base(home: Path, base_archive: Path, *, guest: Path | None = None) -> BuiltImage:
    """Add the guest to a given image's archive (as `docker save` writes it) and make the result current.

    Raises:
        As `sandbox_images.extend.extend_archive`.
    """
    with exclusive(home) as aside:
        image = extend_archive(base_archive, aside, guest=guest)
        return keep(home, image, recipe="")


def adopt(home: Path, archive: Path) -> BuiltImage:
    """Import an exported cell image: check it, copy it into the home, make it current.

    Raises:
        ImageAltered: missing, any digest is wrong, or it is no cell image.
    """
    expected = verify_archive(archive).image_id
    with exclusive(home) as aside:
        copy = aside / "import.tar"
        with storage(copy):
            shutil.copyfile(archive, copy)
        return keep(home, verify_archive(copy, expect=expected), recipe="")


def up_to_date(home: Path, *, lock_path: Path, guest: Path | None) -> BuiltImage | None:
    """The current image, when nothing that it was built from has changed since."""
    record = read_current(home)
    if record is None:
        return None
    files = guest_tree(guest_root() if guest is None else guest)
    if record.recipe:
        fresh = record.recipe == recipe_digest(lock_path, guest_digest(files))
    else:
        fresh = record.info.guest == guest_digest(files)
    return as_image(home, record) if fresh else None


def recipe_digest(lock_path: Path, guest: str) -> str:
    """Digest of the lock, the guest's digest and the builder's own code, 64 hex digits."""
    digest = hashlib.sha256(guest.encode())
    for path in (lock_path, *(Path(__file__).with_name(name) for name in RECIPE_MODULES)):
        data = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def read_current(home: Path) -> Current | None:
    """`current.json`, or None when there is none or the archive it names is gone."""
    path = home / "images" / "current.json"
    if not path.is_file():
        return None
    try:
        record = Current.model_validate_json(path.read_bytes())
    except ValidationError as error:
        fix = "Remove the file and run `cloche image build`."
        raise CurrentDamaged(f"{path} is damaged: {error.errors()[0]['msg']}.", fix=fix) from error
    return record if archive_path(home, record.image_id).is_file() else None


def archive_path(home: Path, image_id: str) -> Path:
    return home / "images" / f"{image_id.removeprefix('sha256:')}.tar"


def as_image(home: Path, record: Current) -> BuiltImage:
    return BuiltImage(archive_path(home, record.image_id), record.image_id, record.diff_ids, record.info)


@contextmanager
def exclusive(home: Path) -> Iterator[Path]:
    """Build alone in a directory of one's own, gone afterwards; first clears what a killed build left behind."""
    images = images_directory(home)
    with lock(images / ".lock", what="the image store"):
        for leftover in images.glob(f"{ASIDE}*"):
            remove_tree(leftover)
        with storage(images), tempfile.TemporaryDirectory(prefix=ASIDE, dir=images) as aside:
            yield Path(aside)


def keep(home: Path, image: BuiltImage, *, recipe: str) -> BuiltImage:
    """Move a finished archive to its place, then name it current: in this order, so that a crash loses nothing."""
    place = archive_path(home, image.image_id)
    with storage(place):
        with image.path.open("rb") as data:
            os.fsync(data.fileno())
        image.path.replace(place)
        fsync_directory(place.parent)
    record = Current(image_id=image.image_id, diff_ids=image.diff_ids, recipe=recipe, info=image.info)
    write_atomic(place.parent / "current.json", record.model_dump_json(indent=2).encode() + b"\n")
    return as_image(home, record)
