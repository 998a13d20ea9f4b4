"""A cell image made from a given one: its layers as they are, the guest on top, and a config of ours.

For machines and people who need another Python or other libraries than Debian 12 has. Owns the checks that a base must
pass. The base's own layers are not pruned: what it brings (a shell, setuid files) stays in it, and is of no use to code
without capabilities and under no-new-privileges; the image says `locked=False` and names its base.
"""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

from engine.errors import SandboxUnavailable
from engine.files import sha256_hex
from sandbox_images.archive import BuiltImage, ImageInfo, config_bytes, write_archive
from sandbox_images.content import skeleton
from sandbox_images.guest_files import PYTEST_LINK, PYTHON_LINK, guest_digest, guest_root, guest_tree
from sandbox_images.layer import link, write_tar
from sandbox_images.verify import Archive, ImageAltered, open_archive

MOUNT_POINTS = ("cloche/in", "cloche/out")
INTERPRETER = re.compile(r"^(usr/local/bin|usr/bin|opt/[^/]+/bin)/python3\.(\d{2})$")
PYTEST = re.compile(r"^(.+/(?:site|dist)-packages)/pytest/__init__\.py$")
OLDEST_MINOR = 11


class BaseRefused(SandboxUnavailable):
    """A given base image has no Python 3.11 or newer, or no pytest in it."""

    code = "image_base_refused"


def extend_archive(base_archive: Path, into: Path, *, guest: Path | None = None) -> BuiltImage:
    """Write a cell image into the directory `into`, made from the image in `base_archive` (as `docker save` writes it).

    The guest goes in as source: bytecode would need the base's interpreter to run here.

    Raises:
        ImageAltered: the base's archive is damaged, or its layers are compressed.
        BaseRefused: no `python3.11` or newer in a known place, or no pytest.
    """
    guest_files = guest_tree(guest_root() if guest is None else guest)
    mount_points = {path: skeleton()[path] for path in MOUNT_POINTS}
    with open_archive(base_archive) as base:
        python, pytest = find_python(base)
        top = write_tar(guest_files | mount_points | {PYTHON_LINK: link(python), PYTEST_LINK: link(pytest)})
        diff_id = f"sha256:{sha256_hex(top)}"
        info = ImageInfo(
            locked=False, guest=guest_digest(guest_files), python=python, pytest=pytest, base=base.image_id
        )
        architecture = base.config.get("architecture")
        if not isinstance(architecture, str):
            raise ImageAltered(base_archive, "its config names no architecture")
        diff_ids = (*base.diff_ids, diff_id)
        config = config_bytes(info, architecture=architecture, diff_ids=diff_ids, path_variable=path_variable(python))
        path = into / f"{sha256_hex(config)}.tar"
        image_id = write_archive(path, config, [*base.layers(), (diff_id, len(top), io.BytesIO(top))])
    return BuiltImage(path, image_id, diff_ids, info)


def find_python(base: Archive) -> tuple[str, str]:
    """The newest interpreter of the base, 3.11 or later, and the directory that holds pytest."""
    interpreters: list[tuple[int, str]] = []
    pytests: list[str] = []
    for _, _, stream in base.layers():
        with tarfile.open(fileobj=stream, mode="r:") as layer:
            for name in (member.name.removeprefix("./") for member in layer):
                if found := INTERPRETER.match(name):
                    interpreters.append((int(found[2]), f"/{name}"))
                if found := PYTEST.match(name):
                    pytests.append(f"/{found[1]}")
    newest = max((found for found in interpreters if found[0] >= OLDEST_MINOR), default=None)
    if newest is None or not pytests:
        missing = "pytest" if newest else "Python 3.11 or newer"
        raise BaseRefused(
            f"the base image {base.image_id} has no {missing}.",
            fix="Give a base with both: pytest in a site-packages or dist-packages directory, python3.11 in a bin directory.",
        )
    return newest[1], pytests[-1]


def path_variable(python: str) -> str:
    return ":".join(dict.fromkeys((python.rpartition("/")[0], "/usr/bin")))
