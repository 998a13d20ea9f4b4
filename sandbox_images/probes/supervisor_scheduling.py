"""Change when and where PID 1 runs."""

import os
from functools import partial

from _kernel import any_of, call

GROUP = "supervisor"
EXPECT = {"runc": "EPERM"}
WHY = "A supervisor that is never scheduled keeps no deadline."

IOPRIO_SET = 251


def attempt() -> str:
    ways = (
        ("scheduler", partial(os.sched_setscheduler, 1, os.SCHED_BATCH, os.sched_param(0))),
        ("affinity", partial(os.sched_setaffinity, 1, os.sched_getaffinity(0))),
        ("nice", partial(os.setpriority, os.PRIO_PROCESS, 1, 0)),
        ("ioprio_set", partial(call, IOPRIO_SET, 1, 1, 2 << 13 | 4)),
    )
    return f"changed {any_of(ways)} of PID 1"
