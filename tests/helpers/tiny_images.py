"""Small image archives for tests, written by the code that writes the real ones."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

from engine.files import sha256_hex
from sandbox_images.archive import BuiltImage, ImageInfo, config_bytes, write_archive
from sandbox_images.layer import Tree, file, write_tar

INFO = ImageInfo(
    locked=True,
    guest="0" * 64,
    python="/usr/bin/python3.11",
    pytest="/usr/lib/python3/dist-packages",
    packages={"tzdata": "1"},
    base="",
)
PYTHON_TREE: Tree = {
    "usr/bin/python3.11": file(b"#!", executable=True),
    "usr/lib/python3/dist-packages/pytest/__init__.py": file(b""),
}


def tiny_archive(into: Path, tree: Tree | None = None, *, info: ImageInfo = INFO) -> BuiltImage:
    """An image of one layer in the directory `into`."""
    layer = write_tar(PYTHON_TREE if tree is None else tree)
    diff_id = f"sha256:{sha256_hex(layer)}"
    config = config_bytes(info, architecture="amd64", diff_ids=[diff_id])
    path = into / f"{sha256_hex(config)}.tar"
    image_id = write_archive(path, config, [(diff_id, len(layer), io.BytesIO(layer))])
    return BuiltImage(path, image_id, (diff_id,), info)


def rewrite(path: Path, change: Callable[[str, bytes], tuple[str, bytes]]) -> None:
    """Replace every member (name, bytes) of an archive by what `change` makes of it."""
    with tarfile.open(path) as archive:
        read = [(member.name, archive.extractfile(member)) for member in archive]
        found = [(name, stream.read()) for name, stream in read if stream is not None]
    with tarfile.open(path, "w") as archive:
        for name, data in (change(*member) for member in found):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
