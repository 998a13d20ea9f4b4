"""The matrix names every protection and every attempt there is, and the page is what the record says."""

from __future__ import annotations

from dataclasses import fields

from engine.sandbox.attempts import attempts
from engine.sandbox.policy import CellPolicy
from engine.sandbox.seccomp import groups
from tests.matrix.page import PAGE, elsewhere, read, rendered
from tests.matrix.weaker import CALLS, FIELDS, NO_PROTECTION, PROTECTIONS


def test_every_field_of_the_policy_is_taken_away_or_is_no_protection() -> None:
    taken = {field for field, _ in FIELDS.values()}
    assert taken | set(NO_PROTECTION) == {field.name for field in fields(CellPolicy)}
    assert not taken & set(NO_PROTECTION)


def test_every_protection_was_measured() -> None:
    assert list(read()) == list(PROTECTIONS)


def test_every_protection_is_found_before_any_code_or_by_an_attempt_or_by_the_readback_alone_with_another_wall() -> (
    None
):
    for name, one in read().items():
        by_readback = name in FIELDS or name.removeprefix("call ") in CALLS
        assert one.refused or one.seen or one.through or one.otherwise or by_readback, name


def test_the_record_names_attempts_that_exist() -> None:
    known = {attempt.name for attempt in attempts()}
    named = {name for one in read().values() for name in (*one.through, *(name for name, _ in one.otherwise))}
    assert named | {name for names in elsewhere().values() for name in names} <= known


def test_the_page_is_what_the_record_and_the_attempts_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(read()), (
        "run `make docs`, or `make matrix` after a change of the policy"
    )


def test_no_call_that_the_list_allows_without_conditions_counts_as_refused() -> None:
    allowed = {call.name for group in groups() for call in group.calls if not call.rules}
    assert not allowed & set(CALLS)
