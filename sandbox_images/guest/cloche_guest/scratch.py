"""Empties the scratch folders between two cases. Runs in a child with the worker's rights, when nothing of it is alive."""

from __future__ import annotations

import os
from collections.abc import Iterable


def empty(folders: Iterable[str]) -> int:
    """Remove everything in the folders that can be removed; 0 when nothing is left, 1 otherwise."""
    emptied = [_empty(folder) for folder in folders if os.path.isdir(folder)]
    return 0 if all(emptied) else 1


def _empty(top: str) -> bool:
    """Flattens rather than descends, so that neither depth nor long paths stop it: what lies two levels down is moved up."""
    number = 0
    for _ in range(1_000_000):
        names = os.listdir(top)
        if not names:
            return True
        removed = False
        for name in names:
            path = os.path.join(top, name)
            if _remove(path):
                removed = True
                continue
            for inner in _list(path):
                number += 1
                if _remove(os.path.join(path, inner)) or _move(os.path.join(path, inner), top, number):
                    removed = True
            removed = _remove(path) or removed
        if not removed:
            return False
    return False


def _move(path: str, top: str, number: int) -> bool:
    try:
        os.rename(path, os.path.join(top, f".emptying-{os.getpid()}-{number}"))
    except OSError:
        return False
    return True


def _list(path: str) -> list[str]:
    try:
        os.chmod(path, 0o700)
    except OSError:
        pass  # where seccomp is in force nobody could have changed the mode either
    try:
        return os.listdir(path)
    except OSError:
        return []


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except IsADirectoryError:
        try:
            os.rmdir(path)
        except OSError:
            return False
    except OSError:
        return False
    return True
