"""The codec, proven with values that a machine makes up: exact type by type, canonical, and closed under damage."""

from __future__ import annotations

import contextlib
import json
import math
import random
import string
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

from cloche_guest import codec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.exact import same

texts = st.text(st.characters(exclude_categories=["Cs"]))
zones = st.one_of(
    st.none(),
    st.just(UTC),
    st.timezones(),
    st.builds(
        timezone,
        st.timedeltas(min_value=timedelta(hours=-23, minutes=-59), max_value=timedelta(hours=23, minutes=59)),
        texts,
    ),
)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
long_integers = st.builds(
    lambda digits, low, sign: sign * (7 * 10**digits + low),
    st.sampled_from([15, 16, 17, 300, 4299, 4300, 4301, 5000]),
    st.integers(0, 10**6),
    st.sampled_from([1, -1]),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**53) - 3, -(2**53) + 3) | st.integers(2**53 - 3, 2**53 + 3),
    long_integers,
    st.floats(),
    st.floats(allow_subnormal=True, min_value=-1e-300, max_value=1e-300),
    texts,
    st.sampled_from(["", "\x00", "$", "$dict", '"$dict"', "\ud7ff\ue000", "\U0010ffff", "\u2028", "\\u0000"]),
    st.binary(max_size=32),
    st.decimals()
    | st.sampled_from([Decimal(text) for text in ("sNaN", "-sNaN12", "-0", "0E-30", "1E+5", "-Infinity")]),
    st.fractions(),
    st.dates(),
    st.timedeltas(),
    st.datetimes(timezones=zones, allow_imaginary=True),
    st.builds(lambda at, fold: at.replace(fold=fold), st.datetimes(timezones=zones), st.sampled_from([0, 1])),
    st.builds(lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.times(), zones, st.sampled_from([0, 1])),
    zones,
    st.builds(PurePosixPath, names, names),
    st.builds(Path, names),
    st.builds(PureWindowsPath, st.text(string.ascii_lowercase + ":\\/. ", max_size=12)),
)
hashable_scalars = scalars.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan()))
hashable = st.recursive(
    hashable_scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.dictionaries(texts, inner, max_size=4)
        | st.sets(hashable, max_size=4)
        | st.frozensets(hashable, max_size=4)
    ),
    max_leaves=10,
)


def encoded(value: Any) -> Any:
    """The JSON form after a trip through text; None for the two kinds of value that are refused although their types are listed.

    Those are a path that Windows reads otherwise than it is, and a container with several NaN as members or keys.
    """
    with contextlib.suppress(codec.CodecError):
        return json.loads(codec.text(codec.encode(value)))
    return None


@given(values)
@settings(max_examples=200)
def test_every_listed_value_survives_the_round_trip_with_the_same_types_deep_down(value: Any) -> None:
    found = encoded([value])
    if found is None:
        assert has_an_odd_part(value)
        return
    assert same(codec.decode(found), [value])
    assert same(codec.check(found), [value])


def has_an_odd_part(value: Any) -> bool:
    """True for a value that holds one of the parts which `encoded` tells of."""
    match value:
        case PureWindowsPath():
            return PureWindowsPath(str(value)).parts != value.parts
        case dict():
            return several_nan(value) or any(map(has_an_odd_part, [*value, *value.values()]))
        case set() | frozenset():
            return several_nan(value) or any(map(has_an_odd_part, value))
        case list() | tuple():
            return any(map(has_an_odd_part, value))
    return False


def several_nan(members: Any) -> bool:
    """True for two members that differ only as objects."""
    forms = [repr(member) for member in members if "nan" in repr(member).lower()]
    return len(forms) != len(set(forms))


@given(st.dictionaries(hashable, scalars, max_size=6), st.sets(hashable, max_size=6), st.randoms())
def test_the_digest_knows_no_order_of_dicts_and_sets(table: dict[Any, Any], members: set[Any], chance: Any) -> None:
    items, listed = list(table.items()), list(members)
    chance.shuffle(items)
    chance.shuffle(listed)
    one, other = encoded([table, members]), encoded([dict(items), set(listed)])
    assert (one is None) == (other is None)
    assert codec.digest(one) == codec.digest(other)


@given(st.dictionaries(texts, values, max_size=4))
def test_the_fast_canonical_form_is_the_described_one(table: dict[str, Any]) -> None:
    found = encoded(table)
    assert codec.canonical(found) == codec.text(in_order(found)).encode()


def in_order(found: Any) -> Any:
    """The canonical form as docs/reference/codec.md describes it, the slow way."""
    if isinstance(found, list):
        return [in_order(item) for item in found]
    if isinstance(found, dict) and "$dict" in found:
        pairs = [[in_order(key), in_order(item)] for key, item in found["$dict"]]
        return {"$dict": sorted(pairs, key=lambda pair: codec.text(pair[0]))}
    return {key: in_order(found[key]) for key in sorted(found)} if isinstance(found, dict) else found


@given(values)
def test_the_canonical_form_is_an_encoding_too_so_that_no_two_values_share_one(value: Any) -> None:
    found = encoded(value)
    if found is not None:
        read = codec.check(json.loads(codec.canonical(found)))
        assert codec.canonical(codec.encode(read)) == codec.canonical(found)
        assert same(sorted_deep(read), sorted_deep(value))


def sorted_deep(value: Any) -> Any:
    """The value with the entries of its dicts in the order of their recorded keys."""
    match value:
        case dict():
            items = sorted(value.items(), key=lambda item: codec.text(codec.encode(item[0])))
            return {key: sorted_deep(item) for key, item in items}
        case list() | tuple():
            return type(value)(sorted_deep(item) for item in value)
    return value


