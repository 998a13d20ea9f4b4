"""Find a variable that the host passed on."""

import os

from _kernel import NothingFound

GROUP = "environment"
EXPECT = "NothingFound"
WHY = "Credentials travel in environments."

ALLOWED = {"PATH", "PYTHONHASHSEED", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "HOME", "HOSTNAME"}


def attempt() -> str:
    found = sorted(set(os.environ) - ALLOWED)
    if not found:
        raise NothingFound("only the allow-list")
    return f"found {', '.join(found)}"
