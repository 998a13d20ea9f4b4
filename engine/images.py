"""The cell image of one home and its engine: built, looked at, taken to another machine, loaded before a cell needs it.

`sandbox_images` makes and checks archives and knows no engine; this brings the two together.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from anyio import to_thread

from engine.errors import UsageError
from engine.files import make_directory, storage
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import ImageMissing
from sandbox_images import build, lockfile, store
from sandbox_images.archive import BuiltImage
from sandbox_images.guest_files import guest_digest, guest_root, guest_tree
from sandbox_images.verify import verify_archive


@dataclass(frozen=True)
class Images:
    """The images of the home `home`; new cells are made of the current one."""

    home: Path
    engine: Engine

    def current(self) -> BuiltImage:
        """The image that new cells use; the engine is not asked.

        Raises:
            ImageMissing: none was built, or it holds another guest than this version of Cloche.
        """
        image = store.current(self.home)
        if image is None:
            raise ImageMissing("the cell image is not built yet.", fix="Run `cloche image build`.")
        if image.guest != guest_digest(guest_tree(guest_root())):
            raise ImageMissing(
                "the cell image was built by another version of Cloche.", fix="Run `cloche image build`."
            )
        return image

    async def build(self, *, base: str = "", fall_back: bool = False) -> BuiltImage:
        """Build it if anything changed, check it, load it.

        `base`: add the guest to that image of the engine instead. `fall_back`: take the mirror's current versions where a
        locked one is gone; the image says so.

        Raises:
            LockedVersionGone: the mirror no longer has a locked version. SandboxError: the engine.
            StorageFull, EngineFailure: it could not be built.
        """
        ours = partial(store.ensure_built, self.home, fall_back=fall_back)
        image = await to_thread.run_sync(partial(self._build_from_base, base) if base else ours)
        await self.load(image)
        return image

    async def load(self, image: BuiltImage) -> None:
        """Have the engine know the image; its archive is verified first, layer by layer, unless the engine has it.

        Raises:
            ImageAltered: the archive is not what it was. SandboxError: the engine.
        """
        await to_thread.run_sync(self._load, image)

    async def is_loaded(self, image: BuiltImage) -> bool:
        """True when the engine has it."""
        return await to_thread.run_sync(self.engine.image_exists, image.image_id)

    def export(self, file: Path) -> BuiltImage:
        """Copy the current image's archive to a new file.

        Raises:
            ImageMissing: there is none. UsageError: the file exists. StorageFull, EngineFailure: writing failed.
        """
        image = self.current()
        if file.exists():
            raise UsageError(f"{file} exists already.", fix="Name a new file.")
        with storage(file):
            try:
                shutil.copyfile(image.path, file)
            except BaseException:
                file.unlink(missing_ok=True)
                raise
        return image

    async def adopt(self, file: Path) -> BuiltImage:
        """Check an exported archive, make it the current image and load it. Raises ImageAltered, and as `load`."""
        image = await to_thread.run_sync(store.adopt, self.home, file)
        await self.load(image)
        return image

    def locked_versions(self) -> dict[str, str]:
        """Debian package → version, as the lock file has them."""
        return dict(lockfile.versions(lockfile.read_lock().package))

    def update_lock(self) -> tuple[lockfile.Change, ...]:
        """Lock the mirror's current versions; what changed."""
        return build.update_lock(cache=self.home / "images" / "debs")

    def _load(self, image: BuiltImage) -> None:
        if not self.engine.image_exists(image.image_id):
            verify_archive(image.path, expect=image.image_id)
            self.engine.load_image(image.path)

    def _build_from_base(self, base: str) -> BuiltImage:
        archive = self.home / "images" / f".base-{time.monotonic_ns()}.tar"
        make_directory(archive.parent)
        try:
            self.engine.save_image(base, archive)
            return store.build_from_base(self.home, archive)
        finally:
            archive.unlink(missing_ok=True)
