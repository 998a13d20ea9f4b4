"""Entry: find the requirements files of the workspace, read them, compare them."""

from cloche import CallError, deliver, phase
from workflows.requirements_parse import requirements_parse

from .steps.compare import across_files, within_file
from .steps.gather import requirement_files, whole_text


def dependency_review(task):
    """Findings over all requirements files that match the pattern in `task`; see README.md for the shapes."""
    files, unreadable = [], []
    with phase("read"):
        for path in requirement_files(task or "**"):
            try:
                text = whole_text(path)
            except CallError as error:
                unreadable.append({"path": path, "line": 0, "reason": str(error)})
                continue
            parsed = requirements_parse({"text": text})
            unreadable += [{"path": path, "line": p["line"], "reason": p["reason"]} for p in parsed["problems"]]
            files.append({"path": path, "requirements": parsed["requirements"]})
    if not files and not unreadable:
        raise ValueError(f"no requirements, constraints or lock file matches {task or '**'!r}")
    findings = [finding for file in files for finding in within_file(file)] + across_files(files)
    result = _result(files, findings, unreadable)
    with phase("deliver"):
        deliver(result=result)
    return result


def _result(files, findings, unreadable):
    findings = sorted(findings, key=lambda f: (f["kind"], f["package"], [(w["path"], w["line"]) for w in f["where"]]))
    counts = {}
    for finding in findings:
        counts[finding["kind"]] = counts.get(finding["kind"], 0) + 1
    return {
        "ok": not findings,
        "files": [
            {"path": file["path"], "requirements": len(file["requirements"]), "lock": file["lock"]} for file in files
        ],
        "counts": counts,
        "findings": findings,
        "unreadable": unreadable,
    }
