"""What the examples find in the scripted input, against answers computed from the generator's plan or by other libraries."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from cloche import _call
from cloche.testing import script
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from engine.models.scripted import ScriptedModel
from examples import inputs
from tests.helpers.package_tests import EXAMPLES, PACKAGES, copy_packages

Entry = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> inputs.Inputs:
    return inputs.ensure(tmp_path_factory.mktemp("inputs"), megabytes=3)


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Entry]]:
    root = copy_packages([EXAMPLES / name for name in PACKAGES], tmp_path / "root")
    monkeypatch.syspath_prepend(str(root))
    yield lambda name: getattr(importlib.import_module(f"workflows.{name}"), name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "workflows"]:
        del sys.modules[name]


def files(directory: Path) -> dict[str, str | bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_inputs_are_the_same_every_time(made: inputs.Inputs, tmp_path: Path) -> None:
    again = inputs.ensure(tmp_path, megabytes=3)
    assert again.plan == made.plan
    for one, other in zip(
        (made.logs, made.requirements, made.weekly), (again.logs, again.requirements, again.weekly), strict=True
    ):
        assert files(one) == files(other)


def test_inputs_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    first = inputs.ensure(tmp_path, megabytes=1)
    (first.weekly / "todo.csv").unlink()
    assert inputs.ensure(tmp_path, megabytes=1).plan == first.plan
    assert not (first.weekly / "todo.csv").exists()
    assert inputs.ensure(tmp_path, megabytes=2).plan != first.plan
    assert (first.weekly / "todo.csv").exists()


def test_log_triage_finds_every_planted_error(made: inputs.Inputs, entry: Callable[[str], Entry]) -> None:
    plan = made.plan["logs"]
    with script(workspace=files(made.logs)) as calls:
        result = entry("log_triage")("")
    assert calls.of("deliver")[0].arguments == {"path": "triage.md"}
    order = sorted(plan["groups"], key=lambda g: (-g["count"], g["first"], g["level"], g["component"], g["shape"]))
    expected = [
        (g["level"], g["component"], g["shape"], g["count"], g["first"], g["last"], g["files"]) for g in order[:20]
    ]
    fields = ("level", "component", "shape", "count", "first_seen", "last_seen", "files")
    assert [tuple(group[name] for name in fields) for group in result["top"]] == expected
    for total in ("files", "bytes", "lines", "errors", "unparsed"):
        assert result[total] == plan[total], total
    assert (result["shapes"], result["other"], result["unreadable"]) == (len(plan["groups"]), 0, [])


# (kind, package, places) of all findings, worked out with the library `packaging` on one flat list of pinned and ranged lines.
Finding = tuple[str, str, tuple[tuple[str, int], ...]]


def lines_of(path: Path, name: str) -> list[tuple[str, int, Requirement, bool]]:
    numbered = list(enumerate(path.read_text().splitlines(), start=1))
    found: list[tuple[str, int, Requirement, bool]] = []
    for number, line in numbered:
        if line.startswith("    --hash"):
            file, first, requirement, _ = found[-1]
            found[-1] = (file, first, requirement, True)
        elif line and line[0] not in " #":
            bare = line.rstrip("\\").partition(" --hash")[0].strip()
            found.append((name, number, Requirement(bare), " --hash" in line))
    return found


def canonical(requirement: Requirement) -> str:
    return re.sub(r"[-_.]+", "-", requirement.name).lower()


def pin(requirement: Requirement) -> Version | None:
    exact = [Version(s.version) for s in requirement.specifier if s.operator == "=="]
    return exact[0] if exact else None


def findings_by_packaging(directory: Path) -> set[Finding]:
    everything = [
        line
        for path in sorted(directory.rglob("requirements*"))
        if path.is_file()
        for line in lines_of(path, str(path.relative_to(directory)))
    ]
    found: set[Finding] = set()
    for file, number, requirement, hashed in everything:
        name, hashes = canonical(requirement), any(line[3] for line in everything if line[0] == file)
        if pin(requirement) is None and (file.endswith(".lock") or not str(requirement.specifier)):
            found.add(("unpinned", name, ((file, number),)))
        if hashes and not hashed:
            found.add(("unhashed", name, ((file, number),)))
    for name in {canonical(line[2]) for line in everything}:
        group = [line for line in everything if canonical(line[2]) == name]
        known = [version for line in group if (version := pin(line[2])) is not None]
        differing = set()
        for one, other in combinations(group, 2):
            markers = {str(line[2].marker) for line in (one, other) if line[2].marker}
            if len(markers) == 2:
                continue
            both = SpecifierSet(f"{one[2].specifier},{other[2].specifier}".strip(","))
            possible = any(both.contains(version, prereleases=True) for version in known)
            if one[0] == other[0]:
                found.add(("duplicate" if possible else "conflicting", name, (one[:2], other[:2])))
            elif pin(one[2]) and pin(other[2]):
                if pin(one[2]) != pin(other[2]):
                    differing |= {one[:2], other[:2]}
            elif (pin(one[2]) or pin(other[2])) and not possible:
                first, second = (one, other) if pin(one[2]) else (other, one)
                found.add(("conflicting", name, (first[:2], second[:2])))
        if differing:
            found.add(("differing", name, tuple(sorted(differing))))
    return found


def test_dependency_review_finds_what_packaging_finds(made: inputs.Inputs, entry: Callable[[str], Entry]) -> None:
    with script(workspace=files(made.requirements)):
        result = entry("dependency_review")("")
    found = [
        (f["kind"], f["package"], tuple((place["path"], place["line"]) for place in f["where"]))
        for f in result["findings"]
    ]
    assert len(found) == len(set(found))
    assert set(found) == findings_by_packaging(made.requirements)
    assert result["unreadable"] == []
    assert {file["path"]: file["requirements"] for file in result["files"]} == {
        name: len(lines_of(made.requirements / name, name)) for name in files(made.requirements)
    }


def test_dependency_review_finds_every_planted_defect(made: inputs.Inputs, entry: Callable[[str], Entry]) -> None:
    with script(workspace=files(made.requirements)) as calls:
        result = entry("dependency_review")("")
    assert len(made.plan["requirements"]) == 5
    for planted in made.plan["requirements"]:
        places = [{"path": planted["path"], "line": line} for line in planted["lines"]]
        hits = [
            finding
            for finding in result["findings"]
            if (finding["kind"], finding["package"]) == (planted["kind"], planted["package"])
            and all(place in finding["where"] for place in places)
        ]
        assert len(hits) == 1, planted
    assert result["ok"] is False
    assert [call.scope for call in calls.of("emit")] == [f"/requirements_parse[{k}]" for k in range(1, 9)]


def test_cloches_own_files_fit_together(made: inputs.Inputs, entry: Callable[[str], Entry]) -> None:
    with script(workspace=files(made.requirements)):
        result = entry("dependency_review")("cloche/**")
    assert (result["ok"], result["findings"]) == (True, [])
    assert sum(file["requirements"] for file in result["files"]) > 50


class ScriptedFile:
    """Answers agent calls from the scripted model file, as `match` and `json` or `error` say."""

    def __init__(self, path: Path) -> None:
        self.entries = tomllib.loads(path.read_text())["reply"]

    def reply(self, prompt: str, **_: Any) -> Any:
        found = next(item for item in self.entries if re.search(item["match"], prompt))
        if "error" in found:
            raise type(found["error"]["type"], (Exception,), {})(found["error"]["message"])
        return found["json"]


def test_the_scripted_model_is_one_that_cloche_reads() -> None:
    assert len(ScriptedModel.load(EXAMPLES / "weekly_model.toml").entries) == 3


def weekly(made: inputs.Inputs, entry: Callable[[str], Entry], week: str) -> dict[str, Any]:
    model = ScriptedFile(EXAMPLES / "weekly_model.toml")
    with script(workspace=files(made.weekly), agent=[model.reply]):
        return entry("weekly_report")(week)


def test_weekly_report_collects_the_planted_facts(made: inputs.Inputs, entry: Callable[[str], Entry]) -> None:
    facts = weekly(made, entry, inputs.WEEK)["facts"]
    plan = made.plan["weekly"]
    assert {name: facts[name] for name in ("commits", "authors", "closed", "open")} == {
        name: plan[name] for name in ("commits", "authors", "closed", "open")
    }
    assert [todo["id"] for todo in facts["overdue"]] == plan["overdue"]
    assert facts["changes"] == [
        "Invoices are imported in one pass, which also reads the old format",
        "The client retries 3 times before it gives up",
    ]


def test_weekly_report_refuses_the_invented_number(made: inputs.Inputs, entry: Callable[[str], Entry]) -> None:
    with pytest.raises(ValueError, match=r"the number 37\.5 is in no fact"):
        weekly(made, entry, "2026-W47")


def test_weekly_report_fails_with_the_error_of_the_provider(made: inputs.Inputs, entry: Callable[[str], Entry]) -> None:
    with pytest.raises(Exception, match="RateLimitError: the provider is busy"):
        weekly(made, entry, "2026-W46")


def test_nothing_of_a_script_is_left_behind() -> None:
    assert _call.current() is None
