"""Change the source that is being run."""

import os
from functools import partial

from _kernel import HERE, any_of, opened

GROUP = "files"
EXPECT = {"runc": "EROFS or EACCES", "runsc": "EROFS or EACCES or EPERM"}
WHY = "What ran must be what was pinned."


def attempt() -> str:
    bait = HERE / "bait.txt"
    ways = (
        ("opened a source file for writing", partial(opened, bait, os.O_WRONLY | os.O_APPEND)),
        ("made a source file", partial(opened, HERE / "planted.py", os.O_WRONLY | os.O_CREAT)),
        ("renamed a source file", partial(os.rename, bait, HERE / "other.txt")),
        ("removed a source file", partial(os.unlink, bait)),
        ("changed rights", partial(os.chmod, bait, 0o777)),
    )
    return any_of(ways)
