"""Signal PID 1 by other ways: to a thread, queued, through a descriptor of the process."""

import os
import signal
import struct
from functools import partial

from _kernel import any_of, call

GROUP = "supervisor"
EXPECT = {"runc": "EPERM", "runsc": "EPERM or ENOSYS"}
WHY = "Each is another call, with a check of its own."

TGKILL, TKILL, RT_SIGQUEUEINFO, PIDFD_OPEN, PIDFD_SEND_SIGNAL = 234, 200, 129, 434, 424
SI_QUEUE = -1


def attempt() -> str:
    info = struct.pack("iiiixxxxQ96x", signal.SIGCONT, 0, SI_QUEUE, 0, 0)
    ways = (
        ("tgkill", partial(call, TGKILL, 1, 1, signal.SIGCONT)),
        ("tkill", partial(call, TKILL, 1, signal.SIGCONT)),
        ("rt_sigqueueinfo", partial(call, RT_SIGQUEUEINFO, 1, signal.SIGCONT, info)),
        ("pidfd_send_signal", partial(_by_descriptor)),
    )
    return f"sent a signal with {any_of(ways)}"


def _by_descriptor() -> None:
    descriptor = call(PIDFD_OPEN, 1, 0)
    try:
        call(PIDFD_SEND_SIGNAL, descriptor, signal.SIGCONT, None, 0)
    finally:
        os.close(descriptor)
