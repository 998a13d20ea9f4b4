"""Why a value has no encoding, and where inside it that is.

The path of a refused value is put together while the refusal travels up; values that are fine pay nothing for it.
"""

from __future__ import annotations

from typing import Any


class CodecError(ValueError):
    """A value that has no encoding, or text that is no encoding; `path` says where inside the value, e.g. `$.rows[3].when`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class Refused(Exception):
    """A CodecError on its way up; `within` grows by one step of the path at every level, innermost first."""

    def __init__(self, problem: str, step: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.within = [step]

    def located(self) -> CodecError:
        return CodecError("$" + "".join(reversed(self.within)), self.problem)


def step(key: Any) -> str:
    """A key as a step of a path, in printable ASCII and short: `.rows`, `['two words']`, `[7]`, `[…]` for what is no scalar."""
    kind = type(key)
    if kind is str:
        return f".{key}" if key.isascii() and key.isidentifier() and len(key) <= 40 else f"[{key[:40]!a}]"
    if kind is int and key.bit_length() > 53:
        return "[…]"  # Python refuses to write very long ones
    return f"[{key!r}]" if key is None or kind is int or kind is bool or kind is float else "[…]"
