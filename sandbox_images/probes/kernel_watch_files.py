"""Watch files of a whole mount or of a directory."""

from functools import partial

from _kernel import any_of, call

GROUP = "kernel"
EXPECT = {"runc": "EPERM"}
WHY = "Events tell what others do."

FANOTIFY_INIT, INOTIFY_INIT1 = 300, 294


def attempt() -> str:
    ways = (("fanotify_init", partial(call, FANOTIFY_INIT, 0, 0)), ("inotify_init1", partial(call, INOTIFY_INIT1, 0)))
    return f"{any_of(ways)} gave a descriptor"
