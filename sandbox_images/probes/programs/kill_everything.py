"""Kill every process that can be seen, the supervisor among them."""

import os
import signal

GROUP = "lifetime"
EXPECT = "EPERM"
WHY = "The supervisor must outlive what it watches."
ALONE = True


def attempt() -> str:
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(-1, signal.SIGKILL)
    return "killed the supervisor"
