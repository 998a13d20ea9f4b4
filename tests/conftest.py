"""What a test run says of itself first, and under which runtimes its cells are tried."""

from __future__ import annotations

import pytest

from engine.sandbox.policy import Runtime
from tests.helpers import runtimes


def pytest_report_header() -> str:
    """Which runtimes cells are tried under, and how to get the other one."""
    if "runsc" in runtimes.tried():
        return f"cells: under runc, and under runsc on {runtimes.GVISOR_HOST}"
    return "cells: under runc alone, because no engine with gVisor runs; `make gvisor-engine` starts one"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked `both_runtimes` once for each; through the fixture, so that what stands on it is made anew for each."""
    marks = (mark.name for mark in metafunc.definition.iter_markers())  # a test's own before those of its module
    closest = next((name for name in marks if name in ("both_runtimes", "runc_only")), "")
    if closest == "both_runtimes" and "runtime" in metafunc.fixturenames:
        metafunc.parametrize("runtime", runtimes.tried(), scope="session", indirect=True)


@pytest.fixture(scope="session")
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """The OCI runtime of cells."""
    chosen: Runtime = getattr(request, "param", "runc")
    return chosen
