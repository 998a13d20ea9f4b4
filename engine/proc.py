"""The one place that starts processes on the host: argv only, bytes in and out, always with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import EngineFailure


@dataclass(frozen=True)
class Completed:
    """What a finished process left: exit code (negative: signal) and both streams."""

    argv: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: bytes


class ProcessFailed(EngineFailure):
    """A host tool was missing, ended with another code than 0, or passed its deadline."""

    code = "process_failed"

    def __init__(self, done: Completed, why: str = "") -> None:
        streams = b"\n".join(part.strip() for part in (done.stdout, done.stderr) if part.strip())
        told = streams[-2000:].decode("utf-8", "backslashreplace")
        super().__init__(f"{' '.join(done.argv)}: {why or f'exit {done.code}'}" + (f"\n{told}" if told else ""))
        self.done = done


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: bytes = b"",
    timeout_s: float = 60.0,
    check: bool = True,
) -> Completed:
    """Run one program to its end. Nothing of our own environment passes; the whole process group ends at the deadline.

    Raises:
        ProcessFailed: not found, past `timeout_s`, or (with `check`) another exit code than 0.
    """
    command = tuple(argv)
    try:
        process = subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ProcessFailed(Completed(command, 127, b"", b""), f"cannot start ({error.strerror})") from error
    try:
        stdout, stderr = process.communicate(stdin, timeout=timeout_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise ProcessFailed(
                Completed(command, process.returncode, stdout, stderr), f"no end after {timeout_s} s"
            ) from error
        raise
    done = Completed(command, process.returncode, stdout, stderr)
    if check and done.code != 0:
        raise ProcessFailed(done)
    return done


def start_detached(argv: Sequence[str], *, env: Mapping[str, str]) -> None:
    """Start a program of our own that outlives this process: a session of its own, no terminal, no streams, no descriptor of ours.

    Raises:
        ProcessFailed: it cannot be started.
    """
    command = tuple(argv)
    try:
        subprocess.Popen(
            command,
            env=dict(env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ProcessFailed(Completed(command, 127, b"", b""), f"cannot start ({error.strerror})") from error
