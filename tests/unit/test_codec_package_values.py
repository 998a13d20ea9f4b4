"""Enum members, dataclasses and named tuples of a package: by qualified name and field, exact or refused."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import sys
import types
from collections import namedtuple
from collections.abc import Iterator
from datetime import date
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import pytest
from cloche_guest import codec

NAME = "workflows.codec_shapes.steps.shapes"
T = TypeVar("T")


class Colour(enum.Enum):
    RED = 1
    ROUGE = 1
    ODD = ("a", "tuple")


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


class Mode(enum.Flag):
    A = 1
    B = 2


class Bits(enum.IntFlag):
    HIGH = 2**60


class Ejecting(enum.Flag, boundary=enum.EJECT):
    A = 1


class Point(NamedTuple):
    x: int
    y: Any = 0


class Marked(Point):
    """A named tuple whose instances have attributes, and which says that it holds something else."""

    def __iter__(self) -> Iterator[Any]:
        return iter(["lie"])


Loose = namedtuple("Loose", "a")


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    when: date
    tags: tuple[Any, ...] = ()
    kind: ClassVar[str] = "row"


@dataclasses.dataclass
class Base:
    a: int


@dataclasses.dataclass
class Derived(Base):
    b: list[Any] = dataclasses.field(default_factory=list)
    fixed: int = dataclasses.field(default=7, init=False)

    @functools.cached_property
    def total(self) -> int:
        return self.a


class Undecorated(Base):
    """Inherits its fields."""


@dataclasses.dataclass(slots=True, frozen=True, eq=False)
class Slotted:
    x: Any
    y: Any = None


class Hidden(Slotted):
    __slots__ = ("hidden",)


@dataclasses.dataclass
class Boxed(Generic[T]):
    item: T


@dataclasses.dataclass
class Listing(list):  # type: ignore[type-arg]
    title: str = ""


@dataclasses.dataclass
class Failure(Exception):
    title: str = ""


@dataclasses.dataclass
class Guarded:
    """Runs code at every turn."""

    x: int

    def __post_init__(self) -> None:
        raise AssertionError("a constructor ran")

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AssertionError(f"{name} was set")


class Outer:
    class Inner(enum.Enum):
        A = 1


class Plain:
    """No value."""


KINDS: list[Any] = [
    Colour, Level, Word, Mode, Bits, Ejecting, Point, Marked, Row, Base, Derived, Undecorated, Slotted, Hidden,
    Boxed, Listing, Failure,
    Guarded, Outer, Outer.Inner, Plain,
]  # fmt: skip


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """All of them in a package."""
    found = types.ModuleType(NAME)
    for kind in KINDS:
        monkeypatch.setattr(kind, "__module__", NAME)
        if "." not in kind.__qualname__:
            setattr(found, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, NAME, found)
    return found


def resolve(name: str) -> type:
    module, _, qualified = name.partition(":")
    found: Any = sys.modules[module]
    for part in qualified.split("."):
        found = vars(found)[part]
    assert isinstance(found, type)
    return found


def travelled(value: Any) -> Any:
    """Encoded, checked by the host, written back by it, and decoded again."""
    form = json.loads(codec.text(codec.encode(value)))
    opaque = codec.check(form)
    assert codec.text(codec.encode(opaque)) == codec.text(form)
    assert codec.digest(codec.encode(opaque)) == codec.digest(form)
    return codec.decode(form, resolve=resolve)


def refused(value: Any) -> str:
    with pytest.raises(codec.CodecError) as caught:
        codec.encode({"a": [value]})
    return str(caught.value)


MEMBERS = [
    Colour.RED, Colour.ROUGE, Colour.ODD, Level.LOW, Word.A, Mode.A, Mode.A | Mode.B, Mode(0), Bits.HIGH,
    Outer.Inner.A, Ejecting.A,
]  # fmt: skip


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_members_of_enums_come_back_as_themselves(member: Any) -> None:
    for value in (member, [member], {member: 1}, {member}, (member, {"k": member})):
        found = travelled(value)
        assert found == value
    assert travelled(member) is member


@pytest.mark.parametrize("member", [Colour.RED, Mode.A])
def test_a_member_nested_as_deep_as_values_go_is_refused_where_decoding_would_refuse_it(member: Any) -> None:
    def nested(levels: int) -> Any:
        value = member
        for _ in range(levels):
            value = [value]
        return value

    assert travelled(nested(codec.DEPTH - 1)) == nested(codec.DEPTH - 1)
    with pytest.raises(codec.CodecError, match="nested deeper"):
        codec.encode(nested(codec.DEPTH))


VALUES = [
    Point(1, (2, {3})), Row("r", date(2026, 1, 2), ("t", Colour.RED)), Base(1), Derived(1, [Base(2)]),
    Undecorated(5), Boxed({"a": (1,)}),
    Boxed(Boxed(Point(1))), Point(Row("r", date(2026, 1, 2))),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_dataclasses_and_named_tuples_come_back_field_by_field(value: Any) -> None:
    found = travelled([value, {"k": (value,)}])
    assert found == [value, {"k": (value,)}]
    assert type(found[0]) is type(value)
    assert repr(found[0]) == repr(value)


def test_slots_come_back_too() -> None:
    found = travelled(Slotted([1], (2,)))
    assert (type(found), found.x, found.y) == (Slotted, [1], (2,))


def test_different_classes_and_fields_have_different_digests() -> None:
    values = [
        Point(1, 0),
        (1, 0),
        Base(1),
        Undecorated(1),
        {"a": 1},
        Boxed(1),
        Boxed(True),
        Boxed("1"),
        Level.LOW,
        1,
        Mode.A,
        Word.A,
        "a",
    ]
    assert len({codec.digest(codec.encode(value)) for value in values}) == len(values)


def test_package_values_are_members_and_keys_and_equal_ones_are_one() -> None:
    rows = {Row("a", date(2026, 1, 2)), Row("b", date(2026, 1, 2))}
    assert travelled(rows) == rows
    assert travelled({row: row.name for row in rows}) == {row: row.name for row in rows}
    form = codec.encode(Point(1))
    with pytest.raises(codec.CodecError, match="equal members"):
        codec.check({"$set": [form, form]})


def test_decoding_runs_no_constructor_and_encoding_asks_no_method() -> None:
    made = object.__new__(Guarded)
    object.__setattr__(made, "x", 3)
    found = travelled(made)
    assert object.__getattribute__(found, "x") == 3


def test_what_a_value_carries_beside_its_fields_is_refused_by_name() -> None:
    row, derived, hidden, marked = Row("r", date(2026, 1, 2)), Derived(1), Hidden(1), Marked(1, 2)
    object.__setattr__(row, "extra", 1)
    assert derived.total == 1
    object.__setattr__(hidden, "hidden", 1)
    marked.note = "x"  # type: ignore[attr-defined]
    for value, name in ((row, "extra"), (derived, "total"), (hidden, "hidden"), (marked, "note")):
        assert name in refused(value)
    del marked.note  # type: ignore[attr-defined]
    assert tuple.__iter__(travelled(marked)).__next__() == 1


def test_a_class_that_is_also_something_else_is_refused() -> None:
    for value in (Listing("t"), Failure("t"), Plain(), Outer()):
        assert type(value).__name__ in refused(value)


def test_a_missing_field_is_refused_by_name_and_a_default_of_the_class_counts() -> None:
    derived = Derived(1)
    del derived.b
    assert "$.a[0].b" in refused(derived)
    slotted = object.__new__(Slotted)
    assert "$.a[0].x" in refused(slotted)
    assert travelled(Derived(1)).fixed == 7


def test_a_class_that_decoding_would_not_find_is_refused(
    module: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loose, "__module__", NAME)
    assert "Loose" in refused(Loose(1))  # stands under no name in its module

    @dataclasses.dataclass
    class Local:
        x: int

    monkeypatch.setattr(Local, "__module__", NAME)
    assert "Local" in refused(Local(1))
    monkeypatch.setattr(module, "Base", Point)  # the name means another class now
    assert "Base" in refused(Base(1))
    monkeypatch.setattr(Row, "__module__", "elsewhere")
    assert "elsewhere.Row" in refused(Row("r", date(2026, 1, 2)))


@pytest.mark.parametrize(
    "form",
    [
        {"$enum": [f"{NAME}:Colour", "GREEN"]},
        {"$enum": [f"{NAME}:Row", "A"]},
        {"$flag": [f"{NAME}:Mode", 64]},
        {"$flag": [f"{NAME}:Ejecting", 2]},
        {"$flag": [f"{NAME}:Colour", 1]},
        {"$named": [f"{NAME}:Point", [1]]},
        {"$named": [f"{NAME}:Point", [1, 2, 3]]},
        {"$named": [f"{NAME}:Row", [1]]},
        {"$data": [f"{NAME}:Base", {}]},
        {"$data": [f"{NAME}:Base", {"a": 1, "b": 2}]},
        {"$data": [f"{NAME}:Point", {"x": 1}]},
        {"$data": [f"{NAME}:Plain", {}]},
    ],
)
def test_a_form_that_does_not_fit_its_class_is_refused_in_the_guest(form: Any) -> None:
    codec.check(form)  # the host knows no classes
    with pytest.raises(codec.CodecError) as caught:
        codec.decode([form], resolve=resolve)
    assert caught.value.path.startswith("$[0]")


def test_where_a_class_is_missing_the_path_says_it() -> None:
    def nothing(name: str) -> type:
        raise codec.CodecError("$", f"{name} is gone")

    with pytest.raises(codec.CodecError, match=r"^\$\.rows\[1\]: workflows.*is gone"):
        codec.decode({"rows": [1, {"$data": [f"{NAME}:Base", {"a": 1}]}]}, resolve=nothing)
