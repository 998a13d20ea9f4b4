"""Read the kernel's log."""

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM"}
WHY = "It tells addresses, devices and neighbours."

SYSLOG, SIZE_BUFFER = 103, 10


def attempt() -> str:
    call(SYSLOG, SIZE_BUFFER, None, 0)
    return "asked for the log's size"
