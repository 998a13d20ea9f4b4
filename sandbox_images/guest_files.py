"""The guest's own files: supervisor, worker and the `cloche` authoring API, as they go into an image.

Owns which files and where: every `*.py` and `*.json` of the packages `cloche` and `cloche_guest`, below /opt/cloche.
Refuses `cloche/live.py`, which is for the host.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from engine.errors import EngineFailure
from sandbox_images.layer import Tree, file

INSTALLED_AT = "opt/cloche"
PACKAGES = ("cloche", "cloche_guest")
SUFFIXES = (".py", ".json")
HOST_ONLY = ("cloche/live.py",)

PYTHON_LINK = f"{INSTALLED_AT}/python"
PYTEST_LINK = f"{INSTALLED_AT}/pytest"
"""Links to the image's interpreter and to the directory of its pytest: cells find them here, whatever the image is made of."""


def guest_root() -> Path:
    """The directory that holds both packages: in a checkout beside this file, else where they are installed."""
    beside = Path(__file__).with_name("guest")
    if beside.is_dir():
        return beside
    spec = importlib.util.find_spec(PACKAGES[0])
    if spec is None or not spec.submodule_search_locations:
        raise EngineFailure("the guest's files are missing from this installation.", fix="Install Cloche again.")
    return Path(next(iter(spec.submodule_search_locations))).parent


def guest_tree(root: Path) -> Tree:
    """The guest's files by their path in the image, sorted; read once, so that the image and its digest agree."""
    tree: Tree = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in SUFFIXES and path.is_file() and name not in HOST_ONLY and "__pycache__" not in path.parts:
                tree[f"{INSTALLED_AT}/{name}"] = file(path.read_bytes())
    return tree


def guest_digest(tree: Tree) -> str:
    """SHA-256 over the paths, sizes and bytes of the guest's files, 64 hex digits."""
    digest = hashlib.sha256()
    for path, entry in sorted(tree.items()):
        digest.update(f"{path}\0{len(entry.data)}\0".encode())
        digest.update(entry.data)
    return digest.hexdigest()
