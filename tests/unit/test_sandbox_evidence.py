"""The cause of an end, for every combination of what can be seen of it."""

from __future__ import annotations

from itertools import product

import pytest

from engine.sandbox.evidence import Evidence, decide
from engine.sandbox.frames import End
from engine.sandbox.outcome import SANDBOX_CAUSES, Cause


def end(cause: str, detail: str = "", code: int = 0, stragglers: int = 0) -> End:
    return End(cause=cause, detail=detail, exit=code, calls=(), stragglers=stragglers)


CASES = [
    (Evidence(end=end("exit", "returned")), Cause.EXIT, "returned"),
    (Evidence(end=end("exit", "exited", 137)), Cause.EXIT, "exited"),
    (Evidence(end=end("exit", "exited", 137), oom_kills=2, oom_flag=True), Cause.EXIT, "exited"),
    (Evidence(end=end("signal", "SIGKILL", 137)), Cause.SIGNAL, "SIGKILL"),
    (Evidence(end=end("signal", "SIGKILL", 137), oom_kills=1), Cause.LIMIT_MEMORY, None),
    (Evidence(end=end("signal", "SIGKILL", 137), oom_flag=True), Cause.LIMIT_MEMORY, None),
    (Evidence(end=end("signal", "SIGSEGV", 139), oom_kills=1), Cause.SIGNAL, "SIGSEGV"),
    (Evidence(end=end("deadline")), Cause.DEADLINE, ""),
    (Evidence(end=end("message", "frame.oversized")), Cause.MESSAGE, "frame.oversized"),
    (Evidence(end=end("limit:messages")), Cause.LIMIT_MESSAGES, ""),
    (Evidence(end=end("limit:output_files")), Cause.LIMIT_OUTPUT_FILES, ""),
    (Evidence(end=end("cancelled")), Cause.CANCELLED, ""),
    (Evidence(end=end("exit", "returned"), killed=Cause.DEADLINE), Cause.EXIT, "returned"),
    (Evidence(killed=Cause.DEADLINE), Cause.DEADLINE, None),
    (Evidence(killed=Cause.CANCELLED, oom_flag=True), Cause.CANCELLED, None),
    (Evidence(oom_kills=1), Cause.LIMIT_MEMORY, None),
    (Evidence(oom_flag=True), Cause.LIMIT_MEMORY, None),
    (Evidence(engine_answers=False), Cause.ENGINE_LOST, None),
    (Evidence(engine_answers=False, killed_by_other=True), Cause.ENGINE_LOST, None),
    (Evidence(killed_by_other=True), Cause.OPERATOR, None),
    (Evidence(), Cause.SUPERVISOR_LOST, None),
    (Evidence(violation="call.repeated", end=end("exit")), Cause.SUPERVISOR_LOST, "call.repeated"),
]


@pytest.mark.parametrize(("seen", "cause", "detail"), CASES)
def test_the_cause_follows_from_the_evidence(seen: Evidence, cause: Cause, detail: str | None) -> None:
    verdict = decide(seen)
    assert verdict.cause is cause
    assert detail is None or verdict.detail == detail


def test_nothing_is_blamed_on_the_program_without_a_last_word_or_a_record() -> None:
    for flags in product([False, True], repeat=2):
        verdict = decide(Evidence(killed_by_other=flags[0], engine_answers=flags[1]))
        assert verdict.cause in SANDBOX_CAUSES


def test_what_the_program_ran_into_is_noted() -> None:
    verdict = decide(Evidence(end=end("exit", stragglers=3), oom_kills=2, pids_refused=5))
    assert len(verdict.notes) == 3
