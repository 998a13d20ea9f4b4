"""llm and agent: one validated reply, bounded retries, fallbacks, and schemas that fetch nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cloche._output import JsonSchemaOutput, to_argument

from engine.agents import open_handlers
from engine.agents.schemas import BadSchema, compile_schema
from engine.clock import SystemClock
from engine.models.provider import ModelError, ModelReply, ModelRequest
from engine.run.calls import CallFailed, CallKey, CallRequest, CallResult, RunContext

TITLED = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


@dataclass
class Model:
    """Gives what `answers` holds, one after the other; an exception is raised."""

    answers: list[Any]
    asked: list[ModelRequest] = field(default_factory=list)
    name: str = "test"

    async def request(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        answer = self.answers[len(self.asked) - 1]
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            await answer()
        facts = {"replies": [len(self.asked) - 1], "usage": {"tokens": 5}}
        if isinstance(answer, str):
            return ModelReply(text=answer, facts=facts)
        return ModelReply(value=answer, has_value=True, facts=facts)


def execute(model: Model | None, fn: str = "agent", /, **args: Any) -> CallResult:
    handler = open_handlers(clock=SystemClock(), model=model)[fn]
    context = RunContext("r", "w", Path("/"), Path("/"), frozenset(), "")
    request = CallRequest(CallKey("/", fn, 1, "0" * 64), args, "", "key", context, frozenset({7}))
    return asyncio.run(handler.execute(request))


def failure(model: Model | None, fn: str = "agent", /, **args: Any) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        execute(model, fn, **args)
    return caught.value


@pytest.mark.parametrize("fn", ["agent", "llm"])
def test_without_a_response_format_the_reply_is_text(fn: str) -> None:
    model = Model(["hello"])
    found = execute(model, fn, prompt="hi")
    assert (found.value, found.facts) == ("hello", {"replies": [0], "usage": {"tokens": 5}})
    assert (model.asked[0].kind, model.asked[0].prompt, model.asked[0].used) == (fn, "hi", frozenset({7}))


@pytest.mark.parametrize("value", [{"title": "t", "more": [1, None]}, {"title": ""}])
def test_a_reply_that_satisfies_the_schema_is_given_unchanged(value: object) -> None:
    assert execute(Model([value]), prompt="hi", response_format=TITLED).value == value


@pytest.mark.parametrize(
    ("schema", "text", "value"), [({}, "[1]", [1]), ({"type": "null"}, "null", None), ({}, "3", 3)]
)
def test_a_text_reply_is_read_as_json_when_a_schema_asks_for_it(schema: dict[str, Any], text: str, value: Any) -> None:
    assert execute(Model([text]), prompt="hi", response_format=schema).value == value


def test_a_reply_that_does_not_fit_is_asked_again_with_the_reason() -> None:
    model = Model(["no json", {"titel": 1}, {"title": "t"}])
    found = execute(model, prompt="hi", response_format=TITLED)
    assert found.value == {"title": "t"}
    assert found.facts == {"replies": [0, 1, 2], "usage": {"tokens": 15}, "requests": 3}
    assert "no JSON" in model.asked[1].prompt
    assert '"title" is a required property' in model.asked[2].prompt
    assert model.asked[2].used == frozenset({7, 0, 1})


def test_after_the_last_retry_the_call_fails_and_the_used_replies_are_told() -> None:
    found = failure(Model([1, 2, 3, 4]), prompt="hi", response_format=TITLED)
    assert (found.type_name, found.facts["replies"]) == ("InvalidOutput", [0, 1, 2])


def test_max_iterations_bounds_the_requests_of_an_agent() -> None:
    model = Model([1, {"title": "late"}])
    assert failure(model, prompt="hi", response_format=TITLED, max_iterations=1).type_name == "InvalidOutput"
    assert len(model.asked) == 1


@pytest.mark.parametrize("fallback", [{"title": "none"}, None, (1, 2)])
def test_a_fallback_is_given_unchanged_after_the_last_retry(fallback: object) -> None:
    output = JsonSchemaOutput(TITLED, fallback=fallback, max_validation_retries=0)
    model = Model([1, {"title": "late"}])
    found = execute(model, prompt="hi", response_format=to_argument(output))
    assert (found.value, found.facts["fallback"], len(model.asked)) == (fallback, True, 1)


def test_what_the_provider_calls_retryable_is_tried_again_a_few_times() -> None:
    slow = ModelError("RateLimited", "slow down", retryable=True, facts={"replies": [9]})
    model = Model([slow, slow, "hello"])
    assert execute(model, prompt="hi").facts["replies"] == [9, 9, 2]
    found = failure(Model([slow, slow, slow, "late"]), prompt="hi")
    assert (found.type_name, found.message) == ("RateLimited", "slow down")


def test_another_failure_of_the_provider_is_the_calls_failure() -> None:
    model = Model([ModelError("Refused", "no", facts={"replies": [0]}), "late"])
    found = failure(model, prompt="hi")
    assert (found.type_name, found.facts, len(model.asked)) == ("Refused", {"replies": [0]}, 1)


def test_a_request_past_its_time_fails_and_is_stopped() -> None:
    ended: list[str] = []

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("request")

    found = failure(Model([never]), prompt="hi", timeout_s=0.01)
    assert (found.type_name, ended) == ("TimeoutError", ["request"])


def test_a_time_too_large_for_a_float_is_the_largest_bound() -> None:
    model = Model(["x"])
    execute(model, prompt="hi", timeout_s=10**400)
    assert model.asked[0].timeout_s == 600.0


def test_content_blocks_are_joined() -> None:
    model = Model(["x"])
    execute(model, prompt=[{"type": "text", "text": "a"}, {"text": "b"}])
    assert model.asked[0].prompt == "a\n\nb"


@pytest.mark.parametrize(
    ("args", "type_name"),
    [
        ({"prompt": "hi", "tools": ["read"]}, "ToolsUnavailable"),
        ({"prompt": 3}, "ValueError"),
        ({}, "ValueError"),
        ({"prompt": []}, "ValueError"),
        ({"prompt": [{"type": "image"}]}, "ValueError"),
        ({"prompt": "hi", "model": 3}, "ValueError"),
        ({"prompt": "hi", "timeout_s": -1}, "ValueError"),
        ({"prompt": "hi", "timeout_s": True}, "ValueError"),
        ({"prompt": "hi", "max_iterations": 0}, "ValueError"),
        ({"prompt": "hi", "response_format": "text"}, "ValueError"),
        ({"prompt": "hi", "response_format": {"json_schema_output": 3}}, "ValueError"),
        ({"prompt": "hi", "response_format": {"type": 12}}, "BadSchema"),
    ],
)
def test_unusable_arguments_fail_the_call_before_any_request(args: dict[str, Any], type_name: str) -> None:
    model = Model(["x"])
    assert (failure(model, **args).type_name, model.asked) == (type_name, [])


def test_no_tools_at_all_may_be_said() -> None:
    assert execute(Model(["x"]), prompt="hi", tools=[]).value == "x"


def test_without_a_model_the_call_says_how_to_set_one() -> None:
    found = failure(None, prompt="hi")
    assert (found.type_name, "CLOCHE_MODEL" in found.message) == ("NoModel", True)


def doubling(levels: int) -> dict[str, Any]:
    parts = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**parts, f"a{levels}": {"type": "integer"}}}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"$ref": "http://127.0.0.1:9/schema"}, "lies outside"),
        ({"$ref": "https://example.org/s"}, "lies outside"),
        ({"$ref": "file:///etc/passwd"}, "lies outside"),
        ({"$ref": "other.json"}, "lies outside"),
        ({"$schema": "http://127.0.0.1:9/meta"}, "not usable"),
        ({"$id": "http://a/b", "items": {"$id": "c", "$ref": "#"}}, "an \\$id of its own"),
        ({"$ref": "#/$defs/none"}, "points at nothing"),
        ({"$ref": "#none"}, "anchor"),
        (doubling(40), "multiply"),
        ({"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "multiply"),
        ({"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}, "multiply"),
        (
            {"$defs": {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(900)}, "$ref": "#/$defs/a0"},
            "chain|nothing",
        ),
        (deep(65), "at most 64 deep"),
        ({"enum": list(range(30_000))}, "at most 20,000 parts"),
        ({"const": "x" * 300_000}, "at most 262,144 bytes"),
        ({"pattern": "(?=a)"}, "not usable"),
        ({"const": float("nan")}, "is JSON"),
        ({"const": (1, 2)}, "is JSON"),
        ({1: {}}, "names are text"),
    ],
)
def test_a_schema_that_is_too_much_or_reaches_outside_is_refused(schema: Any, told: str) -> None:
    with pytest.raises(BadSchema, match=told):
        compile_schema(schema)


def test_a_tree_shaped_schema_is_fine() -> None:
    tree = {"type": "object", "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}, "additionalProperties": False}
    found = compile_schema(tree)
    assert found.problems({"l": {"r": {}}}) == ""
    assert "/l/r" in found.problems({"l": {"r": {"x": 1}}})


def test_a_reply_nested_without_bound_is_a_problem_and_no_crash() -> None:
    value: Any = []
    for _ in range(500):
        value = [value]
    assert "nested deeper" in compile_schema({"items": {"$ref": "#"}}).problems(value)


def test_only_the_first_problems_are_told() -> None:
    told = compile_schema({"items": {"type": "integer"}}).problems(["x"] * 100).splitlines()
    assert (len(told), told[-1]) == (6, "and more")
