"""What a passed probe stands for, and which report refuses service."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.sandbox.probe_report import ProbeReport, ProbeRow
from engine.sandbox.probed import KEPT, PASSED, ProbeNotHeld, passed, refuse, remember


def report(**verdicts: str) -> ProbeReport:
    rows = [
        ProbeRow("files", name, "", "EPERM", "", f"cell of {name}", "", verdict)  # type: ignore[arg-type]
        for name, verdict in verdicts.items()
    ]
    return ProbeReport("runc", "", "", tuple(rows))


def test_a_report_in_which_an_attempt_got_through_refuses_service_and_names_it() -> None:
    with pytest.raises(ProbeNotHeld, match=r"bad got through \(cell of bad\)") as refused:
        refuse(report(good="blocked", bad="through"))
    assert refused.value.exit_code == 3
    assert "sandbox probe" in refused.value.fix


def test_an_attempt_stopped_by_something_else_refuses_service_too() -> None:
    with pytest.raises(ProbeNotHeld, match="odd was stopped by cell of odd, not by EPERM"):
        refuse(report(odd="unexpected"))


def test_many_attempts_are_counted_and_not_all_named() -> None:
    with pytest.raises(ProbeNotHeld, match="and 2 more"):
        refuse(report(**{f"a{number}": "through" for number in range(7)}))


def test_what_this_machine_cannot_show_refuses_nobody() -> None:
    unproven = report(good="blocked", elsewhere="unproven")
    refuse(unproven)
    assert not unproven.held


def test_what_held_is_kept_once_and_the_oldest_is_forgotten(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        remember(tmp_path, f"key {number}")
    remember(tmp_path, "key 5")
    assert passed(tmp_path)[0] == "key 3"
    assert passed(tmp_path)[-1] == "key 5"
    assert len(passed(tmp_path)) == KEPT


@pytest.mark.parametrize("text", ["", "{", '{"key": true}', "[1, null]", "\xff"])
def test_what_cannot_be_read_did_not_pass(tmp_path: Path, text: str) -> None:
    (tmp_path / PASSED).write_bytes(text.encode("latin-1"))
    assert passed(tmp_path) == ()
