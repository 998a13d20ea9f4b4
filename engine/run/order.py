"""Whether the calls of a pass come in an order that the authoring API can make: scopes well-formed, numbers without gaps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

from engine.sandbox.frames import Call

_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
_DEPENDENCY = re.compile(r"([a-z][a-z0-9_]{0,79})\[([1-9][0-9]{0,8})\]")
_BRANCH = re.compile(r"(?:parallel|pipeline)@[A-Za-z0-9_.]{1,120}\[[1-9][0-9]{0,8}\.[1-9][0-9]{0,8}\]")
_TASK = re.compile(r"task@[A-Za-z0-9_.]{1,120}\[[1-9][0-9]{0,8}\]")
_DEPTH = 20


class OutOfOrder(ValueError):
    """A call that the authoring API cannot have made; `name` is the protocol's word for it."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


class CallOrder:
    """Counts the calls of one pass. `dependencies` are the workflow ids that the snapshot pins."""

    def __init__(self, dependencies: Collection[str]) -> None:
        self._dependencies = dependencies
        self._made: Counter[tuple[str, str]] = Counter()
        self._entered: dict[tuple[str, str], int] = {}
        self._known = {"/"}

    def take(self, call: Call) -> None:
        """Count the next call.

        Raises:
            OutOfOrder: a function or scope of another form, an unknown dependency, or a number that is not the next one.
        """
        if not _FUNCTION.fullmatch(call.fn):
            raise OutOfOrder("call.bad_function", "the name of the function has not the form of one")
        self._enter(call.scope)
        expected = self._made[call.scope, call.fn] + 1
        if call.n != expected:
            name = "call.repeated" if call.n < expected else "call.out_of_order"
            raise OutOfOrder(name, f"{call.fn} number {call.n} in {call.scope}, {expected} was due")
        self._made[call.scope, call.fn] += 1

    def _enter(self, scope: str) -> None:
        parts = scope.split("/")[1:] if scope != "/" else []
        if not scope.startswith("/") or len(parts) > _DEPTH:
            raise OutOfOrder("call.bad_scope", "a scope begins with / and has at most 20 parts")
        around = ""
        for part in parts:
            if found := _DEPENDENCY.fullmatch(part):
                self._go_on(around, found[1], int(found[2]))
            elif scope not in self._known and not (_BRANCH.fullmatch(part) or _TASK.fullmatch(part)):
                raise OutOfOrder("call.bad_scope", "a scope has a part of another form")
            around += f"/{part}"
        self._known.add(scope)

    def _go_on(self, around: str, dependency: str, number: int) -> None:
        if dependency not in self._dependencies:
            raise OutOfOrder("call.bad_scope", "a scope names a dependency that the run does not have")
        if number < self._entered.get((around, dependency), 1):
            raise OutOfOrder("call.bad_scope", f"goes back to a call of {dependency} that is over")
        self._entered[around, dependency] = number


def is_line_of(inner: str, outer: str) -> bool:
    """True when the scope `inner` is `outer` or inside dependencies called from it: code there runs on the same line."""
    if inner == outer:
        return True
    base = outer.rstrip("/")
    if not inner.startswith(f"{base}/"):
        return False
    return all("@" not in part for part in inner[len(base) + 1 :].split("/"))


def encloses(outer: str, inner: str) -> bool:
    """True when `outer` is `inner` or one of the scopes around it."""
    return outer in ("/", inner) or inner.startswith(f"{outer}/")
