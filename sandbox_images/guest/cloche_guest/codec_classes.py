"""Values of a package's own classes, taken apart and put together: Enum, Flag, dataclass and NamedTuple.

Knows which class a value has and what its fields hold, read past the class's own methods; what the fields hold is encoded by
`codec`.
"""

from __future__ import annotations

import enum
import sys
from typing import Any

from cloche_guest.codec_refusal import Refused, step


def taken_apart(value: Any, kind: type) -> tuple[str, str, Any]:
    """Tag, class name and payload of an enum member, flag, named tuple or dataclass instance of a package.

    The payload is the member's name, the flag's number, or a dict of the fields in their order.

    Raises:
        Refused: it is none of these, or holds other than its class says.
    """
    module, name = names(kind)
    full = f"{module}:{name}"
    if not is_class_name(full) or not _is_found(kind, module, name):
        told = name if module == "builtins" else f"{module}.{name}"
        raise Refused(f"{ascii(told[:200])[1:-1]} cannot be recorded")
    if issubclass(kind, enum.Enum):
        return _member(value, kind, full)
    if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        return "$named", full, _items(value, kind)
    if "__dataclass_fields__" in _attributes(kind) and _is_made_by_object(kind):
        return "$data", full, _fields(value, kind)
    raise Refused(f"{module}.{name} cannot be recorded: it is no Enum, dataclass or NamedTuple")


def names(kind: type) -> tuple[str, str]:
    """Module and qualified name, as they stand in the class, whatever its metaclass says."""
    module = type.__dict__["__module__"].__get__(kind)
    return module if type(module) is str else "?", type.__dict__["__qualname__"].__get__(kind)


def is_class_name(name: str) -> bool:
    """True for `module:qualified.name` of something inside a package."""
    module, _, qualified = name.partition(":")
    parts = (*module.split("."), *qualified.split("."))
    return parts[0] == "workflows" and len(parts) > 2 and all(part.isidentifier() for part in parts)


def _is_found(kind: type, module: str, name: str) -> bool:
    """True when decoding will find this very class by its name."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found is kind


def _attributes(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in base.__dict__}


def _is_made_by_object(kind: type) -> bool:
    """False for a class whose instances are also a list, an exception or another thing with a content of its own."""
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True


def _member(value: Any, kind: Any, full: str) -> tuple[str, str, Any]:
    if issubclass(kind, enum.Flag):
        if type(value._value_) is not int:
            raise Refused(f"a flag with the value {type(value._value_).__name__} cannot be recorded")
        return "$flag", full, value._value_
    if type(value._name_) is not str or kind._member_map_.get(value._name_) is not value:
        raise Refused("is no member of its Enum under its own name")
    return "$enum", full, value._name_


def _items(value: Any, kind: Any) -> dict[str, Any]:
    """What a named tuple holds, by the names of its fields."""
    items, fields = list(tuple.__iter__(value)), kind._fields
    extra = getattr(value, "__dict__", {})
    if len(items) != len(fields) or extra:
        raise Refused(f"carries other than its fields: {', '.join(sorted(map(str, extra))) or len(items)}")
    return dict(zip(fields, items, strict=True))


def _fields(value: Any, kind: type) -> dict[str, Any]:
    """What the fields of a dataclass instance hold, in their order; nothing else may be there."""
    fields = _field_names(kind)
    state = object.__getstate__(value)
    parts = state if type(state) is tuple else (state,)
    held: dict[str, Any] = {}
    for part in parts:
        held |= part or {}
    extra = held.keys() - set(fields)
    if extra:
        raise Refused(f"carries attributes that are no fields: {', '.join(sorted(map(ascii, extra)))}")
    missing = [name for name in fields if name not in held]
    for name in missing:  # a default of the class that no instance overrides
        default = next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), _ABSENT)
        if default is _ABSENT or hasattr(type(default), "__get__"):
            raise Refused("this field is not set", step(name))
        held[name] = default
    return {name: held[name] for name in fields}


_ABSENT = object()


def _field_names(kind: Any) -> list[str]:
    import dataclasses

    return [field.name for field in dataclasses.fields(kind)]


def built(tag: str, kind: Any, payload: Any) -> Any:
    """The value of a package's class `kind`. Dataclasses and named tuples are made without calling anything of theirs.

    Raises:
        Refused: the class is of another kind now, or has other fields or members.
    """
    made: Any
    if tag == "$flag" and issubclass(kind, enum.Flag):
        made = kind(payload)
        if type(made) is kind and made._value_ == payload:
            return made
    elif tag == "$enum" and issubclass(kind, enum.Enum):
        if payload in kind._member_map_:
            return kind._member_map_[payload]
    elif tag == "$named" and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        if len(kind._fields) == len(payload):
            return tuple.__new__(kind, payload)
    elif tag == "$data" and hasattr(kind, "__dataclass_fields__"):
        if set(payload) == set(_field_names(kind)):
            made = object.__new__(kind)
            for name, item in payload.items():
                object.__setattr__(made, name, item)
            return made
    else:
        raise Refused(f"{kind.__module__}.{kind.__qualname__} is not what {tag} names")
    raise Refused(f"{kind.__qualname__} has other fields or members now")
