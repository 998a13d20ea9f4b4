"""Entry: try to get out, and say what was in the way."""

import asyncio

from .steps.attempts import ATTEMPTS

PATIENCE_S = 3


def reaches_out(task):
    """A dict from each attempt that was blocked to the reason."""
    return asyncio.run(_try_all())


async def _try_all():
    blocked = {}
    for what, attempt in ATTEMPTS.items():
        try:
            await asyncio.wait_for(attempt(), PATIENCE_S)
        except (OSError, RuntimeError, ValueError) as error:
            blocked[what] = f"{type(error).__name__}: {error}"
    return blocked
