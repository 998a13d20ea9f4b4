"""Runs the behaviour tests of packages in a plain pytest session, as their authors may: no cell, no gate, same module names.

The gate is the authority; this shows that `cloche.testing` works without one and finds broken examples in seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGES = ("requirements_parse", "dependency_review", "log_triage", "weekly_report")
"""The example packages, each after what it depends on."""


def copy_packages(packages: list[Path], destination: Path) -> Path:
    """Put package directories side by side as `workflows/<id>` below `destination`, importable from there; returns it."""
    workflows = destination / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "__init__.py").touch()
    for package in packages:
        copied = shutil.copytree(package, workflows / package.name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        (copied / "tests" / "__init__.py").touch()
    return destination


OUTPUT = Path("/tmp/output")
"""Where packages write, in a cell and here: one place of the machine, on which each session gets a folder of its own mounted."""

_PRIVATELY = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


def run_tests(root: Path, *workflow_ids: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """pytest over packages below `root`, without any configuration of the surroundings. Exit status 0: all passed.

    Needs util-linux (`unshare`) and, for ordinary users, user namespaces.
    """
    OUTPUT.mkdir(exist_ok=True)
    own = ["--user", "--map-root-user"] if os.geteuid() else []
    command = [
        *(
            "unshare",
            "--mount",
            *own,
            "sh",
            "-c",
            _PRIVATELY,
            "sh",
            tempfile.mkdtemp(prefix="output-", dir=root),
            str(OUTPUT),
        ),
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "--rootdir",
        str(root),
    ]
    tests = [str(root / "workflows" / workflow_id / "tests") for workflow_id in workflow_ids]
    return subprocess.run([*command, *tests], cwd=root, capture_output=True, text=True, timeout=timeout_s, check=False)


def replace_entry(root: Path, workflow_id: str) -> None:
    """Make the entry of a copied package raise, as the gate does when it looks for evidence of exercise."""
    entry = root / "workflows" / workflow_id / "workflow.py"
    entry.write_text(f"def {workflow_id}(task):\n    raise RuntimeError('replaced')\n")
