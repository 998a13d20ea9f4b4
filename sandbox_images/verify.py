"""Image archives, read and checked: every digest against the bytes.

An engine does not read a layer that it already has, so an altered archive can load without complaint; that is why
the checks are here. Refuses compressed layers, several images in one archive, and names that occur twice.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import SandboxUnavailable
from engine.files import sha256_hex
from sandbox_images.archive import LABEL, BuiltImage, ImageInfo

JSON_LIMIT_BYTES = 4 * 1024 * 1024


class ImageAltered(SandboxUnavailable):
    """An image archive is damaged or was changed: a digest, a name or the layout is not what it must be."""

    code = "image_altered"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the image archive {path} is not usable: {why}.",
            fix="Remove it and run `cloche image build`, or import an unaltered copy.",
        )


class Manifest(BaseModel):
    """One image of manifest.json."""

    model_config = ConfigDict(extra="ignore")

    Config: str
    Layers: list[str] = Field(min_length=1, max_length=200)


class Archive:
    """An open archive whose config digest and layer digests have been checked; closed by `open_archive`."""

    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self.path = path
        self.tar = tar
        names = tar.getnames()
        if len(names) != len(set(names)):
            raise ImageAltered(path, "a name occurs twice in it")
        if any(member.issparse() for member in tar):
            raise ImageAltered(path, "it has files with holes, which no image has")
        self.manifest = self._manifest()
        self.config_data = self.read(self.manifest.Config)
        self.image_id = f"sha256:{sha256_hex(self.config_data)}"
        named = self.manifest.Config.rpartition("/")[2].removesuffix(".json")
        if f"sha256:{named}" != self.image_id:
            raise ImageAltered(path, f"its config has the digest {self.image_id}, and not sha256:{named} as named")
        self.config = self._config()
        self.diff_ids = self._diff_ids()

    def read(self, name: str) -> bytes:
        with self.stream(name) as stream:
            data = stream.read(JSON_LIMIT_BYTES + 1)
        if len(data) > JSON_LIMIT_BYTES:
            raise ImageAltered(self.path, f"{name} is larger than {JSON_LIMIT_BYTES} bytes")
        return data

    def stream(self, name: str) -> IO[bytes]:
        """A member as a seekable stream. Layers that are equal are links to each other in an engine's own archive."""
        try:
            stream = self.tar.extractfile(name)
        except (KeyError, RecursionError) as error:
            raise ImageAltered(self.path, f"{name[:200]} is missing") from error
        if stream is None:
            raise ImageAltered(self.path, f"{name[:200]} is not a file")
        return stream

    def layers(self) -> Iterable[tuple[str, int, IO[bytes]]]:
        """(diff id, size in bytes, stream) of each layer, lowest first."""
        for diff_id, name in zip(self.diff_ids, self.manifest.Layers, strict=True):
            stream = self.stream(name)
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            yield diff_id, size, stream

    def labels(self) -> dict[str, str]:
        inner = self.config.get("config")
        labels = inner.get("Labels") if isinstance(inner, dict) else None
        return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}

    def _json(self, data: bytes, name: str) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ImageAltered(self.path, f"{name} is not JSON") from error

    def _manifest(self) -> Manifest:
        images = self._json(self.read("manifest.json"), "manifest.json")
        if not isinstance(images, list) or len(images) != 1:
            raise ImageAltered(self.path, "it must hold exactly one image")
        try:
            return Manifest.model_validate(images[0])
        except ValidationError as error:
            raise ImageAltered(self.path, "manifest.json has no config or no layers") from error

    def _config(self) -> dict[str, Any]:
        config = self._json(self.config_data, "the config")
        if not isinstance(config, dict) or not isinstance(config.get("rootfs"), dict):
            raise ImageAltered(self.path, "its config names no layers")
        return config

    def _diff_ids(self) -> tuple[str, ...]:
        """The layers' digests, each compared with the layer's bytes."""
        named = self.config["rootfs"].get("diff_ids")
        if not isinstance(named, list) or len(named) != len(self.manifest.Layers):
            raise ImageAltered(self.path, "its config and its manifest differ in the number of layers")
        for number, (diff_id, name) in enumerate(zip(named, self.manifest.Layers, strict=True), start=1):
            with self.stream(name) as stream:
                found = "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
            if found != diff_id:
                raise ImageAltered(self.path, f"layer {number} has the digest {found}, and its config says {diff_id}")
        return tuple(named)


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """An archive with all digests checked.

    Raises:
        ImageAltered: missing, no tar, or any digest, name or layout that is not right.
    """
    try:
        with tarfile.open(path, "r:") as tar:
            yield Archive(path, tar)
    except (tarfile.TarError, EOFError) as error:
        raise ImageAltered(path, f"it is not a complete tar ({error})") from error
    except OSError as error:
        raise ImageAltered(path, f"it cannot be read ({error.strerror})") from error


def verify_archive(path: Path, *, expect: str = "") -> BuiltImage:
    """The image in an archive, after its config's digest and every layer's digest were checked against its bytes.

    `expect` is the image id that it must have, when one is known. Reads the whole file: about 0.2 s for 50 MB.

    Raises:
        ImageAltered: anything is not as it must be, or the image is not one of Cloche's cells.
    """
    with open_archive(path) as archive:
        if expect and archive.image_id != expect:
            raise ImageAltered(path, f"it holds {archive.image_id}, and not {expect}")
        return BuiltImage(path, archive.image_id, archive.diff_ids, read_info(path, archive.labels()))


def read_info(path: Path, labels: Mapping[str, str]) -> ImageInfo:
    """What the labels say.

    Raises:
        ImageAltered: the labels of a cell image are missing or of another shape.
    """
    if labels.get(f"{LABEL}image") != "cell":
        raise ImageAltered(path, "it is no cell image of Cloche's; make one from it with `cloche image build --base`")
    fields = ("locked", "guest", "python", "pytest", "base")
    try:
        packages = json.loads(labels.get(f"{LABEL}packages", "{}"))
        known = {field: labels[f"{LABEL}{field}"] for field in fields}
        return ImageInfo.model_validate({**known, "packages": packages})
    except (KeyError, ValueError) as error:
        raise ImageAltered(path, "its labels are incomplete") from error
