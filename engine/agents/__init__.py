"""What executes the recorded calls of a run on the host. The run loop gets it as a mapping from function name to handler."""

from __future__ import annotations

from collections.abc import Mapping

from engine.agents.draws import NewIdHandler, NowHandler, RandomHandler
from engine.agents.file_tools import TOOLS, FileToolHandler
from engine.agents.language import LanguageHandler
from engine.agents.progress import DeliverHandler, EmitHandler
from engine.agents.waits import QuestionHandler, TimerHandler
from engine.clock import Clock
from engine.models.provider import ModelProvider
from engine.run.calls import CallHandler


def open_handlers(*, clock: Clock, model: ModelProvider | None) -> Mapping[str, CallHandler]:
    """A handler for every function that workflow code can call; `model` None makes `llm` and `agent` fail with NoModel."""
    handlers: dict[str, CallHandler] = {
        "llm": LanguageHandler("llm", model),
        "agent": LanguageHandler("agent", model),
        "now": NowHandler(clock),
        "random": RandomHandler(),
        "new_id": NewIdHandler(),
        "emit": EmitHandler(),
        "deliver": DeliverHandler(),
        "ask": QuestionHandler(),
        "timer": TimerHandler(clock),
    }
    return handlers | {name: FileToolHandler(tool) for name, tool in TOOLS.items()}
