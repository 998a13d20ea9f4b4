"""A home that somebody else may write is refused before anything in it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import settings
from engine.errors import UsageError


def test_a_home_that_everybody_can_write_is_refused_before_its_settings_are_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.toml").write_text('docker_host = "tcp://elsewhere"\n', encoding="utf-8")
    home.chmod(0o777)
    with pytest.raises(UsageError, match="written by everybody"):
        settings.load({"CLOCHE_HOME": str(home)})
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(UsageError, match="written by everybody"):
        settings.load({"CLOCHE_HOME": str(tmp_path / "link")})
    home.chmod(0o755)
    assert settings.load({"CLOCHE_HOME": str(home)}).docker_host == "tcp://elsewhere"


def test_a_home_that_is_absent_is_no_reason_to_refuse(tmp_path: Path) -> None:
    assert settings.load({"CLOCHE_HOME": str(tmp_path / "new")}).home == tmp_path / "new"


@pytest.mark.parametrize(
    ("mode", "owner", "problem"),
    [
        (0o40700, 1000, ""),
        (0o40775, 1000, ""),
        (0o40755, 0, ""),
        (0o40777, 0, "can be written by everybody"),
        (0o41777, 1000, "can be written by everybody"),
        (0o40700, 1001, "belongs to another user (1001)"),
    ],
)
def test_a_home_is_its_users_or_roots_and_not_everybodys(mode: int, owner: int, problem: str) -> None:
    assert settings.shared(mode, owner=owner, user=1000) == problem


def test_root_takes_no_home_of_a_user() -> None:
    assert settings.shared(0o40700, owner=1000, user=0) == "belongs to another user (1000)"
