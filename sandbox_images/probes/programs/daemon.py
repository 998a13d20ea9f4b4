"""Leave a process of a session of its own, adopted by nobody, that ignores signals."""

import os
import signal
import time

GROUP = "lifetime"
EXPECT = "stragglers killed"
WHY = "Killing a process group or a session misses who left it; the end of a job is the end of all that it started."
CONTROL = "mark"
MARK = "/cloche/out/daemon.mark"


def attempt() -> str:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 256)
            time.sleep(1.0)
            os.close(os.open(MARK, os.O_CREAT | os.O_WRONLY, 0o600))
            time.sleep(30)
        os._exit(0)
    os.wait()
    return "left a daemon"
