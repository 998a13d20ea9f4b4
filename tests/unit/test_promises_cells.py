"""Promises about cells and the gate that belong to no single part: defaults, destruction, and what the guest is made of."""

from __future__ import annotations

import ast
import socket
import sys
from pathlib import Path

import cloche_guest

from engine.sandbox.docker import Engine
from engine.sandbox.frames import CaseResult
from engine.sandbox.jobs import Case, GateJob
from engine.sandbox.policy import CellPolicy
from engine.sandbox.protections import protections
from engine.settings import Settings
from tests.helpers.fake_engine import after_version, answer, fake_engine
from tests.helpers.guest_cell import guest_cell

MIB = 1024 * 1024
DEFAULTS = {
    "gate_timeout_s": 120,
    "run_active_s": 3600,
    "run_total_s": 24 * 3600,
    "memory_bytes": 512 * MIB,
    "cpus": 1,
    "processes": 128,
    "tmp_bytes": 64 * MIB,
    "open_files": 256,
    "file_bytes": 32 * MIB,
    "output_bytes": 8 * MIB,
    "output_files_bytes": 64 * MIB,
    "output_files": 1000,
    "value_bytes": 64 * MIB,
    "cap": 40,
    "runtime": "auto",
    "require_evidence": False,
}


def test_the_defaults_are_those_that_were_promised(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS
    limits = CellPolicy.from_settings(settings, "runc", "run").limits
    assert (limits.message_bytes, limits.value_bytes) == (MIB, 64 * MIB)


def test_a_container_is_killed_waited_for_removed_and_looked_for_and_never_asked_to_stop() -> None:
    asked: list[str] = []
    labelled = {"Id": "x", "Config": {"Labels": {"io.cloche.home": "h"}}, "State": {"Running": True}}

    def behave(connection: socket.socket, request: bytes) -> None:
        verb, path, _ = request.split(b"\r\n")[0].decode().split(" ")
        asked.append(f"{verb} {path.partition('?')[0].partition('/containers/')[2]}")
        removed = "DELETE x" in asked
        if verb == "DELETE" or path.endswith("kill"):
            answer({}, "204 No Content")(connection, request)
        elif "/wait" in path:
            answer({"StatusCode": 137})(connection, request)
        elif removed and asked.count("GET x/json") > asked.index("DELETE x") + 1:
            answer({"message": "No such container: x"}, "404 Not Found")(connection, request)
        else:
            answer(labelled)(connection, request)

    with fake_engine(after_version(behave)) as host:
        Engine(host, timeout_s=60).destroy("x")
    acts = [one for one in asked if not one.startswith("GET")]
    assert acts == ["POST x/kill", "POST x/wait", "DELETE x"]
    assert asked[asked.index("DELETE x") + 1 :].count("GET x/json") >= 1
    assert not any("stop" in one for one in asked)


def test_the_description_of_a_policy_names_variables_and_never_their_values(tmp_path: Path) -> None:
    policy = CellPolicy.from_settings(Settings(home=tmp_path), "runc", "run").with_environment({"TOKEN": "s3cret"})
    told = "\n".join(f"{rule.protection} {rule.value} {rule.enforced_by} {rule.note}" for rule in protections(policy))
    assert "TOKEN" in told
    assert "s3cret" not in told


def test_the_guest_is_made_of_the_standard_library() -> None:
    place = Path(cloche_guest.__file__).parent
    imported: dict[str, set[str]] = {}
    for path in place.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                imported.setdefault(name.partition(".")[0], set()).add(path.name)
    foreign = imported.keys() - set(sys.stdlib_module_names) - {"cloche", "cloche_guest"}
    assert {name: imported[name] for name in foreign} == {"pytest": {"cases.py"}, "_pytest": {"cases.py"}}


FILES = {
    "workflows/demo/__init__.py": "from .workflow import demo\n",
    "workflows/demo/workflow.py": "def demo(task):\n    return task\n",
    "workflows/demo/pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--nonsense'\npython_functions = ['never_*']\n",
    "pytest.ini": "[pytest]\naddopts = --nonsense\n",
    "workflows/demo/tests/test_workflow.py": """
def test_it(request):
    assert not request.config.inicfg
    assert not request.config.pluginmanager.list_plugin_distinfo()
    assert not request.config.pluginmanager.has_plugin("anyio")
""",
}


def test_configuration_and_plugins_of_the_surroundings_have_no_effect_on_the_gate() -> None:
    job = GateJob("demo", (Case("tests/test_workflow.py", "", "test_it", 0, 1),), False, 60.0, 30.0, 4096)
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(job, FILES)
        cell.to_end(timeout_s=60)
    (report,) = cell.of(CaseResult)
    assert report.outcome == "passed", report.detail
