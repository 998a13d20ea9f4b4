"""Count events of the processor."""

import os
import struct

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM", "runsc": "ENODEV"}
WHY = "Counters see what neighbours do, and their code was broken often."

PERF_EVENT_OPEN = 298
CPU_CLOCK = struct.pack("IIQQQQQIIQ", 1, 64, 0, 0, 0, 0, 1 | 1 << 5 | 1 << 6, 0, 0, 0)


def attempt() -> str:
    os.close(call(PERF_EVENT_OPEN, CPU_CLOCK, 0, -1, -1, 0))
    return "opened a counter"
