"""Gate cases and probe attempts in a cell without a container, and how pytest's and the child's words are judged."""

import json
from types import SimpleNamespace

import pytest
from cloche_guest.cases import judge
from cloche_guest.gate import Listener, decide

from engine.sandbox.frames import CaseResult
from engine.sandbox.jobs import Case, GateJob, ProbeJob
from tests.helpers.guest_cell import guest_cell

WORKFLOW = """
from cloche import llm, emit
from workflows.dep import dep
from .steps.shape import shape
def demo(task):
    return shape(task) + dep(task)
def ask():
    try:
        return llm("x")
    except BaseException:
        return "caught"
"""
FILES = {
    "workflows/demo/__init__.py": "from .workflow import demo\n",
    "workflows/demo/workflow.py": WORKFLOW,
    "workflows/demo/steps/shape.py": "def shape(task):\n    return [task]\n",
    "workflows/dep/__init__.py": "from .workflow import dep\n",
    "workflows/dep/workflow.py": "def dep(task):\n    return ['dep']\n",
}


def gate(tests, cases, *, files=FILES, more=None, replace=False, timeout_s=30.0, deadline_s=120.0):
    """Outcomes in order: (outcome, entered), and the cell."""
    listed = tuple(Case(*case) for case in cases)
    job = GateJob("demo", listed, replace, deadline_s, timeout_s, 4096)
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(job, {**files, "workflows/demo/tests/test_workflow.py": tests, **(more or {})})
        cell.end = cell.to_end(timeout_s=150)
        assert cell.leave() == 0, cell.stderr()
    found = cell.of(CaseResult)
    assert [report.case for report in found] == list(range(len(found)))
    return found, cell


def one(body, *, cls="", function="test_it", index=0, total=1, **options):
    found, _ = gate(body, [("tests/test_workflow.py", cls, function, index, total)], **options)
    return found[0]


PASSING = """
import pytest
from workflows.demo import demo as from_package
from ..workflow import demo as from_module
from ..steps.shape import shape
def test_package(): assert from_package("a") == ["a", "dep"]
def test_module(): assert from_module("a") == ["a", "dep"]
def test_step(own): assert shape(own) == ["fixture"]
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("m", ["x", "y"])
def test_many(n, m): print("seen", n, m)
class TestGroup:
    def test_inner(self, tmp_path):
        (tmp_path / "x").write_text("x")
"""
CONFTEST = "import pytest\n@pytest.fixture\ndef own(): return 'fixture'\ndef pytest_runtest_makereport(item): raise SystemExit\n"


@pytest.mark.parametrize("replace", [False, True])
def test_each_case_is_run_by_itself_and_calling_the_entry_is_seen(replace):
    file = "tests/test_workflow.py"
    cases = [(file, "", "test_package", 0, 1), (file, "", "test_module", 0, 1), (file, "", "test_step", 0, 1)]
    cases += [(file, "", "test_many", 3, 4), (file, "TestGroup", "test_inner", 0, 1)]
    found, cell = gate(PASSING, cases, more={"workflows/demo/tests/conftest.py": CONFTEST}, replace=replace)
    entry = ("failed" if replace else "passed", True)
    assert [(r.outcome, r.entered) for r in found] == [entry, entry, *[("passed", False)] * 3], found
    assert found[3].output == "seen 2 y\n"
    assert ("EntryReplaced" in found[0].detail) is replace
    assert (cell.end.cause, cell.end.detail) == ("exit", "returned")


OUTCOMES = [
    ("def test_it():\n    x = [1, 2]\n    assert x == [1, 3]", "failed", "At index 1 diff: 2 != 3"),
    ("import pytest\ndef test_it(): pytest.skip('later')", "failed", "later"),
    ("import pytest\n@pytest.fixture\ndef f(): pytest.skip('later')\ndef test_it(f): pass", "failed", "later"),
    ("import pytest\n@pytest.mark.skip(reason='why')\ndef test_it(): pass", "skipped", "why"),
    ("import pytest\n@pytest.mark.xfail\ndef test_it(): assert 0", "failed", "xfail"),
    ("import pytest\n@pytest.mark.xfail\ndef test_it(): pass", "failed", "xfail"),
    ("import pytest\n@pytest.fixture\ndef f(): 1/0\ndef test_it(f): pass", "error", "ZeroDivisionError"),
    ("import pytest\n@pytest.fixture\ndef f():\n    yield\n    1/0\ndef test_it(f): pass", "error", "ZeroDivisionError"),
    ("def test_it(missing): pass", "error", "fixture 'missing' not found"),
    ("def test_it(: pass", "not_collected", "SyntaxError"),
    ("import nothing_here\ndef test_it(): pass", "not_collected", "nothing_here"),
    ("def test_other(): pass", "not_collected", "0 cases"),
    ("import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_it(n): pass", "not_collected", "2 cases"),
    ("import os\ndef test_it(): os._exit(0)", "crashed", "exit code 0"),
    ("import os\ndef test_it(): os.abort()", "crashed", "SIGABRT"),
    ("def test_it(): raise SystemExit(0)", "failed", "SystemExit"),
    ("def test_it():\n    while True: pass", "timeout", "still running"),
]  # fmt: skip


