"""What a test run says of itself first."""

from __future__ import annotations

from tests.helpers import runtimes


def pytest_report_header() -> str:
    """Which runtimes cells are tried under, and how to get the other one."""
    if "runsc" in runtimes.tried():
        return f"cells: under runc, and under runsc on {runtimes.GVISOR_HOST}"
    return "cells: under runc alone, because no engine with gVisor runs; `make gvisor-engine` starts one"
