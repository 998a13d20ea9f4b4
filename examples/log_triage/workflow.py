"""Entry: read the logs of the workspace, group their errors, rank the groups."""

from cloche import CallError, deliver, emit, phase
from cloche.programs import glob

from .helpers.groups import Groups
from .steps.report import ranked, write_report
from .steps.scan import scan


def log_triage(task):
    """Ranked groups of errors in the log files that match the pattern in `task`; see README.md for the shapes."""
    pattern = task or "**/*.log"
    found = glob(pattern)
    if not found["items"]:
        raise ValueError(f"no file of the workspace matches {pattern!r}")
    groups = Groups()
    unreadable = []
    with phase("read"):
        for path in found["items"]:
            try:
                scan(path, groups)
            except CallError as error:
                unreadable.append({"path": path, "reason": str(error)})
            emit({"read": path, "errors": groups.errors})
    result = {
        "files": len(found["items"]) - len(unreadable),
        "bytes": groups.bytes,
        "lines": groups.lines,
        "errors": groups.errors,
        "shapes": len(groups),
        "other": groups.other,
        "unparsed": groups.unparsed,
        "top": ranked(groups),
        "unreadable": unreadable,
        "more_files": found["more"],
    }
    with phase("report"):
        deliver(write_report(result))
    return result
