"""The ways in which a cell can break the exchange, one error class per name of docs/reference/protocol.md.

Owns the table of names. The supervisor is ours, so each of these means that it was taken over or that one of us has a bug:
the sandbox failed, and nothing is known of the program.
"""

from __future__ import annotations

from engine.errors import ExchangeError

_MEANINGS = {
    "frame.oversized": "A line is longer than one frame may be.",
    "frame.not_utf8": "A line is no UTF-8.",
    "frame.not_json": "A line is no JSON, has a key twice, a NaN or a number too long to read.",
    "frame.not_object": "A line is JSON, but no object.",
    "frame.too_deep": "Brackets are nested deeper than a value can be.",
    "frame.wrong_version": "The frame is of another version of the exchange.",
    "frame.wrong_generation": "The frame belongs to another generation of the run.",
    "frame.repeated": "A sequence number came already.",
    "frame.out_of_order": "A sequence number, or a kind of frame, came where another was due.",
    "frame.unknown_type": "There is no frame of this type.",
    "frame.unknown_field": "A frame has a field that its type does not have.",
    "frame.bad_field": "A field is missing, of another kind or out of its range.",
    "frame.unfinished": "The file ends inside a line after the last word.",
    "frame.too_many": "More frames came than the limits of the cell allow.",
    "frame.unread": "More that was sent to the cell waits unread than may lie on the disk.",
    "part.unknown": "A frame refers to parts that did not come.",
    "part.out_of_order": "A part came where another was due.",
    "part.oversized": "Parts together are larger than the bound of what they make up.",
    "value.not_canonical": "A value is not the one encoding of itself.",
    "value.too_costly": "Checking a value took more memory or time than there is; it has too many parts.",
    "call.repeated": "The number of a call came already.",
    "call.out_of_order": "The number of a call skips one.",
    "call.unknown": "A call was dropped that is not unanswered.",
    "call.too_many": "More calls are unanswered, or their arguments are larger together, than allowed.",
    "job.not_taken": "Nothing came from the cell for 20 s after its job, not even an acknowledgement.",
    "segment.oversized": "A segment, or the disk space behind it, grew past its bound.",
    "segment.truncated": "A segment became shorter than what was read of it.",
}


def _leaf(code: str, meaning: str) -> type[ExchangeError]:
    name = "".join(word.capitalize() for word in code.replace(".", "_").split("_"))
    return type(name, (ExchangeError,), {"code": code, "__doc__": meaning, "__module__": __name__})


VIOLATIONS: dict[str, type[ExchangeError]] = {code: _leaf(code, meaning) for code, meaning in _MEANINGS.items()}


def violation(code: str, problem: str) -> ExchangeError:
    """The error for one of the names; `problem` is clipped, since it may quote what the cell sent."""
    return VIOLATIONS[code](
        f"the cell broke the exchange ({code}): {problem[:300]}.",
        fix="The cell was destroyed. If the workflow is not hostile, please report this.",
    )
