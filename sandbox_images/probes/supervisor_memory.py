"""Open the memory and the descriptors of PID 1."""

import os

GROUP = "supervisor"
EXPECT = "EACCES"
WHY = "The supervisor holds the exchange."


def attempt() -> str:
    try:
        os.close(os.open("/proc/1/mem", os.O_RDONLY))
        return "opened /proc/1/mem"
    except OSError:
        return f"listed {len(os.listdir('/proc/1/fd'))} descriptors of PID 1"
