"""Runs every attempt in the unprotected container: PID 1 there, one child per attempt, one JSON line per outcome."""

import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

FOLDER = Path("/cloche/in/snapshot/probes")


def outcome(name: str) -> tuple[bool, str]:
    """Whether the attempt got through, and how or why not."""
    path = FOLDER / f"{name}.py"
    module = ModuleType(name)
    module.__file__ = str(path)
    try:
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
        return True, str(module.__dict__["attempt"]())
    except BaseException as error:  # noqa: BLE001 - whatever stops an attempt is its outcome
        return False, traceback.format_exception_only(error)[-1].strip()


def main(names: list[str]) -> None:
    """Append to `/cloche/out/control.jsonl`; a child that dies leaves no line."""
    for name in names:
        child = os.fork()
        if child == 0:
            through, detail = outcome(name)
            line = json.dumps({"attempt": name, "through": through, "detail": detail[:2000]}) + "\n"
            with open("/cloche/out/control.jsonl", "a") as file:
                file.write(line)
            os._exit(0)
        os.waitpid(child, 0)


main(sys.argv[1:])
