"""Image archives: what an image is, and how one is written so that `docker load` reads it.

Owns the docker-archive layout (manifest.json, one config, layers as tars), the labels, and the image id, which is the
SHA-256 of the config and so the same on every machine. Reading and checking one is `sandbox_images.verify`.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict, Field

from engine.files import sha256_hex, storage
from sandbox_images.layer import EPOCH_S

LABEL = "io.cloche."
DIGEST = r"^sha256:[0-9a-f]{64}$"


class ImageInfo(BaseModel):
    """What an image's labels say. `packages`: Debian package to version; empty for an image made from a given base."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    locked: bool = Field(description="Made from exactly the versions and bytes of the lock.")
    guest: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the guest's files.")
    python: str = Field(pattern=r"^/[!-~]{1,200}$", description="Absolute path of the interpreter.")
    pytest: str = Field(pattern=r"^/[!-~]{1,200}$", description="The directory to add to sys.path to import pytest.")
    packages: dict[str, str] = Field(default_factory=dict)
    base: str = Field("", description="Id of the image that this one was made from; empty for our own.")


@dataclass(frozen=True)
class BuiltImage:
    """An image archive whose every digest was checked or computed here."""

    path: Path
    image_id: str
    diff_ids: tuple[str, ...]
    info: ImageInfo

    @property
    def locked(self) -> bool:
        return self.info.locked

    @property
    def packages(self) -> Mapping[str, str]:
        return self.info.packages

    @property
    def guest(self) -> str:
        return self.info.guest

    @property
    def tag(self) -> str:
        """The name under which an engine lists it, so that a prune of unnamed images spares it. Pin by `image_id`."""
        return tag_of(self.image_id)


def tag_of(image_id: str) -> str:
    return f"cloche-cell:{image_id.removeprefix('sha256:')[:12]}"


def config_bytes(
    info: ImageInfo, *, architecture: str, diff_ids: Iterable[str], path_variable: str = "/usr/bin"
) -> bytes:
    """The image's config, canonical: its SHA-256 is the image id. No entrypoint: the cell policy says what runs."""
    layers = list(diff_ids)
    labels = {
        f"{LABEL}image": "cell",
        f"{LABEL}locked": "true" if info.locked else "false",
        f"{LABEL}guest": info.guest,
        f"{LABEL}python": info.python,
        f"{LABEL}pytest": info.pytest,
        f"{LABEL}packages": json.dumps(info.packages, sort_keys=True, separators=(",", ":")),
        f"{LABEL}base": info.base,
    }
    created = "2023-11-14T22:13:20Z"
    config = {
        "architecture": architecture,
        "config": {"Env": [f"PATH={path_variable}"], "Labels": labels, "WorkingDir": "/"},
        "created": created,
        "history": [{"created": created, "created_by": "cloche image build"} for _ in layers],
        "os": "linux",
        "rootfs": {"diff_ids": layers, "type": "layers"},
    }
    return json.dumps(config, sort_keys=True, separators=(",", ":")).encode()


def write_archive(path: Path, config: bytes, layers: Iterable[tuple[str, int, IO[bytes]]]) -> str:
    """Write an archive of (diff id, size in bytes, stream) layers; returns the image id. `path` is not yet durable.

    Raises:
        StorageFull, EngineFailure: as `engine.files.storage`; the caller removes what was written.
    """
    digest = sha256_hex(config)
    names: list[str] = []
    with storage(path), tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for diff_id, size, stream in layers:
            names.append(f"{diff_id.removeprefix('sha256:')}/layer.tar")
            archive.addfile(member(names[-1], size), stream)
        manifest = [{"Config": f"{digest}.json", "Layers": names, "RepoTags": [tag_of(digest)]}]
        for name, data in (
            (f"{digest}.json", config),
            ("manifest.json", json.dumps(manifest, sort_keys=True).encode()),
        ):
            archive.addfile(member(name, len(data)), io.BytesIO(data))
    return f"sha256:{digest}"


def member(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mtime = EPOCH_S
    info.mode = 0o644
    return info
