"""Take the group that the exchange belongs to."""

import os
from functools import partial

from _kernel import any_of

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "The group alone opens the segments."


def attempt() -> str:
    group = os.stat("/cloche/out").st_gid
    ways = (
        (f"took group {group}", partial(os.setresgid, group, group, group)),
        (f"took group {group} beside its own", partial(os.setgroups, [group])),
    )
    return any_of(ways)
