"""What a run may do: what its package declares and its session grants, decided once, when the run is created.

`run.json` keeps the answer, and the run loop asks nothing else. What a package declares, the default included, is told by
`engine.catalog.summary`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PERSON: Final = frozenset({"workspace.read", "workspace.write", "workspace.exec", "ask"})
"""What a person's session grants beside every `program:<name>`, which asks for its own; `network` it does not grant."""


def granted(declared: Iterable[str], *, session: frozenset[str] = PERSON) -> tuple[str, ...]:
    """Those of the `declared` permissions that the session grants, in their order."""
    return tuple(name for name in declared if name in session or name.startswith("program:"))
