"""The primitives themselves: signatures, their manual, and the checks that need no host.

Every signature here is part of the public contract and kept by a test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final, TypeVar, cast, overload

from cloche import _package
from cloche._call import call, call_async, open_phases
from cloche._output import UNSET, JsonSchemaOutput, to_argument

_F = TypeVar("_F", bound=Callable[..., Any])

OUTPUT: Final = Path("/tmp/output")
"""Where a run writes the files that it delivers."""

Prompt = str | list[dict[str, Any]]
"""Text, or a list of content blocks."""

ResponseFormat = dict[str, Any] | JsonSchemaOutput


@overload
def llm(
    prompt: Prompt,
    *,
    model: str = "",
    effort: str = "",
    response_format: None = None,
    timeout_s: float | None = None,
) -> str: ...
@overload
def llm(
    prompt: Prompt,
    *,
    model: str = "",
    effort: str = "",
    response_format: ResponseFormat,
    timeout_s: float | None = None,
) -> Any: ...
def llm(
    prompt: Prompt,
    *,
    model: str = "",
    effort: str = "",
    response_format: ResponseFormat | None = None,
    timeout_s: float | None = None,
) -> Any:
    """The reply to exactly one logical model request: text, or the validated JSON value when `response_format` is given.

    `model` and `effort` override the profile and the setting; "" takes theirs. `timeout_s` bounds this request in seconds;
    None takes the operator's bound. With `response_format` (a JSON Schema or JsonSchemaOutput) the reply is validated on the
    host whatever the provider promises; one that does not fit is asked again a bounded number of times.

    Raises:
        CallError: the request failed, timed out, or no reply satisfied the schema and there was no fallback.
    """
    return call(llm, {**locals(), "response_format": to_argument(response_format)})


@overload
def agent(
    prompt: Prompt,
    *,
    description: str = "",
    agent_id: str = "",
    model: str = "",
    effort: str = "",
    tools: list[str] | None = None,
    response_format: None = None,
    max_iterations: int = 20,
    timeout_s: float | None = None,
) -> str: ...
@overload
def agent(
    prompt: Prompt,
    *,
    description: str = "",
    agent_id: str = "",
    model: str = "",
    effort: str = "",
    tools: list[str] | None = None,
    response_format: ResponseFormat,
    max_iterations: int = 20,
    timeout_s: float | None = None,
) -> Any: ...
def agent(
    prompt: Prompt,
    *,
    description: str = "",
    agent_id: str = "",
    model: str = "",
    effort: str = "",
    tools: list[str] | None = None,
    response_format: ResponseFormat | None = None,
    max_iterations: int = 20,
    timeout_s: float | None = None,
) -> Any:
    """What an agent answers: its final text, or the validated JSON value unchanged (object, array, scalar or null).

    In this version an agent is one validated reply without tools: `tools` is None or [], and a list that names one is refused
    by the host. `description` labels the call for people and is no part of its identity: changing it replays the same record.
    `agent_id` chooses a profile of the owner. `model`, `effort`, `response_format` and `timeout_s` as for `llm`.
    `max_iterations` bounds the model requests of one agent.

    Raises:
        CallError: the model failed, timed out, no reply satisfied the schema and there was no fallback, or `tools` names one.
    """
    bound = {**locals(), "response_format": to_argument(response_format)}
    return call(agent, bound, labels=_DESCRIPTION)


async def agent_async(
    prompt: Prompt,
    *,
    description: str = "",
    agent_id: str = "",
    model: str = "",
    effort: str = "",
    tools: list[str] | None = None,
    response_format: ResponseFormat | None = None,
    max_iterations: int = 20,
    timeout_s: float | None = None,
) -> Any:
    """What an agent answers, as `agent`, awaited: other tasks of the same `asyncio.run` go on meanwhile.

    Recorded as a call of `agent`, with the same arguments and bounds. The call is made when the coroutine first runs.
    Cancelling it (`asyncio.timeout`, a failed TaskGroup) drops the call: the host ends it.

    Raises:
        CallError: as `agent`. RuntimeError: awaited in a loop that `asyncio.run` of a run or a script did not make.
    """
    bound = {**locals(), "response_format": to_argument(response_format)}
    return await call_async(agent, bound, labels=_DESCRIPTION)


_DESCRIPTION = frozenset({"description"})


def ask(question: str, schema: dict[str, Any]) -> Any:
    """A person's answer to `question`: a JSON value that satisfies `schema` (JSON Schema 2020-12, local `$ref` only).

    The run may wait for days, and takes nothing of the machine meanwhile; `question` and `schema` are shown to whoever answers.
    Needs the permission `ask`. An answer that does not fit is not accepted, so the program never sees one.

    Raises:
        TypeError: `question` is no text or `schema` no dict. ValueError: `question` is empty.
        CallError: the permission is missing, or `schema` is none that an answer can be held against.
    """
    if not isinstance(question, str) or not isinstance(schema, dict):
        raise TypeError("ask() takes a question as text and a JSON Schema as a dict")
    if not question.strip():
        raise ValueError("ask() needs a question")
    return call(ask, {"question": question, "schema": schema})


def now() -> datetime:
    """The time on the host, aware, in UTC; recorded, so that a replay sees the same moment."""
    return cast(datetime, call(now, {}))


def random() -> float:
    """A number in [0, 1); recorded, so that a replay draws the same."""
    return cast(float, call(random, {}))


def new_id() -> str:
    """A new identifier, different from every other of any run; recorded."""
    return cast(str, call(new_id, {}))


def resource(name: str) -> str:
    """Text of the file `name` in the `resources/` folder of the package whose code calls this, line ends unchanged.

    Not a call: the file is part of the pinned revision, so nothing is recorded, and it works outside a run too.

    Raises:
        ValueError: `name` is empty, absolute or climbs out of the folder.
        FileNotFoundError: there is no such file; the message lists those there are.
        RuntimeError: the calling code belongs to no package.
    """
    base = _package.folder(_package.module_name(sys._getframe(1))) / "resources"
    return _package.text_file(base, name, kind="resource").read_bytes().decode()


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Group the calls of a `with` block under `name` for people; changes no call's identity. Phases nest.

    Raises:
        ValueError: `name` is empty.
    """
    if not name.strip():
        raise ValueError("phase() needs a name")
    token = open_phases.set((*open_phases.get(), name))
    try:
        yield
    finally:
        open_phases.reset(token)


