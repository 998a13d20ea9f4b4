"""The codec: exact for every listed type, one encoding per value, everything else refused by name and place."""

import dataclasses
import enum
import json
import math
import sys
import types
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from cloche_guest import codec
from hypothesis import given
from hypothesis import strategies as st

GOLDEN = Path(__file__).parent.parent / "fixtures" / "codec" / "v1.jsonl"

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**400), max_value=10**400)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(max_size=64)
    | st.decimals()
    | st.fractions()
    | st.dates()
    | st.timedeltas()
    | st.datetimes(timezones=st.none() | st.timezones() | st.just(UTC))
    | st.times()
    | st.builds(PurePosixPath, st.from_regex(r"[a-z/]{0,20}", fullmatch=True))
)
hashable = st.integers() | st.text(st.characters(exclude_categories=["Cs"])) | st.booleans() | st.none() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
        | st.frozensets(hashable, max_size=4)
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Equal in type and content, all the way down; NaN equals NaN, -0.0 differs from 0.0, dict order counts."""
    if type(one) is not type(other):
        return False
    match one:
        case float():
            return repr(one) == repr(other)
        case Decimal():
            return str(one) == str(other)
        case list() | tuple():
            return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
        case dict():
            return same(list(one.items()), list(other.items()))
        case datetime() | time():
            return one.replace(tzinfo=None) == other.replace(tzinfo=None) and repr(one) == repr(other)
        case _:
            return bool(one == other)


@given(values)
def test_every_listed_value_survives_the_round_trip_through_json_text(value: Any) -> None:
    encoded = codec.encode(value)
    again = codec.decode(json.loads(codec.text(encoded)))
    assert same(value, again)


@given(values)
def test_what_encode_made_is_the_canonical_encoding(value: Any) -> None:
    encoded = json.loads(codec.text(codec.encode(value)))
    assert same(codec.check(encoded), value)


@given(st.dictionaries(hashable, scalars, max_size=6), st.randoms())
def test_the_digest_ignores_dict_order(value: dict[Any, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert codec.digest(codec.encode(dict(items))) == codec.digest(codec.encode(value))


def test_values_that_compare_equal_but_differ_in_type_have_different_digests() -> None:
    alike = [1, True, 1.0, "1", Decimal(1), Fraction(1)]
    assert len({codec.digest(codec.encode(value)) for value in alike}) == len(alike)
    containers = [[1], (1,), {1}, frozenset({1}), {1: None}]
    assert len({codec.digest(codec.encode(value)) for value in containers}) == len(containers)


def test_recorded_digests_of_version_one_still_match() -> None:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 30
    for line in lines:
        record = json.loads(line)
        assert codec.digest(record["encoded"]) == record["digest"], record
        assert codec.text(codec.encode(codec.decode(record["encoded"]))) == codec.text(record["encoded"])


@pytest.mark.parametrize(
    ("value", "path", "names"),
    [
        (object(), "$", "builtins.object"),
        ({"rows": [1, {"when": object}]}, "$.rows[1].when", "builtins.type"),
        ((1, lambda: 0), "$[1]", "function"),
        ("\ud800", "$", "surrogate"),
        ({"a\udfff": 1}, "$", "surrogate"),
        (types.SimpleNamespace(), "$", "SimpleNamespace"),
        (enum.Enum("Local", "A").A, "$", "Local"),  # type: ignore[attr-defined]
        (bytearray(b"x"), "$", "bytearray"),
        (1j, "$", "complex"),
        (range(3), "$", "range"),
    ],
)
def test_other_values_are_refused_by_type_and_path(value: Any, path: str, names: str) -> None:
    with pytest.raises(codec.CodecError) as refused:
        codec.encode(value)
    assert refused.value.path == path
    assert names in refused.value.problem


def test_subclasses_of_listed_types_are_refused_rather_than_flattened() -> None:
    class Name(str):
        pass

    class Rows(list):  # type: ignore[type-arg]
        pass

    for value in (Name("x"), Rows([1])):
        with pytest.raises(codec.CodecError):
            codec.encode(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(codec.CodecError, match="contains itself"):
        codec.encode(loop)


def test_nesting_is_refused_past_the_bound_and_accepted_at_it() -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = (value,)
        return value

    assert codec.decode(codec.encode(nested(codec.DEPTH))) == nested(codec.DEPTH)
    with pytest.raises(codec.CodecError):
        codec.encode(nested(codec.DEPTH + 1))


@pytest.mark.parametrize(
    "encoded",
    [
        {"$int": "0x5"},
        {"$int": "5"},
        {"$set": [1, 1]},
        {"$set": [2, 1]},
        {"rows": [1, {"inner": {"$set": [2, 1]}}]},
        {"$dict": [["a", 1]]},
        {"$dict": [[1, 1], [1, 2]]},
        {"$unknown": 1},
        {"$int": "0x20000000000000", "b": 1},
        {"$float": "1.0"},
        {"$bytes": "!!"},
        {"$bytes": "YQ"},
        {"$path": ["PurePath", "a"]},
        {"$path": ["PosixPath", "a//b"]},
        {"$data": ["os:system", {}]},
        {"$enum": ["builtins:eval", "A"]},
        {"$datetime": ["2026-01-01", None, 0]},
        {"$decimal": "1_0"},
        {"$fraction": [2, 4]},
        {"$fraction": [1, 0]},
        {"$zone": "../../etc/passwd"},
        2**60,
        math.inf,
    ],
)
def test_text_that_is_no_canonical_encoding_is_refused(encoded: Any) -> None:
    with pytest.raises(codec.CodecError):
        codec.check(encoded)


class Colour(enum.Enum):
    RED = 1


class Mode(enum.Flag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    when: date
    tags: tuple[str, ...] = ()


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> str:
    name = "workflows.codec_sample"
    module = types.ModuleType(name)
    for kind in (Colour, Mode, Point, Row):
        monkeypatch.setattr(kind, "__module__", name)
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, name, module)
    return name


def test_values_of_a_package_are_rebuilt_in_the_guest_and_stay_opaque_on_the_host(package: str) -> None:
    def resolve(name: str) -> type:
        module, _, qualified = name.partition(":")
        found = getattr(sys.modules[module], qualified)
        assert isinstance(found, type)
        return found

    value = [Colour.RED, Mode.A | Mode.B, Point(1, 2), Row("r", date(2026, 1, 2), ("t",))]
    encoded = json.loads(codec.text(codec.encode(value)))
    assert codec.decode(encoded, resolve=resolve) == value
    opaque = codec.check(encoded)
    assert [item.name.rpartition(":")[2] for item in opaque] == ["Colour", "Mode", "Point", "Row"]
    assert codec.encode(opaque) == encoded


def test_a_dataclass_with_attributes_beyond_its_fields_is_refused(package: str) -> None:
    row = Row("r", date(2026, 1, 2))
    object.__setattr__(row, "hidden", 1)
    with pytest.raises(codec.CodecError, match="hidden"):
        codec.encode(row)


def golden_values() -> list[Any]:
    """What the golden file was made of; kept so that the file can be read with understanding."""
    zone = timezone(timedelta(hours=5, minutes=30), "IST")
    return [
        None, True, False, 0, 1, -1, 2**53 - 1, 2**53, -(2**200), 0.0, -0.0, 1.5, 1e300, math.inf, -math.inf, math.nan,
        "", "é\u0000\n", "$x", b"", b"\x00\xff", (), (1, "1", 1.0), [], [None], set(), {1, 2, "a"}, frozenset({b"x"}),
        {}, {"b": 1, "a": 2}, {1: "x", True is None: "y"}, {"$k": 1}, {(1, 2): [3]},
        Path("a/b"), PurePosixPath("/x"), PureWindowsPath("c:\\x"), datetime(2026, 1, 2, 3, 4, 5, 6),
        datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1),
        date(2026, 1, 2), time(1, 2, 3), time(1, tzinfo=zone), timedelta(days=-1, microseconds=5), zone,
        ZoneInfo("Asia/Shanghai"), Decimal("1.10"), Decimal("-0"), Decimal("NaN"), Fraction(-1, 3),
        Fraction(2**70, 3),
    ]  # fmt: skip


def test_the_golden_file_holds_the_golden_values() -> None:
    encoded = [json.loads(line)["encoded"] for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    assert [codec.text(item) for item in encoded] == [codec.text(codec.encode(value)) for value in golden_values()]
