"""Write a program to /tmp and start it."""

import os
import shutil

GROUP = "files"
EXPECT = "EACCES"
WHY = "What may be written may not be started."


def attempt() -> str:
    shutil.copyfile("/opt/cloche/python", "/tmp/planted")
    os.chmod("/tmp/planted", 0o700)
    child = os.fork()
    if child == 0:
        try:
            os.execv("/tmp/planted", ["/tmp/planted", "-S", "-c", "raise SystemExit(42)"])
        except OSError as error:
            os._exit(error.errno or 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.unlink("/tmp/planted")
    if code == 42:
        return "started a program in /tmp"
    raise OSError(code, os.strerror(max(code, 0)))
