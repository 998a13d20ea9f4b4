"""Set the clock of the machine."""

from _kernel import call

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "Certificates, logs and neighbours go by it."

SETTIMEOFDAY = 164
"""With neither time nor zone the right is asked for, and nothing changes."""


def attempt() -> str:
    call(SETTIMEOFDAY, None, None)
    return "the clock could be set"
