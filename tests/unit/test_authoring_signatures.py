"""The authoring API's surface is a promise: names, signatures, and what happens where nothing executes calls."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloche
import pytest
from cloche import programs

GUEST = Path(cloche.__file__).parents[1]
SIGNATURES = {
    "llm": "(prompt, *, model='', effort='', response_format=None, timeout_s=None)",
    "agent": "(prompt, *, description='', agent_id='', model='', effort='', tools=None, response_format=None,"
    " max_iterations=20, timeout_s=None)",
    "agent_async": "(prompt, *, description='', agent_id='', model='', effort='', tools=None, response_format=None,"
    " max_iterations=20, timeout_s=None)",
    "ask": "(question, schema)",
    "parallel": "(thunks, *, fail_fast=True)",
    "pipeline": "(items, *stages, fail_fast=True)",
    "now": "()",
    "random": "()",
    "new_id": "()",
    "resource": "(name)",
    "phase": "(name)",
    "emit": "(event)",
    "deliver": "(path=None, *, result=<unset>)",
    "agentic_function": "(function=None, /, *, description='')",
    "CallError": "(type_name, message, traceback_text='')",
    "JsonSchemaOutput": "(schema, name='', fallback=<unset>, max_validation_retries=2)",
}
PROGRAM_SIGNATURES = {
    "read": "(path, *, offset=0, limit=262144)",
    "grep": "(pattern, *, path='.', max_matches=500)",
    "glob": "(pattern)",
    "list": "(path='.')",
}


def bare(function: Callable[..., Any]) -> str:
    """The signature without annotations."""
    signature = inspect.signature(function)
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(cloche.__all__) == sorted(SIGNATURES)
    assert sorted(programs.__all__) == sorted(PROGRAM_SIGNATURES)


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_primitive_keeps_its_signature(name: str) -> None:
    assert bare(getattr(cloche, name)) == SIGNATURES[name]


@pytest.mark.parametrize("name", PROGRAM_SIGNATURES)
def test_a_file_tool_keeps_its_signature(name: str) -> None:
    assert bare(getattr(programs, name)) == PROGRAM_SIGNATURES[name]


@pytest.mark.parametrize("name", [*SIGNATURES, *PROGRAM_SIGNATURES])
def test_every_public_name_has_a_manual(name: str) -> None:
    documented = getattr(cloche, name, None) or getattr(programs, name)
    assert len(inspect.getdoc(documented) or "") > 30


@pytest.mark.parametrize(
    "use",
    [
        lambda: cloche.llm("x"),
        lambda: cloche.agent("x"),
        lambda: asyncio.run(cloche.agent_async("x")),
        lambda: cloche.ask("x?", {}),
        lambda: cloche.parallel([lambda: 1]),
        lambda: cloche.pipeline([1], str),
        cloche.now,
        cloche.random,
        cloche.new_id,
        lambda: cloche.emit("x"),
        lambda: cloche.deliver(result=1),
        lambda: programs.read("x"),
        programs.list,
        lambda: programs.glob("*"),
        lambda: programs.grep("x"),
    ],
)
def test_a_call_outside_a_run_and_a_gate_says_what_it_needs(use: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="needs a run or a gate"):
        use()


def test_the_authoring_api_imports_the_standard_library_and_no_asyncio() -> None:
    script = (
        f"import sys; before = set(sys.modules); sys.path.insert(0, {str(GUEST)!r}); import cloche, cloche.programs, cloche.testing\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before if '_sysconfigdata' not in name}\n"
        "foreign = new - set(sys.stdlib_module_names) - {'cloche', 'cloche_guest'}\n"
        "assert not foreign, foreign\n"
        "assert 'asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-S", "-P", "-c", script], check=True)
