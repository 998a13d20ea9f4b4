"""`llm` and `agent` on the host: one logical model request, its reply validated here whatever the provider promises."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from cloche._output import UNSET, JsonSchemaOutput, from_argument

from engine.agents.schemas import BadSchema, OutputSchema, compile_schema
from engine.models.provider import ModelError, ModelProvider, ModelReply, ModelRequest
from engine.run.calls import CallFailed, CallRequest, CallResult, Effects, Kind

TIMEOUT_S = 600.0
"""A request without its own bound, and the largest bound."""

VALIDATION_RETRIES = 5
ITERATIONS = 20
PROVIDER_RETRIES = 2
BLOCKS = 1000


@dataclass
class _Spent:
    """What the requests of one call took; becomes the facts of its record."""

    replies: list[int] = field(default_factory=list)
    usage: dict[str, float] = field(default_factory=dict)
    requests: int = 0

    def add(self, facts: dict[str, Any]) -> None:
        self.requests += 1
        self.replies += facts.get("replies", [])
        for name, amount in facts.get("usage", {}).items():
            self.usage[name] = self.usage.get(name, 0) + amount

    def facts(self, **more: Any) -> dict[str, Any]:
        """Without what is empty or usual."""
        told: dict[str, Any] = {"replies": self.replies, "usage": self.usage, **more}
        if self.requests != 1:
            told["requests"] = self.requests
        return {name: value for name, value in told.items() if value}


@dataclass(frozen=True)
class LanguageHandler:
    """`primitive` is "llm" or "agent"; `model` None means that no model is set."""

    primitive: Literal["llm", "agent"]
    model: ModelProvider | None
    counted: bool = True
    kind: Kind = ""
    instant: bool = False
    effects: Effects = Effects.NONE
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        """The reply's text, or the validated value unchanged.

        Raises:
            CallFailed: ValueError or BadSchema for arguments, ToolsUnavailable, NoModel, the provider's own error, TimeoutError,
                or InvalidOutput when no reply satisfied the schema and there was no fallback.
        """
        if self.model is None:
            told = f"{self.primitive}() needs a model and none is set; use --model or CLOCHE_MODEL, e.g. scripted:FILE"
            raise CallFailed("NoModel", told)
        if request.args.get("tools"):
            told = "agents have no tools in this version; leave tools out, or read files with cloche.programs first"
            raise CallFailed("ToolsUnavailable", told)
        output = _output(request.args.get("response_format"))
        asked = ModelRequest(
            kind=self.primitive,
            prompt=prompt_text(request.args.get("prompt")),
            model=_text(request.args, "model"),
            effort=_text(request.args, "effort"),
            schema=output.schema if output else None,
            schema_name=output.name if output else "",
            timeout_s=_timeout(request.args.get("timeout_s")),
            used=request.replies_used,
        )
        most = _iterations(request.args.get("max_iterations", ITERATIONS))
        spent = _Spent()
        try:
            async with asyncio.timeout(asked.timeout_s):
                return await self._ask(self.model, asked, output, most, spent)
        except TimeoutError as error:
            told = f"no valid reply within {asked.timeout_s:g} s"
            raise CallFailed("TimeoutError", told, facts=spent.facts()) from error
        except ModelError as error:
            raise CallFailed(error.type_name, error.message, facts=spent.facts()) from error

    async def _ask(
        self, model: ModelProvider, asked: ModelRequest, output: JsonSchemaOutput | None, most: int, spent: _Spent
    ) -> CallResult:
        """`most` requests that the model answers, at most."""
        if output is None:
            reply = await _request(model, asked, asked.prompt, spent)
            if reply.has_value:
                return CallResult(json.dumps(reply.value, ensure_ascii=False), spent.facts())
            return CallResult(reply.text, spent.facts())
        schema = _compiled(output)
        attempts = min(most, 1 + min(output.max_validation_retries, VALIDATION_RETRIES))
        prompt, problems = asked.prompt, ""
        for _ in range(attempts):
            reply = await _request(model, asked, prompt, spent)
            value, problems = _validated(reply, schema)
            if not problems:
                return CallResult(value, spent.facts())
            prompt = (
                f"{asked.prompt}\n\nYour last reply did not satisfy the JSON Schema:\n{problems}\nReply with JSON only."
            )
        if output.fallback is not UNSET:
            return CallResult(output.fallback, spent.facts(fallback=True))
        raise CallFailed("InvalidOutput", f"no reply satisfied the response format: {problems}", facts=spent.facts())


async def _request(model: ModelProvider, asked: ModelRequest, prompt: str, spent: _Spent) -> ModelReply:
    """One reply; what the provider calls retryable is tried again, a few times."""
    for left in range(PROVIDER_RETRIES, -1, -1):
        used = asked.used | frozenset(spent.replies)
        try:
            reply = await model.request(
                ModelRequest(**{**vars(asked), "prompt": prompt, "used": used})  # frozen, so made anew
            )
        except ModelError as error:
            spent.add(error.facts)
            if not error.retryable or left == 0:
                raise
        else:
            spent.add(reply.facts)
            return reply
    raise AssertionError("the last attempt returns or raises")


def _validated(reply: ModelReply, schema: OutputSchema) -> tuple[Any, str]:
    """The value, and what is wrong with it ("" for nothing)."""
    value = reply.value
    if not reply.has_value:
        try:
            value = json.loads(reply.text, parse_constant=_constant)
        except (ValueError, RecursionError) as error:
            return None, f"the reply is no JSON ({str(error)[:200]})"
    return value, schema.problems(value)


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _output(argument: Any) -> JsonSchemaOutput | None:
    try:
        return from_argument(argument)
    except (ValueError, TypeError) as error:
        raise CallFailed("ValueError", str(error)) from error


def _compiled(output: JsonSchemaOutput) -> OutputSchema:
    try:
        return compile_schema(output.schema)
    except BadSchema as error:
        raise CallFailed("BadSchema", str(error)) from error


def prompt_text(prompt: Any) -> str:
    """The text of a prompt: as it is, or of its content blocks (`{"type": "text", "text": …}`), joined by empty lines.

    Raises:
        CallFailed: ValueError for another form, or a block of another type.
    """
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list) or not prompt or len(prompt) > BLOCKS:
        raise CallFailed("ValueError", f"a prompt is text or a list of 1 to {BLOCKS:,} content blocks")
    texts: list[str] = []
    for block in prompt:
        text = block.get("text") if isinstance(block, dict) and block.get("type", "text") == "text" else None
        if not isinstance(text, str):
            raise CallFailed("ValueError", "a content block is {'type': 'text', 'text': …} in this version")
        texts.append(text)
    return "\n\n".join(texts)


def _text(args: dict[str, Any], name: str) -> str:
    value = args.get(name, "")
    if not isinstance(value, str):
        raise CallFailed("ValueError", f"{name} is text, not {type(value).__name__}")
    return value


def _timeout(value: Any) -> float:
    if value is None:
        return TIMEOUT_S
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise CallFailed("ValueError", "timeout_s is a number of seconds above 0")
    return float(min(value, TIMEOUT_S))  # in this order: an integer may be too large for a float


def _iterations(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise CallFailed("ValueError", "max_iterations is an integer from 1")
    return value
