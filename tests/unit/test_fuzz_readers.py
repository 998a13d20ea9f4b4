"""Everything that reads untrusted or damaged bytes, with inputs near valid ones and with any bytes: `tests/fuzz` has the properties."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutation import mutated_bytes
from tests.fuzz.targets import TARGETS

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@cache
def seeds(name: str) -> list[bytes]:
    return TARGETS[name].seeds()


@pytest.mark.parametrize("name", TARGETS)
def test_valid_input_keeps_every_property(name: str) -> None:
    assert seeds(name)
    for seed in seeds(name):
        TARGETS[name].check(seed)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=100, deadline=None, suppress_health_check=QUIET)
@given(chance=st.integers(0, 2**32 - 1), times=st.integers(1, 4))
def test_input_near_a_valid_one_is_refused_by_name_or_keeps_every_property(name: str, chance: int, times: int) -> None:
    rng = Random(chance)
    data = rng.choice(seeds(name))
    for _ in range(times):
        data = TARGETS[name].mutate(data, rng)
    TARGETS[name].check(data)
    assert len(data) < 2**20


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=40, deadline=None, suppress_health_check=QUIET)
@given(data=st.binary(max_size=500), chance=st.integers(0, 2**32 - 1))
def test_any_bytes_are_refused_by_name_or_keep_every_property(name: str, data: bytes, chance: int) -> None:
    rng = Random(chance)
    TARGETS[name].check(data)
    TARGETS[name].check(mutated_bytes(rng.choice(seeds(name)), rng))
    assert len(data) <= 500


@pytest.mark.parametrize("name", TARGETS)
def test_a_mutator_reaches_both_refusal_and_acceptance(name: str) -> None:
    """What it makes of valid input is mostly another one, so that a target is not fed with the same."""
    rng = Random(7)
    made = {TARGETS[name].mutate(seeds(name)[0], rng) for _ in range(60)}
    assert len(made) > 20
