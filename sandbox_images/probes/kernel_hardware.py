"""Take the right to the machine's ports, or look into the table of segments."""

from functools import partial

from _kernel import any_of, call

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "Both lie below every driver, and are there for programs of the last century."

IOPERM, IOPL, MODIFY_LDT = 173, 172, 154


def attempt() -> str:
    ways = (
        ("ioperm", partial(call, IOPERM, 0x80, 1, 1)),
        ("iopl", partial(call, IOPL, 3)),
        ("modify_ldt", partial(call, MODIFY_LDT, 0, bytes(16), 16)),
    )
    return f"{any_of(ways)} was let through"
