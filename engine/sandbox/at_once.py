"""Several pieces of work at once, all of them brought to their end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio

from engine.errors import SandboxError

Work = Callable[[], Awaitable[Any]]


async def at_once(works: Sequence[Work], *, most: int) -> list[Any]:
    """Results in the order of `works`, of which at most `most` go on at a time.

    When one fails the others still come to their end, so that what they hold is given back; then the first error is raised as
    it is.

    Raises:
        SandboxError: as the work did.
    """
    results: dict[int, Any] = {}
    errors: dict[int, SandboxError] = {}
    limiter = anyio.CapacityLimiter(most)

    async def kept(number: int, work: Work) -> None:
        async with limiter:
            try:
                results[number] = await work()
            except SandboxError as error:
                errors[number] = error

    async with anyio.create_task_group() as group:
        for number, work in enumerate(works):
            group.start_soon(kept, number, work)
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(works))]
