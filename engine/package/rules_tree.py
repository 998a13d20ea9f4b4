"""Rules about the tree as a whole: what has to be there."""

from __future__ import annotations

from collections.abc import Collection

from engine.package.layout import CODE_FOLDERS, REQUIRED
from engine.package.rules import Findings


def check_tree(present: Collection[str], findings: Findings) -> None:
    """Report required files that are missing. `present` counts a file that broke a rule as there."""
    for path in REQUIRED:
        if path not in present:
            findings.add("tree.missing", path, "is missing.", fix="Add it; docs/guide/write-a-package.md shows how.")
    modules = [path for path in present if path.endswith(".py") and path.split("/")[0] in CODE_FOLDERS]
    if all(path.endswith("/__init__.py") for path in modules):
        fix = "Move a part of the work into a module such as steps/collect.py."
        findings.add("tree.no_module", "", "steps/, goals/ and helpers/ hold no module.", fix=fix)
