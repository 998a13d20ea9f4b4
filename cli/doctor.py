"""`cloche doctor`: what is there and what is missing."""

from __future__ import annotations

from cli import output
from cli.app import Json, application, awaited

MARKS = {"ok": "✓", "missing": "✗", "absent": "-"}


def doctor(as_json: Json = False) -> int:
    """Find out by trying whether cells can run here, and say what to do for each thing missing; exit 3 if one is."""
    with application(as_json=as_json) as app:
        found = awaited(app.doctor)
        missing = [finding for finding in found if finding.state == "missing"]
        if output.mode.json:
            output.data({"ok": not missing, "findings": [finding.to_dict() for finding in found]})
            return 3 if missing else 0
        for finding in found:
            output.line(f"{MARKS[finding.state]} {finding.name:8} {finding.detail}")
            if finding.fix:
                output.line(f"  {'':8} → {finding.fix}")
        return 3 if missing else 0
