"""Promises about packages that belong to no single rule: whole lists, the form of the answer, and what validation leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.package.freeze import freeze, freeze_files
from engine.package.validate import validate
from engine.proc import run
from engine.settings import tool_environment
from tests.helpers.package_cases import BASE, BASE_ID, PackageCase, files_of, package_cases
from tests.helpers.publishing import Publisher

TAKEN = [
    *("class", "lambda", "async", "not"),
    *("search_workflows", "create_workflow", "revise_workflow", "auto_workflow", "resume_workflow", "run_task_list"),
    *("run_agentic_workflow", "agentic_workflow", "workflow", "workflows", "cloche"),
    *("llm", "agent", "now", "random", "new_id", "resource", "phase", "emit", "deliver", "agentic_function"),
]


def words(text: str) -> list[str]:
    return text.split()


STANDARD = words(
    """__future__ abc asyncio base64 bisect calendar collections collections.abc contextlib copy csv dataclasses datetime
    decimal difflib enum fnmatch fractions functools hashlib heapq html io itertools json logging math operator pathlib
    pprint re statistics string struct textwrap tomllib types typing unicodedata urllib.parse zlib zoneinfo"""
)
NAMES = words("__import__ eval exec compile globals locals vars open input breakpoint __builtins__")
ATTRIBUTES = words(
    """__subclasses__ __bases__ __base__ __mro__ __globals__ __code__ __closure__ __dict__ __getattribute__ __reduce__
    __reduce_ex__ __loader__ __spec__ __builtins__ tb_frame f_globals gi_frame"""
)


def rules_of(code: str) -> list[tuple[str, int]]:
    """Rule and line of what is wrong with the base package once this is the end of one of its modules."""
    files = files_of(BASE)
    files["steps/split.py"] += code.encode()
    first = len(files_of(BASE)["steps/split.py"].splitlines())
    return [(one.rule, (one.line or 0) - first) for one in validate(freeze_files(BASE_ID, files)).diagnostics]


@pytest.mark.parametrize("name", TAKEN)
def test_keywords_primitives_and_management_names_are_taken(name: str, tmp_path: Path) -> None:
    candidate = freeze(PackageCase("", BASE, {"workflow_id": name}).build(tmp_path))
    assert "identity.reserved" in {found.rule for found in validate(candidate).diagnostics}


def test_every_listed_standard_module_may_be_imported() -> None:
    files = files_of(BASE)
    lines = ["from __future__ import annotations", *(f"import {name}" for name in STANDARD if name != "__future__")]
    files["steps/split.py"] = "\n".join(lines).encode() + b"\n\n\n" + files["steps/split.py"]
    assert validate(freeze_files(BASE_ID, files)).diagnostics == ()


def test_every_listed_name_is_refused_where_it_is_loaded() -> None:
    code = "\n".join(f"def f_{at}():\n    return {name}" for at, name in enumerate(NAMES))
    assert rules_of(code + "\n") == [("name.refused", 2 * at + 2) for at in range(len(NAMES))]


def test_every_listed_attribute_is_refused() -> None:
    code = "\n".join(f"def f_{at}(x):\n    return x.{name}" for at, name in enumerate(ATTRIBUTES))
    assert rules_of(code + "\n") == [("name.attribute", 2 * at + 2) for at in range(len(ATTRIBUTES))]


def test_all_diagnostics_come_at_once_in_one_order() -> None:
    files = files_of(BASE)
    files["steps/split.py"] += b"import os\nimport sys\nprint(1)\n"
    files["setup.cfg"] = files["helpers/x.py"] = b"eval\n"
    files["README.md"] = b"\xff"
    backwards = dict(reversed(files.items()))
    first, second = (validate(freeze_files(BASE_ID, given)).to_dict() for given in (files, backwards))
    assert json.dumps(first) == json.dumps(second)
    found = validate(freeze_files(BASE_ID, files)).diagnostics
    places = [(one.file, one.line or 0, one.rule) for one in found]
    assert places == sorted(places)
    assert {rule for _, _, rule in places} >= {"import.unrecorded", "tree.unexpected", "text.utf8", "module.statement"}
    assert len([rule for _, _, rule in places if rule == "import.unrecorded"]) == 2


def test_a_validation_never_reads_like_a_passed_test() -> None:
    told = validate(freeze_files(BASE_ID, files_of(BASE))).to_dict()
    assert (told["ok"], told["executed_tests"], told["workflow_id"]) == (True, False, BASE_ID)
    assert {"metadata", "files"} <= told.keys()


WATCHER = """
import sys
from pathlib import Path
from engine.package.freeze import freeze
from engine.package.validate import validate
import cloche.programs
seen = []
def hook(event, arguments):
    path = str(arguments[0]) if arguments else ""
    if event == "open" and arguments[2] & 0b11:
        seen.append(f"writes {path}")
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "os.mkdir",
                 "os.remove", "os.rename", "os.chmod", "os.link", "os.symlink", "os.truncate"):
        seen.append(f"{event} {path}")
    if event == "import" and path.startswith("workflows"):
        seen.append(f"imports {path}")
    if event == "exec" and sys.argv[1] in getattr(arguments[0], "co_filename", ""):
        seen.append("executes")
