"""What the host knows of a model: one request, one reply. No loop, no validation, no record; `engine.agents` has those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from engine.errors import UsageError

Tell = Callable[[str], None]
"""Shows a line to the owner, on their terminal and nowhere else."""


@dataclass(frozen=True)
class ModelRequest:
    """One logical request. `prompt` is text, several blocks already joined; `schema` asks for JSON that satisfies it.

    `model` and `effort` are "" where the call leaves them to the setting. `used` are indexes of scripted replies that are gone.
    """

    kind: Literal["agent", "llm"]
    prompt: str
    model: str = ""
    effort: str = ""
    schema: dict[str, Any] | None = None
    schema_name: str = ""
    timeout_s: float | None = None
    used: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ModelReply:
    """The reply: `text`, or `value` when `has_value` (a JSON value, None included). `facts` belong into the call's record."""

    text: str = ""
    value: Any = None
    has_value: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


class ModelError(Exception):
    """The request failed. `retryable`: the same request may succeed. `facts` belong into the call's record."""

    def __init__(
        self, type_name: str, message: str, *, retryable: bool = False, facts: dict[str, Any] | None = None
    ) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name
        self.message = message
        self.retryable = retryable
        self.facts = facts or {}


class ModelProvider(Protocol):
    """A model that answers."""

    @property
    def name(self) -> str:
        """For people: `scripted:replies.toml`."""
        ...

    async def request(self, request: ModelRequest) -> ModelReply:
        """The reply.

        Raises:
            ModelError: the request failed. Cancellation passes through and closes what was opened.
        """
        ...


def open_model(spec: str, *, tell: Tell | None = None) -> ModelProvider:
    """The provider that a setting names: `scripted:FILE`.

    Raises:
        UsageError: another kind of model, or a file that cannot be used (with the entry).
    """
    from engine.models.scripted import ScriptedModel

    kind, _, rest = spec.partition(":")
    if kind != "scripted" or not rest:
        raise UsageError(
            f"the model {spec!r} cannot be used: this version has scripted models only.",
            fix="Set CLOCHE_MODEL or --model to scripted:FILE.",
        )
    return ScriptedModel.load(Path(rest), tell=tell)


def absolute_model(spec: str) -> str:
    """A model's name with the path of a script made absolute, so that a resume from elsewhere finds it."""
    kind, _, rest = spec.partition(":")
    return f"scripted:{Path(rest).absolute()}" if kind == "scripted" and rest else spec