def emit(event: Any) -> None:
    """Tell whoever watches the run that something happened; any value that can be recorded, kept in the journal."""
    call(emit, {"event": event})


def deliver(path: str | PurePath | None = None, *, result: Any = UNSET) -> None:
    """Hand out a file that the run wrote, or name the value that may leave the run for a model that asked for it.

    Exactly one of the two. `path` is a regular file below /tmp/output, written before this call, given relative to that folder
    (or absolutely); a replay writes the same file again. `result` is any value that can be recorded.

    Raises:
        TypeError: neither or both were given.
        ValueError: `path` does not lie below /tmp/output.
        FileNotFoundError: there is no regular file at `path`.
    """
    if (path is None) == (result is UNSET):
        raise TypeError("deliver() takes a path below /tmp/output or result=, exactly one of them")
    if path is None:
        call(deliver, {"path": None, "result": result})
    else:
        call(deliver, {"path": _delivered(path), "result": UNSET})


def _delivered(path: str | PurePath) -> str:
    given = PurePosixPath(path)
    inside = given.relative_to(OUTPUT) if given.is_relative_to(OUTPUT) else given
    if not inside.parts or inside.is_absolute() or ".." in inside.parts:
        raise ValueError(f"deliver({str(path)!r}): only files below {OUTPUT} can be delivered")
    at = OUTPUT / inside
    if at.is_symlink() or not at.is_file():
        raise FileNotFoundError(f"deliver({str(path)!r}): write the file {at} first; there is no regular file")
    return str(inside)


@overload
def agentic_function(function: _F, /) -> _F: ...
@overload
def agentic_function(*, description: str = "") -> Callable[[_F], _F]: ...
def agentic_function(function: _F | None = None, /, *, description: str = "") -> _F | Callable[[_F], _F]:
    """Mark a package's entry for people and tools; bare, or called with a `description`. The function itself is returned.

    Optional: a package without it is as good. It renames nothing, records nothing and wraps nothing.
    """

    def mark(marked: _F) -> _F:
        marked.__dict__["__cloche_agentic__"] = {"description": description}
        return marked

    return mark if function is None else mark(function)
