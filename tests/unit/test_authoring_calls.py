"""What a primitive hands to the backend: bound arguments, label, place, phases; and what it refuses by itself."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import cloche
import pytest
from cloche import _call, programs
from cloche._output import from_argument, to_argument


@dataclass
class Recorder:
    """A backend that notes what it is given and answers with `answer`."""

    answer: Any = None
    seen: list[tuple[str, dict[str, Any], str, str, list[str]]] = field(default_factory=list)

    def call(self, fn: str, arguments: dict[str, Any], *, label: str, site: str, phase: list[str]) -> Any:
        self.seen.append((fn, arguments, label, site, phase))
        return self.answer


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    before = _call.install(made)
    yield made
    _call.install(before)


def module(name: str, source: str, *, path: Path | None = None) -> ModuleType:
    """A module of that name, as the loader of a cell would make it."""
    made = ModuleType(name)
    if path is not None:
        made.__path__ = [str(path)]
    exec(compile(source, f"{name}.py", "exec"), made.__dict__)
    return made


def test_values_at_their_default_are_left_out(recorder: Recorder) -> None:
    cloche.agent("hello", model="", effort="high", max_iterations=20, tools=None)
    assert recorder.seen[0][1] == {"prompt": "hello", "effort": "high"}


def test_a_value_of_another_type_than_the_default_is_kept(recorder: Recorder) -> None:
    programs.read("a.txt", offset=False, limit=262144.0)  # type: ignore[arg-type]
    assert recorder.seen[0][1] == {"path": "a.txt", "offset": False, "limit": 262144.0}


def test_an_empty_tool_list_differs_from_none(recorder: Recorder) -> None:
    cloche.agent("hello", tools=[])
    assert recorder.seen[0][1] == {"prompt": "hello", "tools": []}


def test_a_description_is_a_label_and_no_argument(recorder: Recorder) -> None:
    cloche.agent("hello", description="greet")
    assert recorder.seen[0][:3] == ("agent", {"prompt": "hello"}, "greet")


def test_a_path_object_and_its_text_are_the_same_argument(recorder: Recorder) -> None:
    programs.read(PurePosixPath("logs/a.log"))
    programs.read("logs/a.log")
    assert recorder.seen[0][1] == recorder.seen[1][1] == {"path": "logs/a.log"}


def test_phases_nest_and_end(recorder: Recorder) -> None:
    with cloche.phase("outer"):
        with cloche.phase("inner"):
            cloche.emit(1)
        cloche.emit(2)
    cloche.emit(3)
    assert [seen[4] for seen in recorder.seen] == [["outer", "inner"], ["outer"], []]


def test_a_phase_ends_when_its_block_raises(recorder: Recorder) -> None:
    with pytest.raises(KeyError), cloche.phase("broken"):
        raise KeyError("x")
    cloche.emit(1)
    assert recorder.seen[0][4] == []


def test_a_phase_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a name"), cloche.phase(" "):
        pass


def test_the_site_is_the_nearest_line_of_a_package(recorder: Recorder) -> None:
    steps = module("workflows.demo.steps.scan", "from cloche import emit\n\ndef scan():\n    emit(1)\n")
    entry = module("workflows.demo.workflow", "def demo(scan):\n    scan()\n")
    entry.demo(steps.scan)
    assert recorder.seen[0][3] == "workflows/demo/steps/scan.py:4"


def test_the_site_of_a_package_module_is_its_init_file(recorder: Recorder, tmp_path: Path) -> None:
    module("workflows.demo.steps", "from cloche import emit\nemit(1)\n", path=tmp_path)
    assert recorder.seen[0][3] == "workflows/demo/steps/__init__.py:2"


def test_code_outside_packages_has_no_site(recorder: Recorder) -> None:
    cloche.emit(1)
    assert recorder.seen[0][3] == ""


def test_a_result_is_handed_through(recorder: Recorder) -> None:
    recorder.answer = datetime(2026, 1, 1, tzinfo=UTC)
    assert cloche.now() is recorder.answer


def test_a_call_from_another_thread_is_refused(recorder: Recorder) -> None:
    raised: list[BaseException] = []

    def use() -> None:
        try:
            cloche.emit(1)
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert "another thread" in str(raised[0])
    assert recorder.seen == []


def test_a_call_inside_an_asyncio_task_is_made_like_any_other(recorder: Recorder) -> None:
    async def use() -> None:
        cloche.emit(1)

    asyncio.run(use())
    assert [seen[0] for seen in recorder.seen] == ["emit"]


def test_an_awaited_call_needs_a_loop_of_the_run(recorder: Recorder) -> None:
    with pytest.raises(RuntimeError, match=r"agent_async\(\) is awaited in a coroutine that asyncio\.run\(\) runs"):
        asyncio.run(cloche.agent_async("x"))
    assert recorder.seen == []


def test_branches_run_with_a_backend_that_answers_at_once(recorder: Recorder) -> None:
    recorder.answer = "yes"
    assert cloche.parallel([lambda: cloche.llm("a"), lambda: cloche.llm("b")]) == ["yes", "yes"]
    assert [seen[1] for seen in recorder.seen] == [{"prompt": "a"}, {"prompt": "b"}]


@pytest.mark.parametrize("wrong", [lambda: cloche.ask("", {}), lambda: cloche.ask(" ", {})])
def test_a_question_has_words(recorder: Recorder, wrong: Any) -> None:
    with pytest.raises(ValueError, match="needs a question"):
        wrong()
    with pytest.raises(TypeError, match="as text"):
        cloche.ask(1, {})  # type: ignore[arg-type]
    assert recorder.seen == []


def test_deliver_takes_exactly_one_of_path_and_result(recorder: Recorder) -> None:
    with pytest.raises(TypeError, match="exactly one"):
        cloche.deliver()
    with pytest.raises(TypeError, match="exactly one"):
        cloche.deliver("report.md", result=1)
    cloche.deliver(result=None)
    assert recorder.seen == [("deliver", {"result": None}, "", "", [])]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "/tmp/output/../x", "", "/tmp/output", "."])
def test_deliver_refuses_a_path_outside_the_output_folder(recorder: Recorder, path: str) -> None:
    with pytest.raises(ValueError, match="only files below"):
        cloche.deliver(path)
    assert recorder.seen == []


def test_deliver_names_an_existing_file_relative_to_the_output_folder(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloche._primitives.OUTPUT", tmp_path)
    (tmp_path / "report.md").write_text("x")
    (tmp_path / "link.md").symlink_to("report.md")
    cloche.deliver("report.md")
    cloche.deliver(tmp_path / "report.md")
    assert [seen[1] for seen in recorder.seen] == [{"path": "report.md"}] * 2
    for missing in ("none.md", "link.md"):
        with pytest.raises(FileNotFoundError, match="write the file"):
            cloche.deliver(missing)


def test_a_bare_schema_is_sent_as_it_is() -> None:
    schema = {"type": "object"}
    assert to_argument(schema) is schema
    assert from_argument(schema) == cloche.JsonSchemaOutput(schema)
    assert from_argument(None) is None


@pytest.mark.parametrize(
    "asked",
    [
        cloche.JsonSchemaOutput({"type": "null"}),
        cloche.JsonSchemaOutput({}, "name", None, 0),
        cloche.JsonSchemaOutput({}, fallback={"a": 1}),
    ],
)
def test_a_json_schema_output_survives_being_an_argument(asked: cloche.JsonSchemaOutput) -> None:
    assert from_argument(to_argument(asked)) == asked


@pytest.mark.parametrize(
    "forged",
    [
        {"json_schema_output": 1},
        {"json_schema_output": {"schema": 1}},
        {"json_schema_output": {"schema": {}, "x": 1}},
        {"json_schema_output": {"schema": {}, "max_validation_retries": True}},
        {"json_schema_output": {"schema": {}, "name": 1}},
    ],
)
def test_a_forged_response_format_is_refused(forged: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="does not hold"):
        from_argument(forged)


def test_a_response_format_of_another_type_is_refused(recorder: Recorder) -> None:
    with pytest.raises(TypeError, match="response_format is a JSON Schema"):
        cloche.llm("x", response_format="json")  # type: ignore[call-overload]
    assert recorder.seen == []


def test_agentic_function_returns_the_function_itself_bare_or_called() -> None:
    def demo(task: str) -> str:
        return task

    assert cloche.agentic_function(demo) is demo
    assert cloche.agentic_function(description="x")(demo) is demo
    assert demo.__name__ == "demo"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    folder = tmp_path / "demo"
    (folder / "resources").mkdir(parents=True)
    (folder / "resources" / "prompt.md").write_bytes("Größe\r\n".encode())
    (folder / "secret.txt").write_text("x")
    (folder / "resources" / "link.md").symlink_to("../secret.txt")
    monkeypatch.setitem(sys.modules, "workflows.demo", module("workflows.demo", "", path=folder))
    return module(
        "workflows.demo.workflow", "from cloche import resource\ndef demo(name):\n    return resource(name)\n"
    )


def test_a_resource_is_the_text_of_the_calling_package_and_no_call(package: ModuleType, recorder: Recorder) -> None:
    assert package.demo("prompt.md") == "Größe\r\n"
    assert recorder.seen == []


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "", "a/../../secret.txt", "..\\secret.txt", "a\0b"])
def test_a_resource_name_cannot_climb(package: ModuleType, name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a resource"):
        package.demo(name)


def test_a_missing_resource_lists_those_there_are(package: ModuleType) -> None:
    with pytest.raises(FileNotFoundError, match=r"prompt\.md"):
        package.demo("prompts.md")


def test_a_link_is_no_resource(package: ModuleType) -> None:
    with pytest.raises(FileNotFoundError):
        package.demo("link.md")


def test_code_of_no_package_has_no_resources() -> None:
    with pytest.raises(RuntimeError, match="belongs to no workflow package"):
        cloche.resource("prompt.md")


def test_a_call_error_shows_type_and_message() -> None:
    error = cloche.CallError("TimeoutError", "30 s are over", "…")
    assert (error.type_name, error.message, error.traceback_text) == ("TimeoutError", "30 s are over", "…")
    assert str(error) == "TimeoutError: 30 s are over"
