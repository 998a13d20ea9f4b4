"""The snapshot into a cell: copied aside into `in/`, made read-only, then renamed, so that the cell sees all of it or nothing."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from engine.errors import EngineFailure
from engine.files import storage


class SnapshotRefused(EngineFailure):
    """A snapshot holds something else than files and directories."""

    code = "snapshot_refused"


def deliver(snapshot: Path, inbox: Path) -> int:
    """Copy `snapshot` to `inbox/snapshot`, files 0444 and directories 0555; the number of bytes.

    Links and special files are refused, since a snapshot is made of blobs and trees alone.

    Raises:
        SnapshotRefused; StorageFull, EngineFailure: the disk.
    """
    aside = inbox / ".snapshot"
    with storage(inbox):
        total = _copy(snapshot, aside)
        aside.rename(inbox / "snapshot")
    return total


def _copy(source: Path, target: Path) -> int:
    target.mkdir(mode=0o700)
    total = 0
    with os.scandir(source) as entries:
        for entry in entries:
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                total += _copy(Path(entry.path), target / entry.name)
            elif stat.S_ISREG(mode):
                copied = target / entry.name
                shutil.copyfile(entry.path, copied, follow_symlinks=False)
                copied.chmod(0o444)
                total += entry.stat(follow_symlinks=False).st_size
            else:
                raise SnapshotRefused(f"the snapshot holds {entry.path}, which is no file and no directory.")
    target.chmod(0o555)
    return total
