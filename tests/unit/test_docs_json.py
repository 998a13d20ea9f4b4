"""What verbs print with `--json`, without an engine, is what docs/reference/json.md promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cli.app import invoke
from cli.schema_errors import ErrorObject
from cli.schema_packages import Validation, WorkflowRevision, Workflows
from cli.schema_runs import Run, Runs
from cli.schemas import check
from tests.helpers.cells import Answers, ScriptedCells, ask
from tests.helpers.publishing import Publisher
from tests.helpers.runs import Bench


class Shell:
    """Runs verbs in a home and holds what they print against their models."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys

    def __call__(self, verb: str, *arguments: str) -> tuple[int, Any]:
        """Exit code and checked object; an exit code that its error object does not name is a failure."""
        code = invoke([*verb.split(), *arguments, "--json"])
        printed = json.loads(self._capsys.readouterr().out)
        found = check(verb, printed)
        if isinstance(found, ErrorObject):
            assert found.error.exit == code
        return code, found


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    home = tmp_path / "home"
    monkeypatch.setenv("CLOCHE_HOME", str(home))
    monkeypatch.setenv("CLOCHE_DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    return Shell(home, capsys)


@pytest.fixture
def published(tmp_path: Path) -> list[str]:
    """Two revisions of `say`, and one of `shout`, which pins the newer one."""
    publisher = Publisher(tmp_path)
    revisions = [publisher.put("say"), publisher.put("say", replace=True, version="1.1")]
    publisher.put("shout", imports=["say"])
    return [one.revision for one in revisions]


def test_doctor_without_an_engine_says_so(shell: Shell) -> None:
    code, found = shell("doctor")
    assert code == 3
    assert not found.ok
    assert {one.name: one.state for one in found.findings}["engine"] == "missing"


def test_a_valid_and_an_invalid_directory(shell: Shell, tmp_path: Path) -> None:
    directory = Publisher(tmp_path).write("say")
    code, found = shell("workflows validate", str(directory))
    assert (code, found.ok, found.diagnostics) == (0, True, [])
    (directory / "setup.cfg").write_text("")
    code, found = shell("workflows validate", str(directory))
    assert isinstance(found, Validation)
    assert (code, [item.rule for item in found.diagnostics]) == (1, ["tree.unexpected"])


@pytest.mark.parametrize("verb", ["workflows test", "workflows publish"])
def test_an_invalid_package_is_refused_with_all_its_diagnostics(shell: Shell, tmp_path: Path, verb: str) -> None:
    directory = Publisher(tmp_path).write("say")
    (directory / "setup.cfg").write_text("")
    code, found = shell(verb, str(directory))
    assert (code, found.error.code) == (1, "invalid_candidate")
    assert [item.rule for item in found.diagnostics] == ["tree.unexpected"]


def test_a_valid_package_without_an_engine_is_no_failure_of_the_package(shell: Shell, tmp_path: Path) -> None:
    code, found = shell("workflows test", str(Publisher(tmp_path).write("say")))
    assert (code, found.error.code) == (3, "image_missing")


def test_the_catalog(shell: Shell, published: list[str]) -> None:
    code, found = shell("workflows list")
    assert isinstance(found, Workflows)
    assert (code, [one.workflow_id for one in found.workflows], found.problems) == (0, ["say", "shout"], [])
    assert found.workflows[1].pins == {"say": published[1]}


def test_a_damaged_entry_of_the_catalog_is_a_problem_of_its_own(shell: Shell, published: list[str]) -> None:
    (shell.home / "catalog" / "workflow" / "say" / ".git" / "HEAD").write_text("nonsense")
    code, found = shell("workflows list")
    assert (code, [one.workflow_id for one in found.workflows]) == (0, ["shout"])
    assert [(one.name, one.code) for one in found.problems] == [("say", "corrupt_entry")]


def test_a_revision_with_its_gate_report(shell: Shell, published: list[str]) -> None:
    _, found = shell("workflows show", f"say@{published[0][:12]}")
    assert isinstance(found, WorkflowRevision)
    assert (found.revision, found.active) == (published[0], False)
    assert found.gate_report is not None
    assert found.gate_report.predicate.result == "PASSED"


def test_the_revisions_of_a_package_and_what_changed(shell: Shell, published: list[str]) -> None:
    _, found = shell("workflows log", "say")
    assert [one.revision for one in found.revisions] == published[::-1]
    _, found = shell("workflows diff", "say", published[0][:8])
    assert '+version = "1.1"' in found.diff
    _, found = shell("workflows diff", "say", published[0], published[0])
    assert found.diff == ""


@pytest.mark.parametrize("reference", ["HEAD", "--output=x", "0000000"])
def test_the_difference_to_what_was_never_published_is_refused(
    shell: Shell, published: list[str], reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = invoke(["workflows", "diff", "--json", "say", "--", reference])
    assert code in (2, 5)
    assert not (tmp_path / "x").exists()


def test_a_run_of_every_kind_of_node(shell: Shell) -> None:
    bench = Bench(shell.home)

    def program() -> Any:
        yield ask("llm", prompt="one", phase=("look",))
        yield ask("llm", prompt="two", scope="/requirements_parse[1]")
        return {"done": True}

    bench.drive(bench.create(), ScriptedCells([program]), {"llm": Answers(lambda _: "yes")})
    for verb in ("runs show", "runs watch"):
        code, found = shell(verb)
        assert isinstance(found, Run)
        assert (code, found.ok, found.counts.calls) == (0, True, 2)
    _, found = shell("runs show", "--result")
    assert found.value == {"done": True}
    _, found = shell("runs list")
    assert isinstance(found, Runs)
    assert [(one.status, one.generations) for one in found.runs] == [("completed", 1)]
    _, found = shell("runs logs", found.runs[0].run_id, "--stderr")
    assert found.stream == "stderr"


def test_a_run_that_nobody_executed_is_cancelled_and_watching_it_says_so(shell: Shell) -> None:
    run_id = Bench(shell.home).create().run_id
    code, found = shell("runs cancel", run_id)
    assert (code, found.status, found.ok) == (0, "cancelled", False)
    code, found = shell("runs watch", run_id)
    assert (code, found.status) == (6, "cancelled")


def test_a_damaged_run_is_a_problem_of_its_own(shell: Shell) -> None:
    bench = Bench(shell.home)
    broken = bench.create()
    broken.journal_path.write_bytes(b"nonsense\n")
    code, found = shell("runs list")
    assert (code, found.runs, [one.code for one in found.problems]) == (0, [], ["journal_damaged"])
    code, found = shell("runs show", broken.run_id)
    assert (code, found.error.code) == (7, "journal_damaged")


def test_the_locked_versions_of_the_image(shell: Shell) -> None:
    code, found = shell("image lock")
    assert (code, found.changed) == (0, [])
    assert "python3.11-minimal" in found.packages


@pytest.mark.parametrize(
    ("verb", "arguments", "expected"),
    [
        ("image show", [], (3, "image_missing")),
        ("cells list", [], (3, "engine_unreachable")),
        ("workflows show", ["nothing"], (5, "unknown_workflow")),
        ("workflows show", ["../x"], (2, "bad_reference")),
        ("workflows run", ["nothing"], (5, "unknown_workflow")),
        ("workflows log", [], (2, "usage")),
        ("runs show", [], (5, "not_found")),
        ("runs resume", ["20261130T120000Z-00000001"], (5, "run_not_found")),
        ("runs list", ["--limit", "0"], (2, "usage")),
    ],
)
def test_a_failure_is_an_object_with_its_code(
    shell: Shell, verb: str, arguments: list[str], expected: tuple[int, str]
) -> None:
    code, found = shell(verb, *arguments)
    assert (code, found.error.code) == expected
    assert found.error.message


def test_an_object_with_a_field_that_is_not_documented_is_refused() -> None:
    good = {"ok": True, "run_id": "r", "stream": "stdout", "text": ""}
    assert check("runs logs", good)
    with pytest.raises(ValidationError):
        check("runs logs", {**good, "more": 1})
    with pytest.raises(ValidationError):
        check("runs logs", {"ok": False, "error": {"code": "usage"}})
