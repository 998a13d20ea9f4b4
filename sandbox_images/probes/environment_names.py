"""Find a variable whose name is like a credential's."""

import os
import re

from _kernel import NothingFound

GROUP = "environment"
EXPECT = "NothingFound"
WHY = "The list of what may pass could grow; these never may."

LIKE = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|CERT|PROXY|DSN|_URL", re.IGNORECASE)


def attempt() -> str:
    found = sorted(name for name in os.environ if LIKE.search(name))
    if not found:
        raise NothingFound("no such name")
    return f"found {', '.join(found)}"
