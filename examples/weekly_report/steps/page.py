"""Facts as text for the prompt, and the finished report as a page."""

from pathlib import Path

OUTPUT = Path("/tmp/output")
NAME = "weekly.md"


def facts_as_text(facts):
    """The facts, one a line."""
    authors = ", ".join(f"{name} ({count})" for name, count in facts["authors"].items()) or "nobody"
    lines = [
        f"commits: {facts['commits']}",
        f"authors: {authors}",
        f"closed to-dos: {len(facts['closed'])}{_listed(facts['closed'])}",
        f"open to-dos: {facts['open']}",
        f"overdue to-dos: {len(facts['overdue'])}",
    ]
    lines += [f"overdue: {todo['id']} {todo['title']} (owner {todo['owner']})" for todo in facts["overdue"]]
    lines += [f"commit: {subject}" for subject in facts["subjects"]]
    lines += [f"unreleased change: {change}" for change in facts["changes"]]
    return "\n".join(f"- {line}" for line in lines)


def write_page(week, facts, prose):
    """Write the report and return its name below the output folder."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    lines = [f"# {prose['title']}", "", f"Week {week.name}: {week.monday} to {week.sunday}", "", prose["summary"], ""]
    lines += ["## Highlights", "", *(f"- {line}" for line in prose["highlights"]), ""]
    if prose["risks"]:
        lines += ["## Risks", "", *(f"- {line}" for line in prose["risks"]), ""]
    lines += ["## Facts", "", facts_as_text(facts), ""]
    (OUTPUT / NAME).write_text("\n".join(lines), encoding="utf-8")
    return NAME


def _listed(names):
    return f" ({', '.join(names)})" if names else ""
