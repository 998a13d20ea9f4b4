"""The cell image, built: locked packages and the guest in, one verified archive out.

Owns the order of the steps. Files in, files out: the container engine is not spoken to here. Where results live and
which one is current is `sandbox_images.store`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.files import sha256_hex
from sandbox_images.archive import BuiltImage, ImageInfo, config_bytes, write_archive
from sandbox_images.bytecode import compile_tree
from sandbox_images.content import PYTEST_DIRECTORY, PYTHON, choose, skeleton
from sandbox_images.debs import DEBIAN_ENV, Debian, open_debian
from sandbox_images.guest_files import guest_digest, guest_root, guest_tree
from sandbox_images.layer import Tree, read_tar, write_tar
from sandbox_images.lockfile import CELL_LOCK, Change, Lock, changes, read_lock, render_lock, versions, write_lock


def build_archive(
    into: Path,
    *,
    cache: Path,
    lock_path: Path = CELL_LOCK,
    guest: Path | None = None,
    unlocked: bool = False,
    env: Mapping[str, str] = DEBIAN_ENV,
) -> BuiltImage:
    """Build the cell image as a new file in the directory `into`, named after the image id, and return it.

    `cache` keeps the Debian packages. `unlocked` takes the mirror's current versions instead of the locked ones; the
    image says so (`locked`) and records what it used (`packages`). About 5 s once the packages are there. Nothing is
    left in `into` when it fails but what the caller's own temporary directory holds.

    Raises:
        BuilderUnavailable: no apt or dpkg here, or the lock is for another architecture.
        LockedVersionGone, DownloadFailed, DebAltered: the packages could not be had.
        CompileFailed: a file of the guest is not valid Python.
        LockDamaged, StorageFull, EngineFailure: as their names say.
    """
    lock = read_lock(lock_path)
    debian = open_debian(cache, env=env)
    if unlocked:
        packages = debian.fetch_current([package.name for package in lock.package])
        debs = tuple(debian.cache / package.file_name for package in packages)
    else:
        packages, debs = lock.package, debian.fetch_locked(lock)
    guest_files = guest_tree(guest_root() if guest is None else guest)
    layer = write_tar(system(debian, debs, guest_files, aside=into))
    info = ImageInfo(
        locked=not unlocked,
        guest=guest_digest(guest_files),
        python=PYTHON,
        pytest=PYTEST_DIRECTORY,
        packages=versions(packages),
        base="",
    )
    return pack(into, layer, info, architecture=debian.architecture)


def system(debian: Debian, debs: Iterable[Path], guest_files: Tree, *, aside: Path) -> Tree:
    """Every file of the image: the chosen part of the packages, our own files, and bytecode for all of them."""
    unpacked: Tree = {}
    for deb in debs:
        unpacked |= read_tar(debian.unpack(deb))
    tree = choose(unpacked) | skeleton() | guest_files
    return tree | compile_tree(tree, aside=aside)


def pack(into: Path, layer: bytes, info: ImageInfo, *, architecture: str) -> BuiltImage:
    """One layer and what is known of it as an archive in `into`."""
    diff_id = f"sha256:{sha256_hex(layer)}"
    config = config_bytes(info, architecture=architecture, diff_ids=[diff_id])
    path = into / f"{sha256_hex(config)}.tar"
    image_id = write_archive(path, config, [(diff_id, len(layer), io.BytesIO(layer))])
    return BuiltImage(path, image_id, (diff_id,), info)


def update_lock(
    lock_path: Path = CELL_LOCK, *, cache: Path, names: Iterable[str] = (), env: Mapping[str, str] = DEBIAN_ENV
) -> tuple[Change, ...]:
    """Write a lock of the mirror's current versions and return what changed, old to new, ordered by name.

    The names stay those of the old lock, unless `names` gives others. The file is not touched when nothing changed.

    Raises:
        BuilderUnavailable, DownloadFailed, LockDamaged, StorageFull, EngineFailure: as `build_archive`; the old lock
            stays.
    """
    old = None if names and not lock_path.exists() else read_lock(lock_path)
    wanted = sorted(names) or [package.name for package in old.package if old]  # type: ignore[union-attr]
    debian = open_debian(cache, env=env)
    packages = debian.fetch_current(wanted, refresh=True)
    new = Lock(architecture=debian.architecture, package=packages)
    if old is None or render_lock(old) != render_lock(new):
        write_lock(lock_path, new)
    return changes(versions(old.package) if old else {}, versions(packages))
