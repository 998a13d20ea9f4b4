"""Runs programs in the unprotected container, each below a supervisor as one would write it without a thought of attacks.

It reads lines as they come, waits for the end, and believes exit codes. CONTROL of a program says what counts as through:
`returned` (the program came to its end), `taken` (its bytes were taken, or the reader fell over them), `mark` (something of it
still lived when all was over) or `exit 137` (its exit code reads as a kill).
"""

import json
import os
import select
import signal
import socket
import sys
import time
from types import ModuleType

sys.path.insert(0, "/opt/cloche")

from cloche_guest.attempt import outcome

FOLDER = "/cloche/in/snapshot/probes"
OUT = "/cloche/out/control.jsonl"
PROGRAM_S = 40.0
MARK_S = 30.0


def say(name: str, *, through: bool, cause: str, detail: str) -> None:
    with open(OUT, "a", encoding="utf-8") as file:
        file.write(json.dumps({"attempt": name, "through": through, "cause": cause, "detail": detail}) + "\n")


def loaded(name: str) -> ModuleType:
    module = ModuleType(name)
    with open(f"{FOLDER}/{name}.py", "rb") as file:
        exec(compile(file.read(), name, "exec", dont_inherit=True), module.__dict__)
    return module


def work(name: str, control: str, channel: int, stdout: int) -> None:
    """The program itself, with the descriptors that a worker has."""
    signal.alarm(0)
    os.dup2(stdout, 1)
    os.dup2(channel, 3)
    os.closerange(4, 64)
    word, detail = outcome(f"{FOLDER}/{name}.py", staged=True)
    cause, _, rest = detail.partition(": ")
    if word != "passed":
        say(name, through=False, cause=cause, detail=rest)
    elif control == "returned":
        say(name, through=True, cause="", detail=detail)
    os._exit(0)


def supervise(name: str) -> None:
    program = loaded(name)
    control = getattr(program, "CONTROL", "returned")
    signal.alarm(int(PROGRAM_S))
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        work(name, control, theirs.fileno(), writing)
    theirs.close()
    os.close(writing)
    if control == "mark":
        judge_mark(name, program.MARK)
        return
    said, status = listen(ours.fileno(), reading, child)
    code = os.waitstatus_to_exitcode(status)
    if control == "taken":
        judge_taken(name, said)
    elif control == "exit 137":
        reads_as_kill = code in (137, -signal.SIGKILL)
        say(name, through=reads_as_kill, cause="" if reads_as_kill else f"exit {code}", detail="was taken for killed")


def listen(channel: int, stdout: int, child: int) -> tuple[bytes, int]:
    """All that comes before the program's end, and its status."""
    said = b""
    sources = {channel, stdout}
    ended = status = 0
    while True:
        if not ended:
            ended, status = os.waitpid(child, os.WNOHANG)
        ready, _, _ = select.select(list(sources), [], [], 0 if ended else 0.02)
        if ended and not ready:
            return said, status
        for source in ready:
            data = os.read(source, 1 << 20)
            said += data if source == channel else b""
            if not data:
                sources.discard(source)


def judge_taken(name: str, said: bytes) -> None:
    """Takes every line for what it says it is."""
    taken: dict[str, int] = {}
    for line in said.splitlines():
        try:
            kind = json.loads(line)["t"]
        except Exception as error:
            kind = f"a line that the reader falls over ({type(error).__name__})"
        taken[kind] = taken.get(kind, 0) + 1
    told = ", ".join(f"{count} {kind}" for kind, count in taken.items())
    say(name, through=bool(taken), cause="" if taken else "nothing came", detail=f"took {told}")


def judge_mark(name: str, mark: str) -> None:
    until = time.monotonic() + MARK_S
    while time.monotonic() < until and not os.path.exists(mark):
        time.sleep(0.02)
    lives = os.path.exists(mark)
    say(name, through=lives, cause="" if lives else "no mark", detail="lived on after the end")


def run_all(names: list[str]) -> None:
    """Side by side, until each has its outcome or time is up; then everything is killed."""
    for name in names:
        if os.fork() == 0:
            supervise(name)
            os._exit(0)
    until = time.monotonic() + PROGRAM_S + 2
    while time.monotonic() < until and not set(names) <= told():
        reap()
        time.sleep(0.02)
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
    reap()
    for name in set(names) - told():
        say(name, through=False, cause="crashed", detail="ended, or never ended, without an outcome")


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def told() -> set[str]:
    if not os.path.exists(OUT):
        return set()
    with open(OUT, encoding="utf-8") as file:
        return {json.loads(line)["attempt"] for line in file if line.endswith("\n")}


def main(names: list[str]) -> None:
    alone = [name for name in names if getattr(loaded(name), "ALONE", False)]
    run_all([name for name in names if name not in alone])
    for name in alone:
        run_all([name])


main(sys.argv[1:])