@given(values, st.integers(0, 2**32))
@settings(max_examples=100)
def test_a_mutated_form_is_refused_or_is_itself_a_canonical_encoding(value: Any, seed: int) -> None:
    found = encoded([value])
    if found is None:
        return
    for changed in mutations(found, random.Random(seed)):
        try:
            read = codec.check(changed)
        except codec.CodecError:
            continue
        assert codec.text(codec.encode(read)) == codec.text(changed)
        codec.digest(changed)


TAGS = (
    *("$int", "$float", "$tuple", "$set", "$frozenset", "$dict", "$bytes", "$datetime", "$time", "$date", "$timedelta"),
    *("$zone", "$timezone", "$decimal", "$fraction", "$path", "$enum", "$flag", "$data", "$named", "$other", "$"),
)
LEAVES: list[Any] = [
    None, True, 0, 1, -1, 1.0, -0.0, 2**53 - 1, 2**53, 2**70, "", "a", "0x0", "0x20000000000000", "nan", "inf", "1.0", "YQ==", "YQ",
    "YR==", "2026-01-02", "2026-W01-1", "2026-01-02T03:04:05", "20260102T030405", "2026-01-02T03:04:05+01:00", "Europe/Paris", "Europe",
    "../UTC", "UTC\x00", "PosixPath", "PureWindowsPath", "./c:x", "workflows.x:Y", "workflows.x.y:Y.Z", "workflows:Y", "os:system",
    "workflows.x:<locals>.Y", "workflows.x:Y:Z", "\ud800", [], {}, [[]], [1, 1], [1, True], [2, 1], [0, None, 0],
    [1, 2, 3, 4], math.inf,    {"a": 1}, {"$int": "0x20000000000000"},
    {"$zone": "UTC"}, {"$timezone": [0, None]}, {"$timezone": [10**12, "x"]}, {"$dict": 5},
    {"$float": "nan"}, {"$decimal": "NaN"}, [{"$decimal": "NaN"}, {"$decimal": "NaN"}], [{"$float": "nan"}, {"$float": "nan"}],
    ["workflows.x:Y", {}], ["workflows.x:Y", 5], ["workflows.x:Y", {"$dict": 5}], ["workflows.x:Y", "RED"], ["workflows.x:Y", [1]],
    ["workflows.x:Y", {"a b": 1}], {"workflows.x:Y": 1, "RED": 2}, [[1, 2]], [["a", 1]], [[1, 2, 3]], [[[], 1]], {"ab": 1}, "ab",
]  # fmt: skip


def mutations(found: Any, chance: random.Random) -> Iterator[Any]:
    """Changed forms: a part replaced, doubled, dropped, reordered, tagged or stripped of its tag."""
    for _ in range(12):
        text = json.loads(json.dumps(found))
        spots = list(places(text))
        holder, key = chance.choice(spots)
        match chance.randrange(6):
            case 0:
                holder[key] = chance.choice(LEAVES)
            case 1:
                holder[key] = {chance.choice(TAGS): holder[key]}
            case 2:
                holder[key] = {chance.choice(TAGS): chance.choice(LEAVES)}
            case 3 if isinstance(holder[key], dict) and len(holder[key]) == 1:
                holder[key] = next(iter(holder[key].values()))
            case 4 if isinstance(holder[key], list):
                holder[key] = holder[key] + holder[key] if chance.random() < 0.5 else holder[key][::-1]
            case _:
                holder[key] = [holder[key], holder[key]]
        yield text


def places(found: Any) -> Iterator[tuple[Any, Any]]:
    """Every spot that holds something, as (holder, key or index)."""
    keys = range(len(found)) if isinstance(found, list) else list(found) if isinstance(found, dict) else []
    for key in keys:
        yield found, key
        yield from places(found[key])


def test_every_tag_around_every_odd_body_is_refused_or_canonical() -> None:
    accepted = 0
    for tag in TAGS:
        for leaf in LEAVES:
            for form in ({tag: leaf}, {tag: [leaf]}, {tag: [leaf, leaf]}, {tag: [leaf, None, 0]}, {tag: leaf, "b": 1}):
                try:
                    read = codec.check(form)
                except codec.CodecError:
                    continue
                accepted += 1
                assert codec.text(codec.encode(read)) == codec.text(form)
                codec.digest(form)
    assert accepted > 100


@given(values)
def test_what_the_program_set_for_its_decimals_changes_no_encoding(value: Any) -> None:
    plain = encoded([value])
    with localcontext() as context:
        context.prec, context.capitals, context.Emax = 2, 0, 5
        assert encoded([value]) == plain
        if plain is not None:
            assert same(codec.decode(plain), [value])


def test_numbers_that_no_decimal_text_may_spell_pass() -> None:
    for value in (10**4299, 10**4300, -(10**5000), 2**200_000):
        assert codec.check(json.loads(codec.text(codec.encode({value: [value]})))) == {value: [value]}
    assert codec.check(codec.encode(Fraction(10**5000, 7))) == Fraction(10**5000, 7)
    assert same(codec.check(codec.encode(Decimal("9" * 5000))), Decimal("9" * 5000))


def test_both_folds_of_an_hour_that_comes_twice_are_kept_apart() -> None:
    moments = [datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=fold) for fold in (0, 1)]
    forms = [codec.encode(moment) for moment in moments]
    assert codec.digest(forms[0]) != codec.digest(forms[1])
    assert [codec.check(form).utcoffset() for form in forms] == [timedelta(hours=2), timedelta(hours=1)]
    assert codec.check(codec.encode(time(1, fold=1))).fold == 1
    assert codec.check(codec.encode(date.max)) == date.max
