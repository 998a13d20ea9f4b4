"""What the codec refuses: by the name of the type and the place inside the value, without running what the value holds."""

from __future__ import annotations

import array
import collections
import ctypes
import decimal
import enum
import fractions
import http
import io
import json
import pathlib
import re
import types
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from cloche_guest import codec


def refused(value: Any) -> codec.CodecError:
    """How the value is refused."""
    with pytest.raises(codec.CodecError) as caught:
        codec.encode(value)
    assert str(caught.value) == f"{caught.value.path}: {caught.value.problem}"
    str(caught.value).encode()  # can be printed
    return caught.value


def handler() -> None: ...


class Text(str): ...


class Number(int): ...


class Real(float): ...


class Data(bytes): ...


class Rows(list[Any]): ...


class Table(dict[str, Any]): ...


class Members(set[int]): ...


class Frozen(frozenset[int]): ...


class Day(date): ...


class Moment(datetime): ...


class Span(timedelta): ...


class Money(decimal.Decimal): ...


class Part(fractions.Fraction): ...


class Place(PurePosixPath): ...


class Home(zoneinfo.ZoneInfo): ...


class Level(enum.IntEnum):
    LOW = 1


Pair = collections.namedtuple("Pair", "a b")


SUBCLASSES = [
    Text("x"), Number(1), Real(1), Data(b"x"), Rows([1]), Table(a=1), Members({1}), Frozen({1}), Day(2026, 1, 2),
    Moment(2026, 1, 2),
    Span(1), Money("1"), Part(1, 2), Place("a"), Home("UTC"), Level.LOW, Pair(1, 2), http.HTTPStatus.OK, re.IGNORECASE,
    collections.OrderedDict(a=1), collections.defaultdict(list), collections.Counter("a"), collections.deque([1]),
    types.MappingProxyType({}), types.SimpleNamespace(),
]  # fmt: skip


@pytest.mark.parametrize("value", SUBCLASSES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "around", [lambda v: v, lambda v: [1, v], lambda v: {"k": v}, lambda v: (v,), lambda v: {1: v}]
)
def test_a_subclass_is_refused_rather_than_flattened(value: Any, around: Callable[[Any], Any]) -> None:
    error = refused(around(value))
    assert type(value).__name__ in error.problem


@pytest.mark.parametrize(
    "value",
    [Text("x"), Number(1), Real(2.5), Data(b"x"), Frozen({1}), Day(2026, 1, 2), Money("1"), Pair(1, 2), Level.LOW],
)
def test_a_subclass_is_refused_as_a_key_and_as_a_member(value: Any) -> None:
    assert refused({value: 1}).path == "$[…](key)"
    assert refused({value}).path == "${}"
    assert refused({"a": {"b": 1, value: 2}}).path == "$.a[…](key)"


OTHERS = [
    handler, lambda: 0, len, object(), object, type, int, ValueError("x"), (x for x in "a"), iter([]), range(3),
    slice(1), 1j,
    bytearray(b"x"),
    memoryview(b"x"), array.array("i"), NotImplemented, ..., re.compile("a"), io.BytesIO(), json, property(),
    ctypes.c_int(1),
    {}.keys(), {}.items(), [].__iter__(), pathlib.Path.cwd, map(str, []), types.new_class("Fresh")(),
]  # fmt: skip


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
def test_everything_else_is_refused_by_name_and_place(value: Any) -> None:
    error = refused({"items": [1, {"x": (0, 0)}, {}, {"handler": value}]})
    assert error.path == "$.items[3].handler"
    assert type(value).__name__ in error.problem


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (handler, "$"),
        ({"a": [0, handler]}, "$.a[1]"),
        ({"two words": handler}, "$['two words']"),
        ({"é": handler}, "$['\\xe9']"),
        ({"k" * 1000: handler}, f"$['{'k' * 40}']"),
        ({7: (0, {"a": handler})}, "$[7][1].a"),
        ({None: handler, True: 1}, "$[None]"),
        ({1.5: handler}, "$[1.5]"),
        ({"$a": handler}, "$['$a']"),
        ({10**5000: handler}, "$[…]"),
        ({(1, 2): handler}, "$[…]"),
        ({(1, handler): 1}, "$[…](key)[1]"),
        ({1, handler}, "${}"),
        ([{frozenset({handler}): 1}], "$[0][…](key){}"),
        ({"a": "\ud800"}, "$.a"),
        ({"a": {"\udfff": 1}}, "$.a"),
        ({"a": {1: 1, "\udfff": 1}}, "$.a['\\udfff'](key)"),
        ([PurePosixPath("a/\udc80")], "$[0]"),
        ([timezone(timedelta(1, -1), "\ud800")], "$[0]"),
    ],
)
def test_the_path_leads_to_the_refused_part(value: Any, path: str) -> None:
    assert refused(value).path == path


def test_values_that_contain_themselves_are_refused_whatever_the_way() -> None:
    row: list[Any] = [1]
    row.append({"again": (row,)})
    table: dict[Any, Any] = {}
    table[1] = [table]
    for value in (row, table, [[row]]):
        assert "contains itself" in refused(value).problem


