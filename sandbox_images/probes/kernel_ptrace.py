"""Be traced by its parent."""

from _kernel import call

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "Tracing is the largest door between processes, and around a filter on old kernels."

PTRACE, PTRACE_TRACEME = 101, 0


def attempt() -> str:
    call(PTRACE, PTRACE_TRACEME, 0, 0, 0)
    return "is traced"