def test_outcomes():
    files = {f"workflows/demo/tests/test_{i}.py": body for i, (body, _, _) in enumerate(OUTCOMES)}
    cases = [(f"tests/test_{i}.py", "", "test_it", 0, 1) for i in range(len(OUTCOMES))]
    found, _ = gate("", cases, more=files, timeout_s=4.0)
    for report, (body, outcome, detail) in zip(found, OUTCOMES, strict=True):
        assert report.outcome == outcome, (body, report)
        assert detail in report.detail, (body, report)
        assert "/in/snapshot" not in report.detail


UNSCRIPTED = """
from cloche.testing import script, UnscriptedCall
from ..workflow import ask
def test_it():
    try:
        {body}
    except BaseException:
        pass
"""


def test_an_unscripted_call_fails_the_case_whatever_the_code_catches():
    bodies = ["assert ask() == 'caught'", "with script():\n            ask()"]
    files = {f"workflows/demo/tests/test_{i}.py": UNSCRIPTED.format(body=body) for i, body in enumerate(bodies)}
    found, _ = gate("", [(f"tests/test_{i}.py", "", "test_it", 0, 1) for i in range(2)], more=files)
    assert [report.outcome for report in found] == ["unscripted", "unscripted"]
    assert all(report.detail.startswith("llm() was called") for report in found)


def test_a_failure_ends_at_the_last_line_of_the_package():
    unused = one("from cloche.testing import script\ndef test_it():\n    with script(agent=['x']): pass")
    assert unused.outcome == "failed"
    assert "UnusedReplies: never asked for: agent" in unused.detail
    assert "cloche/testing.py" not in unused.detail
    report = one("import cloche\ndef test_it(): cloche.llm('x')")
    assert report.detail.splitlines()[0].startswith("llm() was called without a scripted reply")
    assert "workflows/demo/tests/test_workflow.py:2: in test_it" in report.detail.splitlines()[1]
    assert "_primitives.py" not in report.detail


def test_a_module_that_cannot_be_imported_leaves_its_own_error_only():
    report = one("import nothing_here\ndef test_it(): pass")
    assert (report.outcome, report.output) == ("not_collected", "")


def test_a_scripted_case_passes_and_sees_scopes():
    body = """
from cloche.testing import script, data
from workflows.demo import demo
def test_it():
    with script(llm=["yes"]) as calls:
        assert demo(data("a.txt").strip()) == ["a", "yes"]
    assert [c.scope for c in calls] == ["/dep[1]"]
"""
    dep = {"workflows/dep/workflow.py": "from cloche import llm\ndef dep(task):\n    return [llm('x')]\n"}
    report = one(body, more={**dep, "workflows/demo/tests/data/a.txt": "a\n"})
    assert (report.outcome, report.entered) == ("passed", True), report


def test_concurrent_code_runs_in_a_case_as_in_a_run():
    body = """
import asyncio
from cloche import agent_async, parallel
from cloche.testing import script
from workflows.demo import demo
from workflows.dep import dep
def test_it():
    async def main():
        await asyncio.sleep(3600)
        return await asyncio.gather(agent_async("x"), agent_async("y"))
    with script(llm=["yes", "no"], agent=["1", "2"]) as calls:
        assert parallel([lambda: demo("a"), lambda: dep("b")]) == [["a", "yes"], ["no"]]
        assert asyncio.run(main()) == ["1", "2"]
    place = "tests.test_workflow.test_it"
    assert [c.scope for c in calls] == [
        f"/parallel@{place}[1.1]/dep[1]", f"/parallel@{place}[1.2]/dep[1]",
        f"/task@{place}[1]/task@{place}._locals_.main[1]", f"/task@{place}[1]/task@{place}._locals_.main[2]",
    ]
def test_without_a_script_branches_still_run():
    assert parallel([lambda: 1, lambda: 2]) == [1, 2]
    assert asyncio.run(asyncio.sleep(0, 3)) == 3
"""
    dep = "from cloche import llm\ndef dep(task):\n    return [llm('x')]\n"
    more = {"workflows/dep/workflow.py": dep, "workflows/dep/__init__.py": "from .workflow import dep\n"}
    names = ("test_it", "test_without_a_script_branches_still_run")
    found, _ = gate(body, [("tests/test_workflow.py", "", name, 0, 1) for name in names], more=more)
    assert [report.outcome for report in found] == ["passed", "passed"], found


