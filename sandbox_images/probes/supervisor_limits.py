"""Change the limits of PID 1."""

import resource

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "Without open files or CPU time it keeps no deadline."


def attempt() -> str:
    limits = resource.prlimit(1, resource.RLIMIT_NOFILE)
    resource.prlimit(1, resource.RLIMIT_NOFILE, limits)
    return "set the limit of open files of PID 1"
