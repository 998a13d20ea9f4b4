"""The codec: exact for every listed type, one encoding per value, everything else refused by name and place."""

import enum
import json
import math
import types
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cloche_guest import codec

from tests.helpers.exact import same

GOLDEN = Path(__file__).parent.parent / "fixtures" / "codec" / "v1.jsonl"


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
        (object(), "$", "object"),
        ({"rows": [1, {"when": object}]}, "$.rows[1].when", "type"),
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


def golden_values() -> list[Any]:
    """What the first lines of the golden file were made of; kept so that the file can be read with understanding."""
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
        *later_golden_values(),
    ]  # fmt: skip


def later_golden_values() -> list[Any]:
    """The edges, added behind them. The file only ever grows."""
    minute = timezone(timedelta(hours=-23, minutes=-59), "")
    return [
        -(2**53 - 1), -(2**53), 10**40, -(10**4999), 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308,
        0.1, 1e16, 1e-7, 123456789.0,
        "\x00", "\x7f\x80\u2028", "\ud7ff\ue000", "\U0001f600\U0010ffff", '"\\/', "$", '"$dict"', b"\xff" * 4,
        bytes(range(256)),
        (None,), ((),), [[[]]], {True}, {1.0}, {"1"}, {None}, {1, -1, 10, 9, "9", "10", b"9", 1.5, (1, 2), (1,), False},
        frozenset({frozenset(), frozenset({frozenset()})}), {1: "int"}, {True: "bool"}, {1.0: "float"},
        {"1": "str"}, {None: 0},
        {1.5: 1, "a": 2, b"a": 3, (): 4, None: 5}, {"2": 1, "10": 2, "é": 3, "z": 4}, {10: 1, 9: 2, "$": 3,
        -1: 4}, {"": 1, " ": 2},
        {"a": {"c": 1, "b": {2: {"e": 1, "d": 2}}}}, {math.nan: 1}, {math.nan, math.inf},
        PurePosixPath("."), PurePosixPath("//a"), PurePosixPath("a/../b"), Path("/"), PurePosixPath("é/\x00"),
        PureWindowsPath("c:x"),
        PureWindowsPath("//server/share/x"), datetime.min, datetime.max, datetime(2026, 3, 29, 2, 30,
        tzinfo=ZoneInfo("Europe/Paris")),
        datetime(2026, 1, 2, tzinfo=minute, fold=1), datetime(2026, 1, 2, tzinfo=timezone(timedelta(microseconds=1))),
        datetime(2026, 1, 2, tzinfo=ZoneInfo("UTC")), date.min, date.max, time.min, time.max, time(1, fold=1),
        time(1, tzinfo=ZoneInfo("UTC")),
        timedelta.min, timedelta.max, timedelta(0), minute, timezone(timedelta(0), "UTC"), UTC,
        timezone(timedelta(hours=1)),
        Decimal("0"), Decimal("0E-28"), Decimal("1E+999999"), Decimal("-1.23E-400"), Decimal("Infinity"),
        Decimal("-Infinity"),
        Decimal("sNaN"), Decimal("-NaN123"), Decimal("1.0"), Decimal("1"), Fraction(0), Fraction(5), Fraction(1, 2**60),
    ]  # fmt: skip


def test_the_golden_file_holds_the_golden_values() -> None:
    encoded = [json.loads(line)["encoded"] for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    made = [codec.text(codec.encode(value)) for value in golden_values()]
    assert [codec.text(item) for item in encoded[: len(made)]] == made


def test_golden_forms_are_accepted_and_decode_to_the_golden_values() -> None:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    for line, value in zip(lines, golden_values(), strict=False):
        assert same(codec.check(json.loads(line)["encoded"]), value)
