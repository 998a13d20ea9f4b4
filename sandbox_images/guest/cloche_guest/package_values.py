"""Classes of packages that values can have, found by the names that recordings give them."""

from __future__ import annotations

import enum
import importlib
from typing import Any

from cloche_guest import codec


def resolve(name: str) -> type:
    """The class of a package that an encoded value names: an Enum, a dataclass or a NamedTuple, defined at module level.

    Raises:
        codec.CodecError: there is no such class.
    """
    module_name, _, qualified = name.partition(":")
    if module_name.startswith("workflows."):
        try:
            found: Any = importlib.import_module(module_name)
            for part in qualified.split("."):
                found = vars(found)[part]
        except (ImportError, KeyError, TypeError):
            found = None
        if isinstance(found, type) and f"{found.__module__}:{found.__qualname__}" == name and _recordable(found):
            return found
    raise codec.CodecError("$", f"{name[:200]} is no class of a package that values can have")


def _recordable(kind: type) -> bool:
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return named or issubclass(kind, enum.Enum) or hasattr(kind, "__dataclass_fields__")
