"""A small file system that can be filled to the page: a tmpfs, mounted for a test. Needs root; without it the test fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PAGE = 4096
INODES = 200


@dataclass(frozen=True)
class SmallDisk:
    """The mounted file system; `home` lies on it, and what fills it beside that."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    def leave(self, pages: int) -> None:
        """Fill it so that only so many pages of 4 KiB are free."""
        free = os.statvfs(self.root).f_bavail
        with (self.root / "ballast").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, (free - pages) * PAGE)
        assert os.statvfs(self.root).f_bavail == pages

    def leave_inodes(self, count: int) -> None:
        """Fill it with empty files so that only so many more can be made."""
        folder = self.root / "inodes"
        folder.mkdir()
        for number in range(os.statvfs(self.root).f_favail - count):
            (folder / str(number)).touch()
        assert os.statvfs(self.root).f_favail == count

    def free(self) -> None:
        """Take out what fills it."""
        (self.root / "ballast").unlink(missing_ok=True)
        if (self.root / "inodes").exists():
            for path in (self.root / "inodes").iterdir():
                path.unlink()
            (self.root / "inodes").rmdir()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nothing can be written for the block, not by root either."""
        _run("mount", "-o", "remount,ro", str(self.root))
        try:
            yield
        finally:
            _run("mount", "-o", "remount,rw", str(self.root))


@contextmanager
def small_disk(root: Path, *, size: str = "1m", inodes: int = INODES) -> Iterator[SmallDisk]:
    """Mount one at the existing directory `root`."""
    _run("mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={inodes}", "tmpfs", str(root))
    try:
        disk = SmallDisk(root)
        disk.home.mkdir()
        yield disk
    finally:
        _run("umount", "-l", str(root))


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr} (this test mounts a tmpfs and needs the right to)"
