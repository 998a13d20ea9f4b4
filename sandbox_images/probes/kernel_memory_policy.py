"""Say on which memory of the machine a process lies, and move it."""

from functools import partial

from _kernel import any_of, call

GROUP = "kernel"
EXPECT = {"runc": "EPERM"}
WHY = "It tells where neighbours lie, and is seldom used code."

MBIND, SET_MEMPOLICY, GET_MEMPOLICY, MOVE_PAGES = 237, 238, 239, 279


def attempt() -> str:
    ways = (
        ("set_mempolicy", partial(call, SET_MEMPOLICY, 0, None, 0)),
        ("get_mempolicy", partial(call, GET_MEMPOLICY, None, None, 0, None, 0)),
        ("move_pages", partial(call, MOVE_PAGES, 0, 0, None, None, None, 0)),
        ("mbind", partial(call, MBIND, 0, 0, 0, None, 0, 0)),
    )
    return f"{any_of(ways)} was let through"
