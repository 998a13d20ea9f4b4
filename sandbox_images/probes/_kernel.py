"""What several attempts need: system calls by number, and "nothing found" as an outcome of its own."""

import ctypes
import errno
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class NothingFound(Exception):
    """There was nothing to take: what protects is that it is not there."""

    cause = "NothingFound"


class Mixed(Exception):
    """Several ways were tried, and stopped by different causes."""

    def __init__(self, errors: list[OSError]) -> None:
        names = {errno.errorcode[error.errno or 0] for error in errors}
        self.cause = ", ".join(sorted(names))
        super().__init__("; ".join(str(error) for error in errors)[:500])


def call(number: int, *arguments: object, reached: Iterable[int] = ()) -> int:
    """A system call of x86-64; its value, or -1 for an error in `reached`, which says that the kernel carried it out so far.

    Raises OSError otherwise. Integers, bytes and ctypes values are arguments.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    passed = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    libc.syscall.restype = ctypes.c_long
    ctypes.set_errno(0)
    value = int(libc.syscall(ctypes.c_long(number), *passed))
    if value == -1 and (found := ctypes.get_errno()) not in tuple(reached):
        raise OSError(found, os.strerror(found))
    return value


def any_of(ways: Iterable[tuple[str, Callable[[], object]]]) -> str:
    """The name of the first way that gets through.

    Raises:
        OSError: all were stopped by the same cause. Mixed: by several; its `cause` names them all.
    """
    errors: list[OSError] = []
    for name, way in ways:
        try:
            way()
            return name
        except OSError as error:
            error.args = (error.errno, f"{error.strerror} ({name})")
            errors.append(error)
    if len({error.errno for error in errors}) == 1:
        raise errors[0]
    raise Mixed(errors)


def opened(path: str | Path, flags: int) -> None:
    """Open and close again: the permission is what is asked for, nothing is changed."""
    os.close(os.open(path, flags))


def parameter(name: str) -> Any:
    """What the host laid out for the attempts."""
    return json.loads((HERE / "parameters.json").read_text())[name]
