"""Find a variable that the host passed on."""

import os

GROUP = "environment"
EXPECT = "LookupError"
WHY = "Credentials travel in environments."

ALLOWED = {"PATH", "PYTHONHASHSEED", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "HOME", "HOSTNAME", "PYTEST_CURRENT_TEST"}


def attempt() -> str:
    found = sorted(set(os.environ) - ALLOWED)
    if not found:
        raise LookupError("only the allow-list")
    return f"found {', '.join(found)}"
