"""The one exception that a failed call raises in workflow code."""

from __future__ import annotations


class CallError(Exception):
    """A call was executed and failed; the same in the run that executed it and in one that replays it.

    `type_name` is the original error's class name, never a class: the host's errors do not exist in the cell. `message` is its
    text, `traceback_text` its traceback where there is one, else "". Code that can go on without the result catches this;
    the run counts and shows the failed call all the same. Uncaught, it fails the run, and a resume executes this call again.
    """

    _number: int = 0

    def __init__(self, type_name: str, message: str, traceback_text: str = "") -> None:
        super().__init__(type_name, message, traceback_text)
        self.type_name = type_name
        self.message = message
        self.traceback_text = traceback_text

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name
