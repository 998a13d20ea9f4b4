"""The data behind the list of system calls: complete, explained, and the only source of the profile and of its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli import reference
from engine.sandbox import seccomp

ARGUMENT_VALUES = 1 << 64


def test_every_call_of_the_list_says_who_needs_it_what_fails_without_it_and_what_it_could_do() -> None:
    calls = seccomp.system_calls()
    for call in calls:
        assert min(len(call.by), len(call.without), len(call.could)) >= 2, call
        assert bool(call.only) == bool(call.rules or call.own_uid), (
            f"{call.name}: rules and words for them belong together"
        )
    assert len({call.name for call in calls}) == len({call.number for call in calls}) == len(calls)


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_the_profile_allows_the_explained_calls_and_no_other(runtime: str) -> None:
    profile = json.loads(seccomp.text(runtime))  # type: ignore[arg-type]
    allowed = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    more = allowed - {call.name for call in seccomp.system_calls()}
    assert more == (set(seccomp.RUNSC_NAMES) if runtime == "runsc" else set())
    assert {call.name for call in seccomp.system_calls()} <= allowed
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert profile["architectures"] == ["SCMP_ARCH_X86_64"]


def test_a_call_with_rules_is_not_allowed_without_them() -> None:
    rules = json.loads(seccomp.text("runc"))["syscalls"]
    for call in seccomp.system_calls():
        own = [rule for rule in rules if call.name in rule["names"]]
        assert len(own) == max(1, len(call.rules)), call.name
        assert all(bool(rule.get("args")) == bool(call.rules) for rule in own), call.name


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_a_cells_profile_lets_identities_change_to_its_own_worker_only_and_is_the_same_otherwise(runtime: str) -> None:
    general = seccomp.text(runtime)  # type: ignore[arg-type]
    rules = json.loads(seccomp.for_worker(general, 60_710))["syscalls"]
    own = [rule for rule in rules if {"setresuid", "setresgid"} & set(rule["names"])]
    assert [(rule["names"], rule["action"]) for rule in own] == [
        ([name], "SCMP_ACT_ALLOW") for call in seccomp.system_calls() if call.own_uid for name in [call.name]
    ]
    for rule in own:
        assert [(one["index"], one["value"], one["valueTwo"]) for one in rule["args"]] == [
            (argument, 0xFFFFFFFF, 60_710) for argument in range(3)
        ]
    others = {name for rule in rules if rule not in own for name in rule["names"]}
    assert others == {name for rule in json.loads(general)["syscalls"] for name in rule["names"]} - {
        "setresuid",
        "setresgid",
    }
    assert seccomp.for_worker("unconfined", 60_710) == "unconfined"


def test_a_condition_can_be_met() -> None:
    for call in seccomp.system_calls():
        for condition in (condition for rule in call.rules for condition in rule):
            assert 0 <= condition.argument <= 5
            assert 0 <= condition.value < ARGUMENT_VALUES
            assert 0 < condition.mask < ARGUMENT_VALUES
            assert condition.value & ~condition.mask == 0, f"{call.name} could never be called"


def test_a_call_without_an_explanation_cannot_enter_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "calls.toml"
    silent.write_text(seccomp.SOURCE.read_text() + '\n[[group.call]]\nname = "ptrace"\nnumber = 101\n')
    monkeypatch.setattr(seccomp, "SOURCE", silent)
    seccomp.groups.cache_clear()
    try:
        with pytest.raises(TypeError, match=r"by.*without.*could"):
            seccomp.groups()
    finally:
        seccomp.groups.cache_clear()


def test_the_page_shows_every_call_with_its_explanation_and_is_up_to_date() -> None:
    page = reference.pages()["seccomp.md"]
    for call in seccomp.system_calls():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{call.name}` ")]
        assert {call.could, call.without} <= set(row.split(" | "))
        assert row.endswith(f" | {call.only or 'any'} |")
    assert "seccomp.md" not in reference.stale()
