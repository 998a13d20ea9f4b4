"""Command disk quotas."""

from _kernel import call

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "It acts on whole file systems of the host."

QUOTACTL, Q_SYNC = 179, 0x800001


def attempt() -> str:
    call(QUOTACTL, Q_SYNC << 8, None, 0, None)
    return "synchronised quotas"
