"""The attempts as they describe themselves, the choice among them, and what follows from two outcomes."""

from __future__ import annotations

import ast

import pytest

from engine.errors import UsageError
from engine.sandbox.attempts import GROUPS, attempts, described, select
from engine.sandbox.probe_report import ProbeReport, ProbeRow, Said, judged

ONE = described(
    "one", b'"""Try it."""\nGROUP = "files"\nEXPECT = {"runc": "EPERM or EACCES", "runsc": "ENOSYS"}\nWHY = "w"\n'
)
THROUGH = Said(True, "", "got in")


def stopped(cause: str) -> Said:
    return Said(False, cause, "no")


@pytest.mark.parametrize(
    ("runtime", "cell", "control", "verdict"),
    [
        ("runc", THROUGH, THROUGH, "through"),
        ("runc", THROUGH, stopped("EPERM"), "through"),
        ("runc", stopped("EPERM"), THROUGH, "blocked"),
        ("runc", stopped("EACCES"), THROUGH, "blocked"),
        ("runc", stopped("EACCES, EPERM"), THROUGH, "blocked"),
        ("runc", stopped("EACCES, ENOENT"), THROUGH, "unexpected"),
        ("runc", stopped("ENOSYS"), THROUGH, "unexpected"),
        ("runc", stopped("crashed"), THROUGH, "unexpected"),
        ("runc", stopped("EPERM"), stopped("ENOSYS"), "unproven"),
        ("runsc", stopped("ENOSYS"), THROUGH, "blocked"),
        ("runsc", stopped("EPERM"), THROUGH, "blocked"),  # our list answers there with --oci-seccomp
        ("runsc", stopped("EACCES"), THROUGH, "unexpected"),
    ],
)
def test_an_attempt_is_blocked_only_by_what_must_stop_it_and_only_if_the_control_got_through(
    runtime: str, cell: Said, control: Said, verdict: str
) -> None:
    assert judged(ONE, runtime=runtime, cell=cell, control=control).verdict == verdict


def row(group: str, name: str, verdict: str = "blocked") -> ProbeRow:
    return ProbeRow(group, name, "", "", "", "", "", verdict)  # type: ignore[arg-type]


def test_rows_from_elsewhere_stand_in_the_order_of_groups_and_names() -> None:
    report = ProbeReport("runc", "", "", (row("files", "b"), row("kernel", "a")))
    both = report.with_rows([row("gate", "z"), row("files", "a"), row("network", "n")])
    assert [(one.group, one.name) for one in both.rows] == [
        ("network", "n"),
        ("files", "a"),
        ("files", "b"),
        ("kernel", "a"),
        ("gate", "z"),
    ]


@pytest.mark.parametrize("verdict", ["through", "unexpected", "unproven"])
def test_a_report_holds_only_when_every_attempt_was_blocked(verdict: str) -> None:
    assert ProbeReport("runc", "", "", (row("files", "a"),)).held
    assert not ProbeReport("runc", "", "", (row("files", "a"), row("files", "b", verdict))).held
    assert not ProbeReport("runc", "", "", ()).held


def test_every_attempt_says_what_it_tries_what_must_happen_and_why() -> None:
    for attempt in attempts():
        assert all((attempt.tries, attempt.expects, attempt.why)), attempt.name
    assert len({attempt.name for attempt in attempts()}) == len(attempts())


def test_every_attempt_imports_the_standard_library_and_what_lies_beside_it_alone() -> None:
    import sys

    for attempt in attempts():
        for node in ast.walk(ast.parse(attempt.source)):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if attempt.kind == "attempt":
                assert {name.partition(".")[0] for name in names} <= {*sys.stdlib_module_names, "_kernel"}, attempt.name


def test_attempts_are_chosen_by_name_and_by_group() -> None:
    (first, *_) = attempts()
    assert select() == attempts()
    assert select(only=[first.name]) == (first,)
    assert {one.group for one in select(groups=["kernel"])} == {"kernel"}
    assert first in select(only=[first.name], groups=["kernel"])


def test_an_attempt_that_does_not_exist_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(UsageError, match="no attempt 'network_inett'") as refused:
        select(only=["network_inett"])
    assert "network_inet" in refused.value.fix


def test_a_group_that_does_not_exist_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no group 'xyz'") as refused:
        select(groups=["xyz"])
    assert all(group in refused.value.fix for group in GROUPS)
