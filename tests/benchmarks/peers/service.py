"""Answers one question a line, until its input ends. What a peer's process runs; the standard library and nothing else.

A question is a JSON object whose `do` names a task and whose other members are its arguments; the answer is the object that the
task gives. A task that fails ends the process, with its traceback on stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping

Task = Callable[..., dict[str, object]]


def serve(tasks: Mapping[str, Task]) -> None:
    """Answer until the input ends. What a library prints to stdout goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answers.write("{}\n")
    answers.flush()
    for line in sys.stdin:
        question = json.loads(line)
        answer = tasks[question.pop("do")](**question)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
