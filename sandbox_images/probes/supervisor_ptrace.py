"""Trace PID 1."""

from functools import partial

from _kernel import any_of, call

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "A traced supervisor is a frozen one."

PTRACE, PTRACE_SEIZE, PTRACE_ATTACH = 101, 0x4206, 16


def attempt() -> str:
    ways = (
        ("seized", partial(call, PTRACE, PTRACE_SEIZE, 1, 0, 0)),
        ("attached to", partial(call, PTRACE, PTRACE_ATTACH, 1, 0, 0)),
    )
    return f"{any_of(ways)} PID 1"
