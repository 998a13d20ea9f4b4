"""Git is run with a surrounding of our own: nothing of this process, the machine or the repository has a say."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.catalog import git
from engine.proc import run
from engine.settings import tool_environment
from tests.helpers.publishing import Publisher


@pytest.fixture
def said(tmp_path: Path) -> Publisher:
    publisher = Publisher(tmp_path)
    publisher.put("say")
    return publisher


def canary(tmp_path: Path) -> tuple[Path, Path]:
    """A program that leaves a trace when something starts it, and the trace."""
    trace, program = tmp_path / "trace", tmp_path / "canary"
    program.write_text(f"#!/bin/sh\necho started $0 >>{trace}\ncat 2>/dev/null\n")
    program.chmod(0o755)
    return program, trace


def test_variables_of_this_process_do_not_reach_git(
    said: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, trace = canary(tmp_path)
    hostile = {
        "GIT_DIR": str(tmp_path / "nowhere"),
        "GIT_WORK_TREE": "/",
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(tmp_path / "objects"),
        "GIT_NAMESPACE": "other",
        "GIT_AUTHOR_NAME": "Somebody",
        "GIT_COMMITTER_EMAIL": "somebody@example.org",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(program),
        "GIT_CONFIG_KEY_1": "core.hooksPath",
        "GIT_CONFIG_VALUE_1": str(tmp_path),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={program}'",
        "GIT_EXTERNAL_DIFF": str(program),
        "GIT_TEMPLATE_DIR": str(tmp_path),
        "GIT_TRACE": str(tmp_path / "trace-git"),
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_DEFAULT_HASH": "sha256",
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    old = said.catalog.head("say")
    new = said.put("say", replace=True, body='return "other"').revision

    assert "other" in said.catalog.diff("say", old, new)
    assert git.commit(git.objects_of(said.project("say")), new).revision == new
    assert b"Cloche <cloche@localhost>" in (git.blobs([git.objects_of(said.project("say"))], [new])[0] or b"")
    assert not trace.exists()
    assert not (tmp_path / "trace-git").exists()


def test_git_sees_exactly_the_listed_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n/usr/bin/env >{seen}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    monkeypatch.setenv("SECRET_TOKEN", "x")

    git.read_index(tmp_path / "index")

    names = {line.split("=", 1)[0] for line in seen.read_text().splitlines()} - {"PWD", "SHLVL", "_", "OLDPWD"}
    assert names == {
        *tool_environment(),
        "TZ",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_GLOBAL",
        "GIT_ATTR_NOSYSTEM",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OPTIONAL_LOCKS",
        "GIT_TERMINAL_PROMPT",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    }


def test_configuration_hooks_and_attributes_of_a_repository_have_no_effect(said: Publisher, tmp_path: Path) -> None:
    program, trace = canary(tmp_path)
    project = said.project("say")
    old = said.catalog.head("say")
    for key in (
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "diff.external",
        "diff.x.textconv",
        "diff.x.command",
        "filter.x.smudge",
        "filter.x.clean",
        "filter.x.process",
        "gpg.program",
        "credential.helper",
        "tar.tar.command",
    ):
        run(["git", "config", key, str(program)], env=tool_environment(), cwd=project)
    for key, value in {
        "commit.gpgSign": "true",
        "core.autocrlf": "true",
        "core.eol": "crlf",
        "filter.x.required": "true",
    }.items():
        run(["git", "config", key, value], env=tool_environment(), cwd=project)
    hooks = project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-commit", "pre-commit", "reference-transaction", "post-index-change", "post-checkout", "update"):
        (hooks / hook).symlink_to(program)
    run(["git", "config", "core.hooksPath", str(hooks)], env=tool_environment(), cwd=project)
    info = project / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("* filter=x diff=x text eol=crlf ident export-subst\nREADME.md export-ignore\n")

    new = said.put("say", replace=True, body='return "$Id$ $Format:%H$"').revision
    snapshot = said.services.snapshots.for_revision("say", new)

    assert "$Id$ $Format:%H$" in said.catalog.diff("say", old, new)
    assert (snapshot.path / "workflows" / "say" / "README.md").is_file()
    assert b"\r" not in (project / "workflow.py").read_bytes()
    assert said.catalog.list().problems == ()
    assert not trace.exists()


def test_the_same_canary_is_started_by_plain_git(said: Publisher, tmp_path: Path) -> None:
    """The control for the test above: without our surroundings the repository does start programs."""
    program, trace = canary(tmp_path)
    run(["git", "config", "core.fsmonitor", str(program)], env=tool_environment(), cwd=said.project("say"))
    run(["git", "status"], env={**tool_environment(), "HOME": str(tmp_path)}, cwd=said.project("say"))
    assert trace.exists()


def test_replacement_records_do_not_show_other_bytes_under_an_id(said: Publisher) -> None:
    project = said.project("say")
    first = said.catalog.head("say")
    second = said.put("say", replace=True, body='return "b"').revision
    run(["git", "replace", second, first], env=tool_environment(), cwd=project)
    assert b'return "b"' in said.catalog.files("say", second)["workflow.py"]


def test_a_command_that_hangs_ends_at_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    monkeypatch.setattr(git, "TIMEOUT_S", 0.2)
    with pytest.raises(git.GitFailed, match="did not complete"):
        git.read_index(tmp_path / "index")


def test_a_machine_without_git_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(git.GitMissing):
        git.read_index(tmp_path / "index")


def test_object_names_cannot_smuggle_a_second_question(said: Publisher) -> None:
    with pytest.raises(ValueError, match="line break"):
        git.blobs([git.objects_of(said.project("say"))], ["HEAD\nHEAD"])


def test_several_object_directories_are_seen_whatever_their_paths_hold(tmp_path: Path) -> None:
    directories, names = [], []
    for folder in ("plain", 'a:b "c" \\d', "ä\nö"):
        publisher = Publisher(tmp_path / folder)
        published = publisher.put("say", body=f"return {len(folder)}")
        directories.append(git.objects_of(publisher.catalog.project("say")))
        names.append(f"{published.revision}:workflow.py")
    found = git.blobs(directories, names)
    assert None not in found
    assert len(set(found)) == 3


def test_reading_makes_no_file_that_a_killed_process_would_leave(
    said: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    before = place.stat().st_mtime_ns
    head = said.catalog.head("say")
    objects = git.objects_of(said.catalog.project("say"))
    assert git.tree(objects, head)
    assert git.commit(objects, head).tree_id
    assert list(place.iterdir()) == []
    assert place.stat().st_mtime_ns == before
