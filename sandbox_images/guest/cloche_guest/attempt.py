"""One attempt of the probe: called, and what became of it in words that the host can compare."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from types import ModuleType

from cloche_guest import failure

_DETAIL_CHARACTERS = 2000
_IMPORTED = ("ctypes", "fcntl", "hashlib", "json", "pathlib", "re", "resource", "shutil", "socket", "struct")


def preload() -> None:
    """What most attempts import, once: each is made in a child of this process."""
    for name in _IMPORTED:
        importlib.import_module(name)


def outcome(path: str, *, staged: bool = False) -> tuple[str, str]:
    """`passed` and how it got through; `failed` and `CAUSE: message`; `not_collected` and why it could not be called.

    CAUSE is an errno's name, what the exception gives as its `cause`, or the exception's name. `staged`: what a file has as
    `control()` is called before, which puts there what a host without protection would have.
    """
    if (folder := os.path.dirname(path)) not in sys.path:
        sys.path.append(folder)
    try:
        name = os.path.basename(path).removesuffix(".py")
        module = ModuleType(f"probes.{name}")
        module.__file__ = path
        with open(path, "rb") as file:
            exec(compile(file.read(), path, "exec", dont_inherit=True), module.__dict__)
        attempt = module.__dict__["attempt"]
    except Exception as error:
        return "not_collected", failure.clip(f"{failure.type_name(error)}: {error}", _DETAIL_CHARACTERS)
    try:
        if staged and "control" in module.__dict__:
            module.__dict__["control"]()
        return "passed", failure.clip(str(attempt()), _DETAIL_CHARACTERS)
    except BaseException as error:
        return "failed", failure.clip(f"{cause(error)}: {failure.message(error)}", _DETAIL_CHARACTERS)


def cause(error: BaseException) -> str:
    """What stopped it, in a word."""
    if isinstance(error, OSError) and error.errno:
        return errno.errorcode.get(error.errno, str(error.errno))
    return str(getattr(error, "cause", "")) or failure.type_name(error)
