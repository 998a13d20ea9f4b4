"""Put a filter of its own on system calls."""

import struct

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM"}
WHY = "A filter that notifies can hold and answer the calls of others."

SECCOMP, GET_ACTION_AVAIL, RET_USER_NOTIF = 317, 2, 0x7FC00000


def attempt() -> str:
    call(SECCOMP, GET_ACTION_AVAIL, 0, struct.pack("I", RET_USER_NOTIF))
    return "a notifying filter can be made"
