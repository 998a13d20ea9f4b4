"""`cloche.testing`: replies in order, round trips, calls, and the mistakes that fail a test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import cloche
import pytest
from cloche import CallError, _call, agent, llm, now, programs
from cloche.testing import UnscriptedCall, UnusedReplies, data, script
from cloche_guest.codec import CodecError


def module(name: str, source: str) -> Any:
    made = ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), made.__dict__)
    return made


@pytest.fixture
def reported() -> Iterator[list[str]]:
    names: list[str] = []
    _call.install_unscripted_hook(names.append)
    yield names
    _call.install_unscripted_hook(None)


def test_replies_come_in_order_per_function() -> None:
    with script(agent=["a1", "a2"], llm=["l1"]) as calls:
        assert [agent("x"), llm("y"), agent("z", description="last")] == ["a1", "l1", "a2"]
    assert [call.function for call in calls] == ["agent", "llm", "agent"]
    assert calls[2].label == "last"
    assert calls[-1].arguments == {"prompt": "z"}
    assert [call.arguments for call in calls.of("agent")] == [{"prompt": "x"}, {"prompt": "z"}]


def test_a_callable_gets_the_recorded_arguments() -> None:
    with script(agent=[lambda prompt, effort: f"{prompt}/{effort}"]):
        assert agent("x", description="label", effort="low") == "x/low"


@pytest.mark.parametrize("failure", [TimeoutError("30 s"), lambda prompt: (_ for _ in ()).throw(TimeoutError("30 s"))])
def test_an_exception_becomes_a_call_error(failure: Any) -> None:
    with script(agent=[failure]), pytest.raises(CallError) as raised:
        agent("x")
    assert (raised.value.type_name, raised.value.message) == ("TimeoutError", "30 s")
    assert "TimeoutError: 30 s" in raised.value.traceback_text


def test_an_exception_class_becomes_a_call_error() -> None:
    with script(llm=[ValueError]), pytest.raises(CallError) as raised:
        llm("x")
    assert (raised.value.type_name, raised.value.message) == ("ValueError", "")


def test_a_call_error_is_raised_as_it_is() -> None:
    with script(llm=[CallError("RateLimited", "wait", "tb")]), pytest.raises(CallError) as raised:
        llm("x")
    assert raised.value.traceback_text == "tb"


def test_a_result_is_a_copy_as_after_a_recording() -> None:
    reply = {"items": [1, 2]}
    with script(agent=[reply, reply]):
        first = agent("x", response_format={})
        first["items"].append(3)
        assert agent("x", response_format={}) == {"items": [1, 2]}


def test_arguments_that_cannot_be_recorded_are_refused() -> None:
    with script(agent=["never"]) as calls:
        with pytest.raises(CodecError, match="object cannot be recorded"):
            agent([{"block": object()}])
        agent("now the reply is used")
    assert len(calls) == 1


def test_noted_arguments_do_not_follow_later_changes() -> None:
    blocks = [{"text": "before"}]
    with script(agent=["ok"]) as calls:
        agent(blocks)
        blocks[0]["text"] = "after"
    assert calls[0].arguments == {"prompt": [{"text": "before"}]}


def test_an_unscripted_call_passes_except_exception_and_reaches_the_supervisor(reported: list[str]) -> None:
    def careless() -> None:
        try:
            agent("x")
        except Exception:
            pytest.fail("an Exception handler must not see it")

    with pytest.raises(UnscriptedCall, match="no agent="), script():
        careless()
    assert reported == ["agent"]


def test_an_unscripted_call_that_the_code_swallowed_is_raised_at_the_end(reported: list[str]) -> None:
    def reckless() -> None:
        agent("x")
        try:
            agent("x")
        except BaseException:
            pass

    with pytest.raises(UnscriptedCall, match=r"2\. time"), script(agent=["one"]):
        reckless()
    assert reported == ["agent"]


def test_unused_replies_fail_naming_function_and_number() -> None:
    with pytest.raises(UnusedReplies, match="agent: 2 of 3 replies; llm: 1 of 1"), script(agent=["a"] * 3, llm=["l"]):
        agent("x")


def test_the_error_of_the_block_is_not_hidden_by_unused_replies() -> None:
    with pytest.raises(KeyError), script(agent=["a"]):
        raise KeyError("x")


def test_a_nested_script_is_refused_and_the_outer_goes_on() -> None:
    with script(agent=["a"]):
        with pytest.raises(RuntimeError, match="active already"), script():
            pass
        assert agent("x") == "a"


def test_the_backend_of_before_is_back_after_the_block() -> None:
    with pytest.raises(ZeroDivisionError), script():
        _ = 1 / 0
    with pytest.raises(RuntimeError, match="needs a run or a gate"):
        now()


def test_clock_and_draws_are_fixed_and_independent() -> None:
    def draws(extra: int) -> list[Any]:
        with script():
            for _ in range(extra):
                cloche.new_id()
            return [now(), now(), cloche.random(), cloche.random()]

    assert draws(0) == draws(3)
    assert draws(0)[0] == draws(0)[1] == datetime(2026, 1, 1, tzinfo=UTC)
    assert 0 <= draws(0)[2] < 1
    assert draws(0)[2] != draws(0)[3]


def test_new_ids_differ_within_a_script_and_repeat_across_scripts() -> None:
    def ids() -> list[str]:
        with script():
            return [cloche.new_id() for _ in range(5)]

    assert ids() == ids()
    assert len(set(ids())) == 5


def test_now_can_be_scripted_and_must_be_aware() -> None:
    moment = datetime(2026, 11, 30, 12, tzinfo=UTC)
    with script(now=moment):
        assert now() == moment
    with pytest.raises(ValueError, match="aware"), script(now=datetime(2026, 1, 1)):
        pass


def test_file_tools_answer_from_the_scripted_workspace() -> None:
    with script(workspace={"a.txt": "x\ny\n"}) as calls:
        assert programs.read("a.txt", limit=2) == {"text": "x\n", "next": 2, "size": 4}
        assert programs.glob("*")["items"] == ["a.txt"]
        assert programs.list()["items"][0]["name"] == "a.txt"
        assert programs.grep("y")["items"] == [{"path": "a.txt", "line": 2, "text": "y"}]
        with pytest.raises(CallError) as raised:
            programs.read("b.txt")
        assert raised.value.type_name == "FileNotFoundError"
    assert calls[0].arguments == {"path": "a.txt", "limit": 2}


def test_a_file_tool_without_a_workspace_is_unscripted() -> None:
    with pytest.raises(UnscriptedCall, match="workspace="), script():
        programs.read("a.txt")


def test_a_file_tool_named_in_programs_answers_from_there() -> None:
    with script(workspace={"a": ""}, programs={"read": [PermissionError("no")]}), pytest.raises(CallError):
        programs.read("a")


def test_emit_and_deliver_are_noted() -> None:
    with script() as calls:
        with cloche.phase("end"):
            cloche.emit({"done": 1})
        cloche.deliver(result=[1])
    assert calls[0].arguments == {"event": {"done": 1}}
    assert calls[0].phase == ("end",)
    assert calls[1].arguments == {"result": [1]}


@pytest.mark.parametrize(
    ("asked", "reply", "why"),
    [
        (None, {"a": 1}, "without response_format it is text"),
        ({"type": "object", "required": ["a"]}, {}, "'a' is missing"),
        ({"type": "array", "items": {"type": "integer"}}, [1, "x"], r"\$\[1\]: is no integer"),
        ({"type": "integer"}, True, "is no integer"),
        ({"enum": ["a", "b"]}, "c", "is not one of"),
        ({"type": "object", "properties": {}, "additionalProperties": False}, {"x": 1}, "nothing is allowed"),
        ({"type": "string", "minLength": 2}, "x", "below 2"),
        ({}, (1, 2), "no JSON value"),
        (cloche.JsonSchemaOutput({"type": "null"}), 1, "is no null"),
    ],
)
def test_a_model_reply_that_no_run_would_give_is_a_mistake_of_the_script(asked: Any, reply: Any, why: str) -> None:
    with pytest.raises(UnscriptedCall, match=why), script(agent=[reply]):
        agent("x", response_format=asked)


def test_a_fallback_is_an_answer_that_a_run_can_give() -> None:
    asked = cloche.JsonSchemaOutput({"type": "object"}, fallback=None)
    with script(agent=[None]):
        assert agent("x", response_format=asked) is None


@pytest.mark.parametrize("wrong", [{"agent": "text"}, {"llm": {"a": 1}}, {"programs": {"p": "x"}}])
def test_replies_that_are_no_list_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="are a list"), script(**wrong):
        pass


def test_programs_cannot_answer_for_a_primitive() -> None:
    with pytest.raises(ValueError, match="cannot answer for agent"), script(programs={"agent": []}):
        pass


def test_calls_of_dependencies_stand_in_their_scopes() -> None:
    inner = module(
        "workflows.inner.workflow", "from cloche import emit\ndef inner(task):\n    emit(task)\n    emit(task)\n"
    )
    middle = module("workflows.middle.workflow", "def middle(inner):\n    inner(1)\n    inner(2)\n")
    outer = module(
        "workflows.outer.workflow",
        "from cloche import emit\ndef outer(middle, inner):\n    emit(0)\n    middle(inner)\n    inner(3)\n    emit(4)\n",
    )
    with script() as calls:
        outer.outer(middle.middle, inner.inner)
    assert [(call.scope, call.arguments["event"]) for call in calls] == [
        ("/", 0),
        ("/middle[1]/inner[1]", 1),
        ("/middle[1]/inner[1]", 1),
        ("/middle[1]/inner[2]", 2),
        ("/middle[1]/inner[2]", 2),
        ("/inner[1]", 3),
        ("/inner[1]", 3),
        ("/", 4),
    ]


def test_the_tested_package_itself_is_the_main_line() -> None:
    entry = module("workflows.demo.workflow", "from cloche import emit\ndef demo(task):\n    emit(task)\n")
    test = module("workflows.demo.tests.test_workflow", "def run(demo):\n    demo(1)\n")
    with script() as calls:
        test.run(entry.demo)
    assert calls[0].scope == "/"


def test_values_of_a_packages_own_classes_come_back_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    facts: Any = ModuleType("workflows.demo.helpers.facts")
    monkeypatch.setitem(sys.modules, "workflows.demo.helpers.facts", facts)
    exec(
        "from dataclasses import dataclass\nfrom enum import Enum\n"
        "@dataclass(frozen=True)\nclass Fact:\n    n: int\nclass Kind(Enum):\n    A = 1\n",
        facts.__dict__,
    )
    value = {"fact": facts.Fact(3), "kind": facts.Kind.A}
    with script() as calls:
        cloche.emit(value)
    assert calls[0].arguments["event"] == value
    assert calls[0].arguments["event"]["kind"] is facts.Kind.A


def test_data_reads_the_test_data_of_the_calling_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "demo"
    (folder / "tests" / "data").mkdir(parents=True)
    (folder / "tests" / "data" / "app.log").write_bytes(b"x\r\n")
    package = ModuleType("workflows.demo")
    package.__path__ = [str(folder)]
    monkeypatch.setitem(sys.modules, "workflows.demo", package)
    test = module(
        "workflows.demo.tests.test_workflow",
        "from cloche.testing import data, data_bytes\n"
        "def text(name):\n    return data(name)\ndef raw(name):\n    return data_bytes(name)\n",
    )
    assert test.text("app.log") == "x\r\n"
    assert test.raw("app.log") == b"x\r\n"
    with pytest.raises(ValueError):
        test.text("../test_workflow.py")
    with pytest.raises(FileNotFoundError, match=r"app\.log"):
        test.text("none.log")


def test_data_of_a_plain_test_file_lies_below_its_tests_folder() -> None:
    with pytest.raises(FileNotFoundError, match="no test data file 'none'"):
        data("none")
