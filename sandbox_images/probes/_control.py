"""Runs every attempt in the unprotected container: PID 1 there, one child per attempt, one JSON line per outcome."""

import ctypes
import json
import os
import signal
import sys

sys.path.insert(0, "/opt/cloche")

from cloche_guest.attempt import outcome, preload

FOLDER = "/cloche/in/snapshot/probes"
SAID = os.open("/cloche/out/control.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
ATTEMPT_S = 20
MS_REMOUNT = 32


def say(name: str, *, through: bool, cause: str, detail: str) -> None:
    """Through the descriptor that was opened at first: an attempt may have changed the root."""
    row = {"attempt": name, "through": through, "cause": cause, "detail": detail}
    os.write(SAID, json.dumps(row).encode() + b"\n")


def one(name: str) -> None:
    signal.alarm(ATTEMPT_S)
    word, detail = outcome(f"{FOLDER}/{name}.py", staged=True)
    signal.alarm(0)
    cause, _, rest = detail.partition(": ") if word == "failed" else (word, "", detail)
    say(name, through=word == "passed", cause="" if word == "passed" else cause, detail=rest)


def main(names: list[str]) -> None:
    """A child that dies without a word has one said for it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).mount(b"sysfs", b"/sys", b"sysfs", MS_REMOUNT, None)  # an engine mounts it read-only
    preload()
    for name in names:
        child = os.fork()
        if child == 0:
            one(name)
            os._exit(0)
        if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            say(name, through=False, cause="crashed", detail=f"ended with {status}")


main(sys.argv[1:])
