"""What the engine script says and decides without starting anything."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("CLOCHE_ENGINE_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("CLOCHE_ENGINE_PATIENCE_S", "0.2")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / ".ci")
    spec = importlib.util.spec_from_file_location("engine_script", Path(__file__).parents[2] / ".ci" / "engine.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_without_an_engine_and_the_right_to_install_one_it_says_what_to_do(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "find_program", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert script.main(["start"]) == 1
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "install and start Docker" in told.err


def test_without_apt_it_says_what_to_do(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "find_program", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert script.main(["start"]) == 1
    assert "install and start Docker" in capsys.readouterr().err


def test_only_root_starts_an_installed_engine(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "find_program", lambda _: "/nowhere/dockerd")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert script.main(["start"]) == 1
    assert "only root can start it" in capsys.readouterr().err
    assert not (tmp_path / "root").exists()


def test_a_socket_that_accepts_and_stays_silent_is_a_hung_engine_and_not_an_absent_one(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = tmp_path / "s"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{address}")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(address))
        silent.listen(50)
        assert script.main(["start"]) == 1
    assert "accepts connections but does not answer; restart it" in capsys.readouterr().err


def test_a_socket_left_by_a_dead_engine_is_an_absent_one(script: ModuleType, tmp_path: Path) -> None:
    address = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(address))
    assert not script.listens(f"unix://{address}")
    assert not script.answers(f"unix://{address}")


def test_an_engine_over_ssh_is_taken_as_given(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://build@example.invalid")
    assert script.main(["start"]) == 0
    assert "as DOCKER_HOST says" in capsys.readouterr().out


def test_an_unknown_verb_is_a_usage_error(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["restart"]) == 64
    assert "start|stop|status" in capsys.readouterr().err


def test_a_process_counts_as_the_recorded_one_only_with_its_start_time(script: ModuleType) -> None:
    _name, _state, parent, started = sys.modules["processes"].stat_fields(os.getpid())
    assert parent == os.getppid()
    assert script.lives(os.getpid(), started=started)
    assert not script.lives(os.getpid(), started=started + 1)


def test_a_zombie_does_not_live(script: ModuleType) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    assert script.wait_until(lambda: sys.modules["processes"].stat_fields(child.pid)[1] == "Z", 60)
    assert not script.lives(child.pid)
    child.wait()


def test_stopping_where_nothing_was_started_does_nothing(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["stop"]) == 0
    assert "nothing to stop" in capsys.readouterr().out
    assert not (tmp_path / "root").exists()
