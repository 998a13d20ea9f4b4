"""Give a file of the exchange or of the snapshot a second name."""

import os
from functools import partial

from _kernel import HERE, any_of

GROUP = "files"
EXPECT = "EACCES or EROFS"
WHY = "A second name outlives the rules of the first one's directory."


def attempt() -> str:
    ways = (
        ("linked a segment", partial(os.link, "/cloche/out/000001.seg", "/tmp/segment")),
        ("linked a segment beside itself", partial(os.link, "/cloche/out/000001.seg", "/cloche/out/linked")),
        ("linked a source file beside itself", partial(os.link, HERE / "bait.txt", HERE / "linked.txt")),
    )
    return any_of(ways)
