"""Return while a child holds standard output and the channel open."""

import os
import time

GROUP = "lifetime"
EXPECT = "stragglers killed"
WHY = "Who reads a stream to its end waits for whoever holds it, for as long as they like."
CONTROL = "mark"
MARK = "/cloche/out/stdout_holder.mark"


def attempt() -> str:
    if os.fork() == 0:
        time.sleep(1.0)
        os.write(1, b"still here\n")
        os.close(os.open(MARK, os.O_CREAT | os.O_WRONLY, 0o600))
        time.sleep(30)
        os._exit(0)
    return "left a child with standard output"