def test_nesting_of_ten_thousand_is_refused_in_bounded_words() -> None:
    for wrap in (lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: {1: v}, lambda v: frozenset({v})):
        value: Any = 1
        for _ in range(10_000):
            value = wrap(value)
        error = refused(value)
        assert f"deeper than {codec.DEPTH}" in error.problem
        assert len(str(error)) < 2000


def test_text_nested_ten_thousand_deep_is_refused_too() -> None:
    for wrap in (lambda v: [v], lambda v: {"a": v}, lambda v: {"$tuple": [v]}, lambda v: {"$dict": [[1, v]]}):
        form: Any = 1
        for _ in range(10_000):
            form = wrap(form)
        with pytest.raises(codec.CodecError, match=f"deeper than {codec.DEPTH}") as caught:
            codec.check(form)
        assert len(str(caught.value)) < 2000


def test_an_endless_iterator_is_refused_untouched() -> None:
    taken: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            taken.append(1)
            yield 1

    assert "generator" in refused([endless()]).problem
    assert taken == []


class Raises:
    """Fails at everything that it is asked."""

    def _fail(self, *_: Any) -> Any:
        raise RuntimeError("asked")

    __eq__ = __iter__ = __len__ = __bool__ = __repr__ = __str__ = __getattr__ = __reduce_ex__ = _fail

    def __hash__(self) -> int:
        return 1


class Lies:
    """Says that it is a list of numbers and equal to everything."""

    __class__ = list  # type: ignore[assignment]

    def __eq__(self, _other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("a")

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


class Unhashable(type):
    """A class that cannot be looked up."""

    __eq__ = __hash__ = Raises._fail  # type: ignore[assignment]
    __module__ = property(Raises._fail)  # type: ignore[assignment]

    def __getattr__(cls, name: str) -> Any:
        raise RuntimeError(name)


Odd = Unhashable("Odd", (), {"__module__": 5})


@pytest.mark.parametrize("kind", [Raises, Lies, Odd], ids=["raises", "lies", "odd class"])
def test_an_object_that_raises_or_lies_is_refused_without_being_asked(kind: Callable[[], Any]) -> None:
    assert refused({"a": [kind()]}).path == "$.a[0]"
    assert refused({"a": (kind(),)}).path == "$.a[0]"


@pytest.mark.parametrize("kind", [Raises, Lies], ids=["raises", "lies"])
def test_such_an_object_is_refused_as_a_key_and_a_member_too(kind: Callable[[], Any]) -> None:
    assert refused({kind(): 1}).path == "$[…](key)"
    assert refused({kind()}).path == "${}"


def test_nan_is_one_value_so_it_cannot_be_two_members() -> None:
    nan = float("nan")
    assert codec.check(codec.encode({1, nan})) != {1}
    for value in ({nan, float("nan")}, {nan: 1, float("nan"): 2}, {decimal.Decimal("NaN"), decimal.Decimal("NaN")}):
        assert "one and the same record" in refused(value).problem
    assert codec.encode(-nan) == codec.encode(nan)


class Fixed(tzinfo):
    def utcoffset(self, _at: datetime | None) -> timedelta:
        return timedelta(0)


def test_zones_with_rules_of_their_own_are_refused() -> None:
    with open(f"{zoneinfo.TZPATH[0]}/Europe/Paris", "rb") as file:  # noqa: PTH123 - named as zoneinfo names it
        forged = zoneinfo.ZoneInfo.from_file(file, key="UTC")
    for zone in (Fixed(), Home("UTC"), forged, zoneinfo.ZoneInfo.no_cache("UTC")):
        assert "time zone" in refused([datetime(2026, 1, 2, tzinfo=zone)]).problem
    assert codec.check(codec.encode(datetime(2026, 1, 2, tzinfo=UTC))) == datetime(2026, 1, 2, tzinfo=UTC)


def test_a_path_that_would_be_read_as_another_one_is_refused() -> None:
    assert "another path" in refused([PureWindowsPath("./c:x")]).problem
    assert codec.check(codec.encode(PureWindowsPath("c:x"))).parts == ("c:", "x")


def test_fractions_are_bounded_where_proving_them_takes_too_long() -> None:
    most = fractions.Fraction(2**codec.FRACTION_BITS - 1, 2)
    assert codec.check(codec.encode(most)) == most
    assert "bits" in refused([fractions.Fraction(2**codec.FRACTION_BITS, 3)]).problem
    with pytest.raises(codec.CodecError):
        codec.check({"$fraction": [{"$int": hex(2**codec.FRACTION_BITS)}, 3]})


def test_members_made_to_collide_are_refused_before_they_cost_time() -> None:
    step = 2**61 - 1  # what Python takes hashes of numbers modulo
    crafted = sorted((codec.encode(i * step) for i in range(1, 50_000)), key=codec.canonical)
    for form in ({"$set": crafted}, {"$dict": [[key, 1] for key in crafted]}):
        with pytest.raises(codec.CodecError, match="hash"):
            codec.check(form)
    honest = {*range(10_000), *map(str, range(10_000)), -1, -2}
    assert codec.check(codec.encode(honest)) == honest
