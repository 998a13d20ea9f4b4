"""Which package the calling code belongs to, and where its files lie.

The loader gives every module of a package the name `workflows.<id>.…`; nothing else identifies one. Only text files below the
package's own folder are handed out.
"""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath
from types import FrameType

_PREFIX = "workflows."


def module_name(frame: FrameType) -> str:
    """Name of the module whose code runs in `frame`."""
    name = frame.f_globals.get("__name__", "")
    return name if isinstance(name, str) else ""


def package_id(module: str) -> str:
    """The `<id>` of `workflows.<id>.…`, "" for a module of no package."""
    return module.removeprefix(_PREFIX).partition(".")[0] if module.startswith(_PREFIX) else ""


def nearest(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from `frame` outwards, that runs code of a package."""
    while frame is not None and not package_id(module_name(frame)):
        frame = frame.f_back
    return frame


def site(frame: FrameType | None) -> str:
    """Where in a package the nearest package code stands: `workflows/<id>/steps/scan.py:31`, "" when there is none."""
    found = nearest(frame)
    if found is None:
        return ""
    path = module_name(found).replace(".", "/")
    path += "/__init__.py" if "__path__" in found.f_globals else ".py"
    return f"{path}:{found.f_lineno}"


def folder(module: str) -> Path:
    """The folder of the package that `module` belongs to.

    Raises:
        RuntimeError: the module belongs to no package, or its package was not loaded from files.
    """
    found = package_id(module)
    if not found:
        raise RuntimeError(
            f"{module or 'this code'} belongs to no workflow package: its module name is not workflows.<id>.…"
        )
    package = sys.modules.get(_PREFIX + found)
    paths = list(getattr(package, "__path__", ()))
    if not paths:
        raise RuntimeError(f"the package {found} was not loaded from a folder")
    return Path(paths[0])


def text_file(base: Path, name: str, *, kind: str) -> Path:
    """The file `name` below `base`; `kind` says in errors what is looked for.

    Raises:
        ValueError: `name` is empty, absolute or climbs.
        FileNotFoundError: no regular file of that name; the message lists those there are.
    """
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a {kind}: a relative path below its folder is expected")
    found = base.joinpath(*path.parts)
    if found.is_symlink() or not found.is_file():
        there = sorted(str(p.relative_to(base)) for p in base.rglob("*") if p.is_file())
        listed = ", ".join(there[:20]) or "none"
        raise FileNotFoundError(f"no {kind} {name!r} in {base.parent.name}/{base.name}; there are: {listed}")
    return found
