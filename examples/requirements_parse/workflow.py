"""Entry: text of a requirements or lock file in, requirements out."""

from cloche import emit

from .steps.logical import logical_lines
from .steps.requirement import parse_requirement


def requirements_parse(task):
    """The requirements, options and unreadable lines of one file's text; see README.md for the shapes."""
    text = task.get("text") if isinstance(task, dict) else task
    if not isinstance(text, str):
        raise TypeError(f"task is the text of a requirements file or {{'text': …}}, not {type(task).__name__}")
    found = {"requirements": [], "options": [], "problems": []}
    for number, line in logical_lines(text):
        if line.startswith("-"):
            found["options"].append({"line": number, "text": line})
            continue
        requirement, reason = parse_requirement(line)
        if requirement is None:
            found["problems"].append({"line": number, "text": line[:200], "reason": reason})
        else:
            found["requirements"].append({"line": number, **requirement})
    emit({"requirements": len(found["requirements"]), "problems": len(found["problems"])})
    return found
