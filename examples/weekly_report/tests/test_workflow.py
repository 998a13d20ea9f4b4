from pathlib import Path

import pytest
from cloche import CallError
from cloche.testing import script

from .. import weekly_report

COMMITS = (
    "a1\t2026-11-22\tAnna\tBefore the week\n"
    "a2\t2026-11-23\tAnna\tAdd retries to the client\n"
    "a3\t2026-11-29\tBen\tDrop Python 3.10\n"
    "a4\t2026-11-30\tBen\tAfter the week\n"
)
CHANGELOG = "# Changes\n\n## Unreleased\n\n- Retries with\n  a limit\n\n## 1.0\n\n- Old\n"
TODO = (
    "id,title,owner,status,due,closed\n"
    "T-1,Write docs,Anna,done,2026-11-27,2026-11-26\n"
    'T-2,"Renew, certificate",Ben,open,2026-11-29,\n'
    "T-3,Plan offsite,Anna,open,2026-12-24,\n"
    "T-4,Closed later,Ben,done,2026-12-01,2026-11-30\n"
)
FILES = {"commits.txt": COMMITS, "CHANGELOG.md": CHANGELOG, "todo.csv": TODO}
FACTS = {
    "commits": 2,
    "authors": {"Anna": 1, "Ben": 1},
    "subjects": ["Add retries to the client", "Drop Python 3.10"],
    "changes": ["Retries with a limit"],
    "closed": ["T-1"],
    "open": 3,
    "overdue": [{"id": "T-2", "title": "Renew, certificate", "owner": "Ben"}],
}
PROSE = {
    "title": "Week 48 of 2026",
    "summary": "There were 2 commits; 1 to-do was closed, 3 are open and 1 is overdue.",
    "highlights": ["Support for Python 3.10 was dropped."],
    "risks": ["T-2, the certificate, is overdue."],
}


def test_the_report_holds_the_facts_of_the_week_and_the_checked_prose():
    with script(workspace=FILES, agent=[PROSE]) as calls:
        result = weekly_report("2026-W48")
    assert result == {"week": "2026-W48", "facts": FACTS, "prose": PROSE}
    asked = calls.of("agent")[0]
    assert (asked.label, asked.phase) == ("prose for 2026-W48", ("write",))
    assert "- overdue: T-2 Renew, certificate (owner Ben)" in asked.arguments["prompt"]
    assert "After the week" not in asked.arguments["prompt"]
    assert [call.arguments for call in calls.of("deliver")] == [{"path": "weekly.md"}, {"result": result}]
    page = Path("/tmp/output/weekly.md").read_text(encoding="utf-8")
    assert page.startswith("# Week 48 of 2026\n\nWeek 2026-W48: 2026-11-23 to 2026-11-29\n")
    assert "- commits: 2" in page


@pytest.mark.parametrize(
    ("prose", "why"),
    [
        (PROSE | {"highlights": ["Throughput rose by 40 percent."]}, "the number 40 is in no fact"),
        (PROSE | {"title": "Week 48 of 2026, 2.5 times faster"}, "the number 2.5 is in no fact"),
        (
            PROSE | {"summary": "1 to-do was closed, 3 are open and 1 is overdue."},
            r"number of commits \(2\) is not mentioned",
        ),
        (PROSE | {"risks": ["The certificate is overdue."]}, "the overdue to-do T-2 is not mentioned"),
        (PROSE | {"risks": ["T-22 is overdue."]}, "the overdue to-do T-2 is not mentioned"),
    ],
)
def test_a_reply_that_contradicts_the_facts_fails_the_report(prose, why):
    with script(workspace=FILES, agent=[prose]) as calls, pytest.raises(ValueError, match=why):
        weekly_report("2026-W48")
    assert calls.of("deliver") == []


def test_a_failed_model_fails_the_report_with_the_original_error():
    with (
        script(workspace=FILES, agent=[TimeoutError("no answer")]),
        pytest.raises(CallError, match="TimeoutError: no answer"),
    ):
        weekly_report("2026-W48")


def test_a_week_in_which_nothing_happened_is_reported_too():
    prose = {
        "title": "A quiet week",
        "summary": "0 commits, 0 closed, 0 open, 0 overdue.",
        "highlights": ["None."],
        "risks": [],
    }
    empty = {"commits.txt": "", "CHANGELOG.md": "", "todo.csv": "id,title,owner,status,due,closed\n"}
    with script(workspace=empty, agent=[prose]):
        assert weekly_report("2026-W01")["facts"]["commits"] == 0


def test_a_broken_line_of_the_commit_list_is_named():
    with script(workspace={**FILES, "commits.txt": COMMITS + "oops\n"}), pytest.raises(ValueError, match=r"line 5"):
        weekly_report("2026-W48")


def test_a_missing_file_fails_with_its_name():
    with script(workspace={"todo.csv": ""}), pytest.raises(CallError, match=r"commits\.txt"):
        weekly_report("2026-W48")


@pytest.mark.parametrize("task", ["", "last week", "2026-W60", "2026W48", None])
def test_a_task_that_is_no_week_is_refused(task):
    with script(), pytest.raises(ValueError):
        weekly_report(task)
