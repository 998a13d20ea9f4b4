"""A guest with one protection taken out of it, mounted over the image's own for one test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.sandbox import attest
from engine.sandbox.policy import CellPolicy

GUEST = Path(__file__).parents[2] / "sandbox_images" / "guest" / "cloche_guest"
INSTALLED_AT = "/opt/cloche/cloche_guest"

Change = tuple[str, str, str]
"""File of the guest, text in it that protects, and what stands there instead."""


def weakened(root: Path, *changes: Change) -> Path:
    """A copy of the guest's source with the changes made; a text that is not there is a failure."""
    copy = Path(shutil.copytree(GUEST, root / "cloche_guest", ignore=shutil.ignore_patterns("__pycache__")))
    for file, old, new in changes:
        text = (copy / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, (file, old)
        (copy / file).write_text(text.replace(old, new), encoding="utf-8")
    return copy


def with_guest(policy: CellPolicy, guest: Path, monkeypatch: pytest.MonkeyPatch) -> CellPolicy:
    """The policy with that guest, and an attestation that does not mind another guest than ours (which it always does)."""
    monkeypatch.setattr(attest, "differences", lambda *_args, **_options: ())
    return policy.with_mount(guest, INSTALLED_AT)