def test_nothing_of_one_case_is_left_for_the_next(tmp_path):
    body = """
import os, time, pathlib
def test_first():
    pathlib.Path("left").write_text("x")
    os.makedirs("deep" + "/d" * 50)
    for _ in range(1500):
        os.mkdir("e"); os.chdir("e")
    if os.fork() == 0:
        while True:
            time.sleep(0.01)
            pathlib.Path(%r).mkdir(exist_ok=True)
def test_second():
    time.sleep(0.1)
    assert os.listdir(".") == []
"""
    file = "tests/test_workflow.py"
    found, cell = gate(body % str(tmp_path / "left"), [(file, "", "test_first", 0, 1), (file, "", "test_second", 0, 1)])
    assert [r.outcome for r in found] == ["passed", "passed"], found
    assert cell.end.stragglers == 1


def test_output_of_a_case_is_bounded_and_readable():
    report = one(
        "import os\ndef test_it():\n    os.write(1, b'A\\xff' + b'x' * 1_000_000 + b'Z')\n    os.write(2, b'E')"
    )
    assert report.outcome == "passed"
    assert report.output.startswith("A\\xffx")
    assert report.output.endswith("xZE")
    assert "bytes cut]" in report.output
    assert len(report.output) < 5000


def test_a_cancelled_gate_ends_with_the_cases_done_so_far():
    body = "def test_quick(): pass\ndef test_slow():\n    while True: pass\n"
    cases = tuple(Case("tests/test_workflow.py", "", name, 0, 1) for name in ("test_quick", "test_slow"))
    with guest_cell() as cell:
        cell.greet()
        files = {**FILES, "workflows/demo/tests/test_workflow.py": body}
        cell.deliver(GateJob("demo", cases, False, 60.0, 50.0, 4096), files)
        assert cell.until(CaseResult).outcome == "passed"
        cell.link.send_cancel("asked")
        assert cell.to_end().cause == "cancelled"
        assert len(cell.of(CaseResult)) == 1


def test_an_attempt_that_returns_got_through_and_one_that_raises_was_stopped():
    files = {
        "probes/through.py": "def attempt():\n    return 'how'\n",
        "probes/stopped.py": "def attempt():\n    raise PermissionError('no')\n",
        "probes/broken.py": "def attempt(:\n",
        "probes/dies.py": "import os\ndef attempt():\n    os._exit(3)\n",
    }
    names = ("through", "stopped", "broken", "missing", "dies")
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(ProbeJob(names, 30.0, 5.0, 4096), files)
        cell.to_end()
    found = [(r.outcome, r.detail) for r in cell.of(CaseResult)]
    assert found[:2] == [("passed", "how"), ("failed", "PermissionError: no")]
    assert [outcome for outcome, _ in found[2:]] == ["not_collected", "not_collected", "crashed"]


# judging, without a cell


def heard(*said):
    listener = Listener()
    for message in said:
        listener.feed(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
    return listener


PASSED = {"t": "outcome", "outcome": "passed", "detail": ""}


@pytest.mark.parametrize(
    ("said", "status", "outcome"),
    [
        ([PASSED], 0, "passed"),
        ([PASSED], 1, "crashed"),
        ([PASSED], -9, "crashed"),
        ([PASSED], None, "timeout"),
        ([], 0, "crashed"),
        ([{"t": "unscripted", "fn": "llm"}, PASSED], 0, "unscripted"),
        ([PASSED, {"t": "unscripted", "fn": "llm"}], None, "unscripted"),
        ([PASSED, {"t": "outcome", "outcome": "failed", "detail": "x"}, PASSED], 0, "failed"),
        ([{"t": "outcome", "outcome": "wonderful", "detail": ""}], 0, "crashed"),
        ([b"nonsense\n", b"x" * 1_000_000, b"\n", PASSED], 0, "passed"),
    ],
    ids=range(10),
)
def test_the_worst_that_a_child_said_counts(said, status, outcome):
    assert decide(heard(*said), status=status, timeout_s=1)[0] == outcome


def phase(when, outcome):
    return SimpleNamespace(
        when=when, failed=outcome == "failed", skipped=outcome == "skipped", longreprtext="", longrepr=""
    )


def test_a_case_whose_phases_are_incomplete_is_an_error():
    whole = [phase("setup", "passed"), phase("call", "passed"), phase("teardown", "passed")]
    assert judge(whole, skip_is_marked=False) == ("passed", "")
    for reports in ([], whole[:1], whole[1:], [whole[0], whole[2]], [*whole, *whole]):
        assert judge(reports, skip_is_marked=False)[0] == "error"
