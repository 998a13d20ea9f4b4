"""The child that runs one workflow: loads the snapshot, calls the entry with the task, says what came of it.

Everything in this process is untrusted from the first import on; the supervisor believes none of it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import cloche._call
from cloche import _imports

from cloche_guest import codec, failure, loader, world
from cloche_guest.backend import ChannelBackend
from cloche_guest.children import CHANNEL
from cloche_guest.control import Paths
from cloche_guest.inbox import ChannelClosed
from cloche_guest.package_values import resolve

RETURNED, RAISED, LOST = 0, 1, 69


class NoEntry(Exception):
    """The snapshot has no such package, or the package no such entry."""


def prepare(scratch: str) -> None:
    """What every child that runs untrusted code starts from."""
    os.chdir(scratch)
    sys.argv = [""]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]


def run(paths: Paths, *, value_bytes: int) -> int:
    """Get ready, wait for the job, and call its entry with its task; the exit code of the worker.

    Nothing of a package is touched before the job is there. A result that cannot be recorded is reported as the error
    `UnrecordableValue`.
    """
    prepare(paths.scratch[0])
    backend, seed, entry = ChannelBackend(CHANNEL, value_bytes=value_bytes), world.Seed(), ""
    cloche._call.install(backend)
    world.install(seed=seed, clock=backend)
    _imports.AfterImport("asyncio", _install_loop)

    def wrap(workflow_id: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return function if workflow_id == entry else loader.scoped(workflow_id, function)

    loader.install(paths.snapshot, wrap=wrap)
    try:
        job, task = backend.take_job()
        seed.hex, entry = str(job["seed"]), job["entry"]
        try:
            result = find_entry(entry)(codec.decode(task, resolve=resolve))
        except ChannelClosed:
            return LOST
        except BaseException as error:
            backend.send_error(failure.describe(error, snapshot=paths.snapshot))
            return RAISED
        return _send_result(backend, result)
    except ChannelClosed:
        return LOST


def _install_loop() -> None:
    from cloche import _loop

    _loop.install()


def _send_result(backend: ChannelBackend, result: Any) -> int:
    try:
        backend.send_result(result)
    except codec.CodecError as error:
        text = f"the result cannot be recorded: {error}"
        backend.send_error({"type": "UnrecordableValue", "message": failure.clip(text, 2000), "traceback": ""})
        return RAISED
    return RETURNED


def find_entry(workflow_id: str) -> Callable[..., Any]:
    """The entry of a package in the snapshot, as its importers get it.

    Raises:
        NoEntry: the package does not give it. Whatever importing the package raises.
    """
    package = importlib.import_module(f"workflows.{workflow_id}")
    entry = getattr(package, workflow_id, None)
    if not callable(entry):
        raise NoEntry(f"workflows.{workflow_id} has no callable {workflow_id}")
    return entry  # type: ignore[no-any-return]
