"""The probe's packages: each would be published although a test of it must not pass, and the gate has to refuse it.

A file of `sandbox_images/probes/packages` is the test module of one; the rest of the package is written here. The control is a
plain pytest in the unprotected container, whose exit status says that the same package passed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from engine.catalog.repos import Catalog
from engine.catalog.snapshots import Snapshots
from engine.gate.cells import GateCell
from engine.gate.checks import EvidenceMissing, TestsFailed
from engine.gate.publish import Services, gate_directory
from engine.gate.report import CaseReport, GateReport
from engine.package.contract import Severity
from engine.package.validate import InvalidCandidate
from engine.sandbox.at_once import at_once
from engine.sandbox.attempts import Attempt, select
from engine.sandbox.bait import laid_out
from engine.sandbox.cell import open_cell
from engine.sandbox.control import in_control
from engine.sandbox.policy import CellPolicy, Runtime
from engine.sandbox.probe_report import ProbeRow, Said, judged

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

Change = Callable[[CellPolicy], CellPolicy]

GATES: Final = 3
"""So many gates at once; a runner of tests is mostly busy."""

GATE_S: Final = 60.0
ATTACKER: Final = "test_aa_"
"""What such a case makes of itself is its own affair; what becomes of the others counts."""

_ENTRY = 'def say(task):\n    return f"{task}!"\n'
_FILES: Final = {
    "pyproject.toml": '[project]\nname = "say"\nversion = "1.0"\ndescription = "Says something."\nkeywords = ["say"]\n\n'
    '[project.entry-points."cloche.workflows"]\nsay = "workflows.say:say"\n',
    "README.md": "# say\n\nSays something.\n",
    "__init__.py": "from .workflow import say\n",
    "steps/__init__.py": "",
    "steps/spoken.py": "def spoken(text):\n    return text\n",
}


async def probe_packages(
    sandbox: Sandbox,
    *,
    image_id: str,
    runtime: Runtime | None = None,
    chosen: Iterable[Attempt] | None = None,
    change: Change = lambda policy: policy,
    progress: Callable[[str], None] | None = None,
) -> tuple[ProbeRow, ...]:
    """Gate every attempt of kind `package` (or those of that kind in `chosen`), and run it with a plain pytest in the control.

    `change` is applied to the policy of each cell: a test takes a protection away and sees an attempt get through.

    Raises:
        SandboxError: there was no cell, or no unprotected container.
    """
    used = runtime or await sandbox.choose_runtime(image_id)
    among = select() if chosen is None else chosen
    made = tuple(one for one in among if one.kind == "package" and one.applies(used))
    if not made:
        return ()
    if progress:
        progress(f"{len(made)} packages in the gate, and with a plain pytest in an unprotected container")
    with laid_out(sandbox.settings.home, made) as bait:
        for one in made:
            _write(bait.snapshot / "packages" / one.name / "workflows", one)
        services = _services(
            sandbox, bait.folder / "home", _Cells(sandbox, image_id, change(sandbox.policy("gate", used)))
        )
        candidates = bait.snapshot / "packages"
        gates = [partial(_in_gate, candidates / one.name / "workflows" / "say", services) for one in made]
        names = [one.name for one in made]
        control = partial(in_control, sandbox, names, bait, image_id, script="_packages_control.py")
        said, controls = await at_once(
            [partial(at_once, gates, most=GATES), partial(to_thread.run_sync, control)], most=2
        )
    lost = Said(False, "missing", "no outcome was reported")
    return tuple(
        judged(one, runtime=used, cell=cell, control=controls.get(one.name, lost))
        for one, cell in zip(made, said, strict=True)
    )


@dataclass(frozen=True)
class _Cells:
    """A GateCellFactory of cells that nobody prepared."""

    sandbox: Sandbox
    image_id: str
    policy: CellPolicy

    def __call__(self) -> AbstractAsyncContextManager[GateCell]:
        return open_cell(self.sandbox, image_id=self.image_id, kind="gate", deadline_s=GATE_S, policy=self.policy)


def _services(sandbox: Sandbox, home: Path, cells: _Cells) -> Services:
    """A catalog of their own, thrown away with everything else."""
    catalog = Catalog(home)
    settings = sandbox.settings.model_copy(update={"require_evidence": True, "gate_timeout_s": GATE_S})
    return Services(catalog, Snapshots(home, catalog), cells, settings, sandbox.clock)


def _write(workflows: Path, attempt: Attempt) -> None:
    given = _texts(attempt)
    files = {
        **_FILES,
        "workflow.py": given.get("ENTRY", _ENTRY),
        "tests/__init__.py": "",
        "tests/test_workflow.py": attempt.source.decode(),
    }
    if "CONFTEST" in given:
        files["tests/conftest.py"] = given["CONFTEST"]
    for path, text in files.items():
        file = workflows / "say" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (workflows / "__init__.py").touch()


def _texts(attempt: Attempt) -> Mapping[str, str]:
    return {
        target.id: ast.literal_eval(node.value)
        for node in ast.parse(attempt.source).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("ENTRY", "CONFTEST")
    }


async def _in_gate(directory: Path, services: Services) -> Said:
    """What refused the package; the rule, the outcomes that stand in its way, or what it lacks.

    Raises:
        SandboxError: nothing is known of it.
    """
    try:
        await gate_directory(directory, services=services)
    except InvalidCandidate as error:
        rules = sorted({found.rule for found in error.diagnostics if found.severity is Severity.error})
        return Said(False, ", ".join(rules), error.message)
    except TestsFailed as error:
        return said_of(error.report)
    except EvidenceMissing as error:
        return Said(False, error.code, error.report.evidence.detail)
    return Said(True, "", "the gate passed it")


def said_of(report: GateReport) -> Said:
    """The outcomes of the cases that did not pass. A case that must not pass and did is through, whatever else failed."""
    detail = "; ".join([*(f"{_name(case)} {case.outcome}" for case in report.cases), *report.problems])
    if any(_name(case).startswith("test_victim") and case.outcome == "passed" for case in report.cases):
        return Said(True, "", detail)
    failing = [case for case in report.cases if not case.ok]
    others = [case for case in failing if not _name(case).startswith(ATTACKER)] or failing
    return Said(False, ", ".join(sorted({case.outcome for case in others} | set(report.problems))), detail)


def _name(case: CaseReport) -> str:
    return case.id.rpartition("::")[2]
