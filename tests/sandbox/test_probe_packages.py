"""The probe's packages: each is refused by the gate for what must refuse it, and no longer once that is taken away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.gate import checks
from engine.gate import probe_packages as probe_packages_module
from engine.gate.probe_packages import probe_packages
from engine.package.rules_tests import _TestModule
from engine.sandbox.attempts import attempts, select
from engine.sandbox.policy import CellPolicy, Runtime
from engine.sandbox.probe_report import ProbeRow
from engine.sandbox.service import Sandbox
from tests.helpers.weak_guest import Change, weakened, with_guest

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("changes to the guest's own code, found out by the guest's own code"),
]

Probe = Callable[..., Any]


@pytest.fixture
def rows(sandbox: Sandbox, image_id: str) -> Probe:
    """Gate the named packages; rows by name."""

    async def made(
        *names: str, change: Callable[[CellPolicy], CellPolicy] = lambda policy: policy
    ) -> dict[str, ProbeRow]:
        found = await probe_packages(sandbox, image_id=image_id, chosen=select(only=names), change=change)
        return {row.name: row for row in found}

    return made


GVISOR = ("exit_in_test", "exit_at_import", "planted_file", "survivor", "forged_report", "entry_swallowed")
"""Those that processes, signals and files decide."""


@pytest.mark.both_runtimes
async def test_every_forged_package_passes_with_a_plain_runner_and_is_refused_by_the_gate(
    runtime: Runtime, sandbox: Sandbox, image_id: str
) -> None:
    chosen = [one for one in attempts() if one.kind == "package" and one.applies(runtime)]
    if runtime == "runsc":
        chosen = [one for one in chosen if one.name in GVISOR]
    found = await probe_packages(sandbox, image_id=image_id, chosen=chosen)
    wanted = {one.name: "blocked" for one in chosen}
    assert {row.name: row.verdict for row in found} == wanted, [row for row in found if row.verdict != "blocked"]
    assert len(found) >= (len(GVISOR) if runtime == "runsc" else 20)


WEAKER: dict[str, tuple[tuple[str, ...], tuple[Change, ...]]] = {
    "what a case leaves lives on": (
        ("survivor",),
        (("gate.py", "self._stragglers += max(0, reaper.end_all() - (status is None))", "pass"),),
    ),
    "files stay for the next case": (
        ("planted_file",),
        (("gate.py", "listener.entered)\n        self._empty_scratch()", "listener.entered)"),),
    ),
    "the last outcome counts": (
        ("taken_back",),
        (("gate.py", 'if self.outcome in ("", "passed"):', "if True:"),),
    ),
    "a process that ends without an outcome passed": (
        ("exit_at_import", "entry_detects_gate"),
        (("gate.py", 'return "crashed", f"', 'return "passed", f"'),),
    ),
    "a call without a script is forgiven": (
        ("unscripted_swallowed",),
        (("gate.py", "if listener.unscripted:", "if False:"),),
    ),
    "an expected failure is a pass": (
        ("xfail_while_running",),
        (
            ("cases.py", 'if hasattr(report, "wasxfail"):', "if False:"),
            ("cases.py", "        if report.skipped:", "        if False:"),
        ),
    ),
    "plug-ins are registered": (
        ("plugin_in_fixture",),
        (("cases.py", "session.config.pluginmanager.register = _no_plugin", "pass"),),
    ),
}


@pytest.mark.parametrize("protection", WEAKER)
async def test_a_guest_without_a_protection_is_found_out_by_a_package(
    protection: str, rows: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_packages_module, "GATE_S", 6.0)  # what survives keeps the supervisor until then
    names, changes = WEAKER[protection]
    guest = weakened(tmp_path, *changes)
    found = await rows(*names, change=lambda policy: with_guest(policy, guest, monkeypatch))
    assert {row.verdict for row in found.values()} <= {"through", "unexpected"}, found


async def test_a_gate_that_wants_no_evidence_passes_tests_that_test_nothing(
    rows: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_EXERCISED", frozenset({"passed"}))
    found = await rows("entry_swallowed")
    assert found["entry_swallowed"].verdict == "through"


async def test_without_the_rule_about_hooks_a_hook_in_conftest_still_does_not_count(
    rows: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_TestModule, "_check_hooks", lambda _self: None)
    found = await rows("hook_in_conftest")
    assert found["hook_in_conftest"].verdict == "unexpected"
    assert "test_victim failed" in found["hook_in_conftest"].cell
