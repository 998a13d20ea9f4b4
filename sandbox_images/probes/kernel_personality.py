"""Switch the randomising of addresses off."""

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM", "runsc": "EINVAL"}
WHY = "Attacks on memory become exact."

PERSONALITY, ADDR_NO_RANDOMIZE = 135, 0x0040000


def attempt() -> str:
    call(PERSONALITY, ADDR_NO_RANDOMIZE)
    return "switched it off"
