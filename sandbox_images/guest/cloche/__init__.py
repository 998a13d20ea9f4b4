"""What workflow code can use: model calls, branches, questions, recorded draws, package resources, grouping, progress, deliveries.

    from cloche import agent, deliver
    from cloche.programs import grep, read

A *call* leaves the cell: the host executes it and records it before and after, so that running again gives back what completed
instead of doing it twice. Arguments and results must therefore be values that can be recorded (docs/reference/codec.md); other
values are refused before the call. Outside a run and outside a gate everything here imports, with full types, and a call says
that it needs one of the two; `cloche.testing` scripts the answers for behaviour tests.

Calls wait beside each other in `parallel`, `pipeline` and the tasks of `asyncio.run`. Only one line of a program runs code at any
moment, and it goes on until it waits; threads and processes are refused, because their order could not be repeated.

`__all__` is the whole API. What is not in it is not for packages.
"""

from cloche._errors import CallError
from cloche._fan import parallel, pipeline
from cloche._output import JsonSchemaOutput
from cloche._primitives import (
    agent,
    agent_async,
    agentic_function,
    ask,
    deliver,
    emit,
    llm,
    new_id,
    now,
    phase,
    random,
    resource,
)

__all__ = [
    "CallError",
    "JsonSchemaOutput",
    "agent",
    "agent_async",
    "agentic_function",
    "ask",
    "deliver",
    "emit",
    "llm",
    "new_id",
    "now",
    "parallel",
    "phase",
    "pipeline",
    "random",
    "resource",
]
