"""Calls that wait for something outside Cloche: a time (`timer`, made by asyncio's timers in a program) and a person (`ask`)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from cloche_guest import codec

from engine.agents.schemas import BadSchema, OutputSchema, compile_schema
from engine.clock import Clock
from engine.errors import UsageError
from engine.run.calls import CallFailed, CallRequest, CallResult, Effects, Kind

TIMER_MOST_S = 366 * 86400.0
QUESTION_CHARACTERS = 64 * 1024


@dataclass(frozen=True)
class TimerHandler:
    """Ends `delay_s` seconds after the timer was first set, in whichever generation that was."""

    clock: Clock
    counted: bool = False
    kind: Kind = "timer"
    instant: bool = False
    effects: Effects = Effects.NONE
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        delay_s = request.args.get("delay_s")
        if not isinstance(delay_s, int | float) or not 0 <= delay_s <= TIMER_MOST_S:
            raise CallFailed("ValueError", f"a timer is set to a number of seconds from 0 to {TIMER_MOST_S:g}")
        gone_s = max(0.0, self.clock.now().timestamp() - request.since)
        await asyncio.sleep(max(0.0, delay_s - gone_s))
        return CallResult(None, {})


@dataclass(frozen=True)
class QuestionHandler:
    """Checks a question; its answer comes from a person, later, and is checked by `checked_answer`."""

    counted: bool = False
    kind: Kind = "person"
    instant: bool = False
    effects: Effects = Effects.NONE
    permission: str = "ask"

    async def execute(self, request: CallRequest) -> CallResult:
        question = request.args.get("question")
        if not isinstance(question, str) or not question.strip() or len(question) > QUESTION_CHARACTERS:
            raise CallFailed("ValueError", f"a question is text of 1 to {QUESTION_CHARACTERS} characters")
        _schema(request.args.get("schema"))
        return CallResult(None, {})


def checked_answer(arguments: Any, answer: Any) -> Any:
    """The answer to a question, both in codec form; what is recorded is the answer as it was given.

    Raises:
        UsageError: it is no JSON value, or not one that the question's schema allows.
    """
    schema = _schema(codec.decode(arguments).get("schema"))
    value = codec.decode(answer)
    try:
        problems = schema.problems(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the answer is no JSON value ({error}).", fix="Give plain JSON.") from error
    if problems:
        problems = problems.replace("the reply", "the answer")
        raise UsageError(
            f"the answer does not fit the question: {problems}", fix="`cloche runs show` has the question."
        )
    return answer


def _schema(schema: Any) -> OutputSchema:
    if not isinstance(schema, dict):
        raise CallFailed("TypeError", "the schema of an answer is a JSON Schema, a dict")
    try:
        return compile_schema(schema)
    except BadSchema as error:
        raise CallFailed("ValueError", f"the schema of an answer cannot be used: {error}") from error
