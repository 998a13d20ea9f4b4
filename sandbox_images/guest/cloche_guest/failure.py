"""An exception that left a program, as text for the record: names, message, traceback of package frames, the failed calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import traceback

from cloche_guest.wire import FAILED_CALLS

TYPE_CHARACTERS = 300
MESSAGE_CHARACTERS = 16 * 1024
TRACEBACK_CHARACTERS = 64 * 1024


def describe(error: BaseException, *, snapshot: str) -> dict[str, Any]:
    """The `error` of a `result` frame. `calls` are the numbers of the CallErrors that left (see `failed_calls`), if any did."""
    described: dict[str, Any] = {
        "type": type_name(error),
        "message": clip(message(error), MESSAGE_CHARACTERS),
        "traceback": clip(package_traceback(error, snapshot=snapshot), TRACEBACK_CHARACTERS),
    }
    calls = failed_calls(error)
    if calls:
        described["calls"] = calls
    return described


def type_name(error: BaseException) -> str:
    """`ValueError`, `CallError`, `workflows.x.steps.scan.BadLine`."""
    kind = type(error)
    bare = kind.__module__ in ("builtins", "__main__") or kind.__module__.split(".")[0] in ("cloche", "cloche_guest")
    return clean(kind.__qualname__ if bare else f"{kind.__module__}.{kind.__qualname__}")[:TYPE_CHARACTERS]


def message(error: BaseException) -> str:
    """`str(error)`, whatever the program's class makes of it."""
    try:
        return str(error)
    except Exception as problem:
        return f"<the message could not be made: {type(problem).__name__}>"


def failed_calls(error: BaseException) -> list[int]:
    """Numbers of the failed calls whose CallErrors left the program, at most 100, in the order in which they are found.

    That is the error itself, what it was raised `from`, and what a group of exceptions holds.
    """
    found: dict[int, None] = {}
    seen = set()
    waiting: list[BaseException] = [error]
    while waiting and len(found) < FAILED_CALLS:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        number = getattr(current, "_number", None)
        if type(current).__module__.startswith("cloche.") and type(number) is int and number > 0:
            found[number] = None
        inner = [current.__cause__] if current.__cause__ is not None else []
        if isinstance(current, BaseExceptionGroup):
            inner = [*current.exceptions, *inner]
        waiting += reversed(inner)
    return list(found)


def package_traceback(error: BaseException, *, snapshot: str) -> str:
    """The traceback with nothing in it but frames of the snapshot, files named from its top."""
    import traceback  # most programs do not fail, and it is slow to load

    try:
        shown = traceback.TracebackException.from_exception(error)
        prefix = snapshot.rstrip("/") + "/"
        for part in _chain(shown):
            kept = [frame for frame in part.stack if frame.filename.startswith(prefix)]
            part.stack = traceback.StackSummary.from_list(kept)
        return "".join(shown.format()).replace(prefix, "")
    except Exception as problem:
        return f"<the traceback could not be made: {type(problem).__name__}>"


def _chain(shown: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting, seen = [shown], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += [
            inner for inner in (part.__cause__, part.__context__, *(part.exceptions or ())) if inner is not None
        ]


def clip(text: str, most: int) -> str:
    """Valid text of at most `most` characters, the middle left out."""
    text = clean(text)
    if len(text) <= most:
        return text
    half = most // 2 - 20
    return f"{text[:half]}\n[{len(text) - 2 * half} characters cut]\n{text[-half:]}"


def clean(text: str) -> str:
    """Lone surrogates written out, so that the text can be sent."""
    return text.encode("utf-8", "backslashreplace").decode()
