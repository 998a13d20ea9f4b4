"""A model whose replies stand in a TOML file, version 1; described in docs/reference/scripted-model.md.

    version = 1
    [[reply]]
    kind = "agent"          # or "llm"; left out: either
    match = "weekly .*"     # RE2, searched anywhere in the prompt; left out: every prompt
    json = { title = "…" }  # or text = "…", or error = { type = "…", message = "…", retryable = false }
    repeat = false          # true: may answer again and again
    usage = { input_tokens = 10 }

The first unused entry that fits answers. Which entries are used is a matter of the run's record, so the provider keeps nothing.
"""

from __future__ import annotations

import datetime
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import re2
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.errors import UsageError
from engine.models.provider import ModelError, ModelReply, ModelRequest, Tell

FILE_BYTES = 8 * 1024 * 1024
PROMPT_SHOWN = 600


class UnusableScript(UsageError):
    """A scripted model's file cannot be read or has another form; `line` or `entry` (from 1) says where."""

    code = "unusable_script"


class _Error(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    type: str = Field(min_length=1)
    message: str = ""
    retryable: bool = False


# Sums of them have to fit into a record, where an integer has 64 bits.
_Count = Annotated[int, Field(ge=0, le=10**12)]
_Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["", "agent", "llm"] = ""
    match: str = ""
    text: str | None = None
    json_: Any = Field(None, alias="json")
    error: _Error | None = None
    repeat: bool = False
    usage: dict[str, _Count | _Amount] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _answers_in_one_way(self) -> _Entry:
        given = {"text", "json_", "error"} & self.model_fields_set
        if len(given) != 1:
            raise ValueError("an entry has one of text, json and error")
        return self


class _Script(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1]
    reply: list[_Entry] = Field(default_factory=list)


@dataclass(frozen=True)
class ScriptedModel:
    """Made by `load`."""

    path: Path
    entries: tuple[_Entry, ...]
    patterns: tuple[Any, ...]
    tell: Tell | None = None

    @classmethod
    def load(cls, path: Path, *, tell: Tell | None = None) -> ScriptedModel:
        """The model of a file.

        Raises:
            UnusableScript: it cannot be read, is no TOML, or an entry has another form.
        """
        entries = _read(path)
        patterns = tuple(_pattern(path, number, entry.match) for number, entry in enumerate(entries, start=1))
        return cls(path, entries, patterns, tell)

    @property
    def name(self) -> str:
        return f"scripted:{self.path.name}"

    async def request(self, request: ModelRequest) -> ModelReply:
        """The first fitting entry's reply; its index, counted from 0, is in the facts as `replies`."""
        for index, (entry, pattern) in enumerate(zip(self.entries, self.patterns, strict=True)):
            if not entry.repeat and index in request.used:
                continue
            if entry.kind in ("", request.kind) and pattern.search(request.prompt):
                return _reply(index, entry)
        if self.tell is not None:
            self.tell(f"{self.name}: no unused entry fits this {request.kind} prompt:\n{_clipped(request.prompt)}")
        raise ModelError("UnscriptedPrompt", f"{self.name} has no unused entry that fits this {request.kind}() prompt")


def _reply(index: int, entry: _Entry) -> ModelReply:
    facts: dict[str, Any] = {"replies": [index]}
    if entry.usage:
        facts["usage"] = dict(entry.usage)
    if entry.error is not None:
        error = entry.error
        raise ModelError(error.type, error.message, retryable=error.retryable, facts=facts)
    if entry.text is not None:
        return ModelReply(text=entry.text, facts=facts)
    return ModelReply(value=entry.json_, has_value=True, facts=facts)


def _read(path: Path) -> tuple[_Entry, ...]:
    try:
        if path.stat().st_size > FILE_BYTES:
            raise UnusableScript(f"{path} is larger than {FILE_BYTES:,} bytes.", fix="Split it.")
        raw = path.read_text(encoding="utf-8")
        script = _Script.model_validate(_plain(path, tomllib.loads(raw)))
    except OSError as error:
        raise UnusableScript(f"cannot read the scripted model {path}: {error.strerror}.", fix="Name a file.") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise UnusableScript(f"{path}, {_where(first['loc'])}: {first['msg']}.", fix="Correct the entry.") from error
    except ValueError as error:  # also bytes that are no UTF-8, and integers longer than Python reads
        raise UnusableScript(f"the scripted model {path} is no TOML: {error}.", fix="Correct it.") from error
    except RecursionError as error:
        raise UnusableScript(f"the scripted model {path} is nested too deep.", fix="Write it flatter.") from error
    return tuple(script.reply)


def _where(loc: tuple[int | str, ...]) -> str:
    match loc:
        case ("reply", int(index), *rest):
            return f"reply {index + 1}" + "".join(f" {part}" for part in rest)
    return ".".join(str(part) for part in loc) or "the file"


def _plain(path: Path, value: Any) -> Any:
    """TOML without its dates and times, which JSON does not have."""
    if isinstance(value, datetime.date | datetime.time):
        raise UnusableScript(f"{path}: {value} is a date or time, which JSON does not have.", fix="Quote it.")
    if isinstance(value, dict):
        return {name: _plain(path, item) for name, item in value.items()}
    return [_plain(path, item) for item in value] if isinstance(value, list) else value


def _pattern(path: Path, number: int, expression: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise UnusableScript(f"{path}, reply {number} match: {reason}.", fix="Correct the pattern (RE2).") from error


def _clipped(prompt: str) -> str:
    return prompt if len(prompt) <= PROMPT_SHOWN else f"{prompt[:PROMPT_SHOWN]} … ({len(prompt):,} characters)"
