"""The programs that crash tests run, each twice: as a generator for scripted cells and as a package for real ones.

Both make the same calls. What a call means is fixed here: `read` never waits and has no effect, `llm` waits and has none, `agent` may
be repeated under one key, `grep` may not. What it answers follows from its key alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.run.calls import CallFailed, CallKey, CallRequest, CallResult, Effects
from engine.sandbox.frames import Artifact
from tests.helpers.cells import CallError, Program, Still, ask, begin, say
from tests.helpers.ledger import Execution, report
from tests.helpers.sandbox import snapshot

Playing = Generator[Any, Any, Any]

ARGUMENT = {"llm": "prompt", "agent": "prompt", "grep": "pattern", "read": "path"}
LARGE = "large"
REFUSED = "refused"


def answer(key: CallKey, args: dict[str, Any]) -> str:
    """What a call gives, the same for ever."""
    told = f"{key.fn} {key.n} {key.digest[:12]}"
    return told + "x" * 100_000 if args.get("prompt") == LARGE else told


def sequential() -> Playing:
    first = yield ask("read", path="a.txt")
    second = yield ask("llm", prompt=first)
    third = yield ask("agent", prompt=second)
    fourth = yield ask("grep", pattern=third)
    fifth = yield ask("read", path=fourth)
    return [first, second, third, fourth, fifth]


def large() -> Playing:
    first = yield ask("llm", prompt=LARGE)
    second = yield ask("agent", prompt=first)
    third = yield ask("grep", pattern=second)
    return [first, third]


def outputs() -> Playing:
    yield say(b"begin\n", offset=0)
    first = yield ask("llm", prompt="note")
    yield Artifact("notes/first.txt", first.encode())
    yield ask("emit", event=first)
    second = yield ask("grep", pattern=first)
    yield say(b"end\n", offset=6)
    yield Artifact("notes/second.txt", second.encode())
    return second


def handled() -> Playing:
    try:
        first = yield ask("llm", prompt=REFUSED)
    except CallError as error:
        first = error.type_name
    second = yield ask("grep", pattern=first)
    third = yield ask("agent", prompt=second)
    return [first, second, third]


def branches() -> Playing:
    """Two branches of two calls each, and one call when both are through; the result does not tell who came first."""
    pending: dict[int, str] = {}
    for branch, fn in enumerate(("llm", "grep"), start=1):
        scope = f"/parallel@workflow.branches[1.{branch}]"
        number = yield begin(fn, scope=scope, **{ARGUMENT[fn]: f"branch {branch}"})
        pending[number] = scope
    found: dict[str, str] = {}
    while pending:
        number, value = yield Still()
        scope = pending.pop(number)
        if scope in found:
            found[scope] += value
            continue
        found[scope] = value
        number = yield begin("agent", scope=scope, prompt=value)
        pending[number] = scope
    last = yield ask("read", path=found[min(found)])
    return [found[scope] for scope in sorted(found)] + [last]


SCRIPTED: dict[str, Program] = {
    "sequential": sequential,
    "large": large,
    "outputs": outputs,
    "handled": handled,
    "branches": branches,
}

PACKAGES = {
    "sequential": """
        from cloche import agent, llm
        from cloche.programs import grep, read

        def sequential(task):
            first = read("a.txt")
            second = llm(first)
            third = agent(second)
            fourth = grep(third)
            fifth = read(fourth)
            return [first, second, third, fourth, fifth]
        """,
    "large": """
        from cloche import agent, llm
        from cloche.programs import grep

        def large(task):
            first = llm("large")
            second = agent(first)
            return [first, grep(second)]
        """,
    "outputs": """
        from pathlib import Path

        from cloche import emit, llm
        from cloche.programs import grep

        def outputs(task):
            print("begin", flush=True)
            folder = Path("/tmp/output/notes")
            folder.mkdir(parents=True)
            first = llm("note")
            (folder / "first.txt").write_text(first)
            emit(first)
            second = grep(first)
            print("end", flush=True)
            (folder / "second.txt").write_text(second)
            return second
        """,
    "handled": """
        from cloche import CallError, agent, llm
        from cloche.programs import grep

        def handled(task):
            try:
                first = llm("refused")
            except CallError as error:
                first = error.type_name
            second = grep(first)
            return [first, second, agent(second)]
        """,
    "branches": """
        from cloche import agent, llm, parallel
        from cloche.programs import grep, read

        def _one():
            first = llm("branch 1")
            return first + agent(first)

        def _two():
            first = grep("branch 2")
            return first + agent(first)

        def branches(task):
            found = parallel([_one, _two])
            return [*found, read(found[0])]
        """,
    "beating": """
        import os
        import select

        from cloche import llm, parallel
        from cloche.programs import grep, read

        def beating(task):
            if os.fork() == 0:
                while True:
                    os.write(1, b"beat")
                    select.poll().poll(100)
            first = read("a.txt")
            return parallel([lambda: llm(first), lambda: grep(first)])
        """,
}


def package(root: Path, name: str) -> Path:
    """A snapshot with the package of that name, in a new directory of `root`."""
    return snapshot(root / name, PACKAGES[name], workflow=name)


@dataclass(frozen=True)
class Noted:
    """A handler whose every execution stands in the ledger. `pause_s`: it waits so long before and after the effect."""

    ledger: str
    generation: Callable[[], int]
    pid: int
    reached: Callable[[str], object]
    effects: Effects
    pause_s: float
    counted: bool = False
    permission: str = ""
    kind: Literal[""] = ""

    @property
    def instant(self) -> bool:
        return self.pause_s == 0

    async def execute(self, request: CallRequest) -> CallResult:
        self.reached("effect.before")
        if self.pause_s:
            await asyncio.sleep(self.pause_s)
        report(
            self.ledger,
            Execution(
                run=request.context.run_id,
                key=request.key,
                idempotency_key=request.idempotency_key,
                generation=self.generation(),
                pid=self.pid,
            ),
        )
        self.reached("effect.done")
        if self.pause_s:
            await asyncio.sleep(self.pause_s)
        if request.args.get("prompt") == REFUSED:
            raise CallFailed("Refused", "not today")
        return CallResult(answer(request.key, request.args), {})