sys.addaudithook(hook)
found = validate(freeze(Path(sys.argv[1])))
print(len(found.diagnostics), seen)
"""


def test_validation_writes_starts_imports_and_executes_nothing(tmp_path: Path) -> None:
    package = PackageCase("", BASE, {}).build(tmp_path)
    (package / "__init__.py").write_text(f"raise SystemExit('executed')\nfrom .workflow import {BASE_ID}\n")
    environment = {"PATH": "/nowhere", "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path / "home")}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    done = subprocess.run(
        [sys.executable, "-c", WATCHER, str(package)],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1 []\n"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_what_is_ignored_is_never_taken_along(tmp_path: Path) -> None:
    (case,) = (case for case in package_cases() if case.id == "tree.unexpected/fine_ignored")
    package = case.build(tmp_path)
    assert len(files_of(package)) > len(files_of(BASE))
    assert {file.path for file in freeze(package).files} == set(files_of(BASE))


def test_pins_are_written_under_the_other_spelling_and_nothing_else_changes(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    say = publisher.put("say")
    directory = publisher.write("top", imports=["say"])
    file = directory / "pyproject.toml"
    text = file.read_text().replace("cloche.workflows", "openprogram.workflows")
    file.write_text(text + "\n# kept\n[tool.openprogram]\npermissions = ['workspace.read']  # why\n")
    top = publisher.publish(directory)
    written = publisher.catalog.files("top", top.revision)
    pins = f'\n[tool.openprogram.workflow-dependencies]\nsay = "{say.revision}"\n'
    assert written.pop("pyproject.toml").decode() == file.read_text() + pins
    assert written == {path: data for path, data in files_of(directory).items() if path != "pyproject.toml"}
    assert publisher.services.snapshots.for_revision("top", top.revision).pins == {"say": say.revision}


def test_a_published_revision_that_breaks_a_later_rule_still_has_its_snapshot(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    publisher.put("say")
    code = "import os\n\n\ndef say(task):\n    return eval(task)\n"
    stream = (
        f"commit refs/heads/main\ncommitter x <x> 1 +0000\ndata 0\nfrom {publisher.catalog.head('say')}\n"
        f"M 100644 inline workflow.py\ndata {len(code)}\n{code}\n"
    )
    run(["git", "fast-import", "--quiet"], env=tool_environment(), cwd=publisher.project("say"), stdin=stream.encode())
    head = publisher.catalog.head("say")
    files = {path: bytes(data) for path, data in publisher.catalog.files("say", head).items()}
    assert not validate(freeze_files("say", files)).ok
    snapshot = publisher.services.snapshots.for_revision("say", head)
    assert b"import os" in (snapshot.path / "workflows" / "say" / "workflow.py").read_bytes()
