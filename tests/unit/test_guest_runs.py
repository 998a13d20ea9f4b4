"""Runs in a cell without a container: what the supervisor and the worker say to the host's real exchange."""

import os
import signal
import subprocess
import time

import pytest

from engine.sandbox.frames import Artifact, Call, End, Ready, Result
from engine.sandbox.jobs import RunJob
from tests.helpers.guest_cell import AT, LIMITS, NONCE, guest_cell
from tests.helpers.sandbox import wait_for


def package(body, name="demo", **more):
    return {
        f"workflows/{name}/__init__.py": f"from .workflow import {name}\n",
        f"workflows/{name}/workflow.py": body,
        **more,
    }


def job(task=None, *, deadline_s=60.0, entry="demo"):
    return RunJob(entry, task, "00ff", deadline_s)


def run(files, task=None, *, answer=lambda call: None, limits=LIMITS, deadline_s=60.0):
    """The cell after its last word, acknowledged and gone."""
    with guest_cell(limits=limits) as cell:
        cell.greet()
        cell.deliver(job(task, deadline_s=deadline_s), files)
        cell.end = cell.to_end(answer)
        assert cell.leave() == 0, cell.stderr()
    return cell


def result(cell):
    (found,) = cell.of(Result)
    return found


def test_hello_answers_the_nonce_with_what_the_supervisor_sees():
    with guest_cell() as cell:
        hello = cell.greet()
    assert hello.nonce == NONCE
    seen = hello.attestation
    assert seen["supervisor"]["pid"] == 1
    assert seen["worker"]["rlimits"]["nofile"] == [256, 256]
    assert seen["worker"]["rlimits"]["core"] == [0, 0]
    assert seen["environment"] == ["LC_CTYPE", "PATH"] or seen["environment"] == ["PATH"]
    assert {"point", "root", "options", "type", "source", "super_options"} == set(seen["mounts"][0])
    assert set(seen["worker"]["tried"].values()) <= {"ok", "EPERM", "EACCES", "EROFS", "ENOENT", "EAFNOSUPPORT", "EIO"}


def test_a_run_returns_what_the_entry_returned():
    cell = run(package("def demo(task):\n    return (task['a'] + 1, {2, 1})\n"), {"a": 1})
    assert result(cell).encoded == {"$tuple": [2, {"$set": [1, 2]}]}
    assert (cell.end.cause, cell.end.detail, cell.end.exit, cell.end.stragglers) == ("exit", "returned", 0, 0)
    assert cell.of(Ready)
    assert cell.end.usage["cpu_s"] > 0


CALLS = """
from cloche import llm, phase, CallError
from workflows.dep import dep
def demo(task):
    with phase("first"):
        a = llm("one")
    b = llm("two", model="m")
    return [a, b, dep(1), dep(2), llm("three")]
"""
DEPENDENCY = "from cloche import llm\ndef dep(task):\n    llm('in dep')\n    return llm('again')\n"


def test_calls_are_numbered_counted_by_scope_and_name_their_place():
    files = {**package(CALLS), **package(DEPENDENCY, "dep")}
    cell = run(files, answer=lambda call: f"{call.scope} {call.n}")
    calls = cell.of(Call)
    assert [call.number for call in calls] == [1, 2, 3, 4, 5, 6, 7]
    assert [(call.scope, call.n) for call in calls] == [
        ("/", 1), ("/", 2), ("/dep[1]", 1), ("/dep[1]", 2), ("/dep[2]", 1), ("/dep[2]", 2), ("/", 3),
    ]  # fmt: skip
    assert calls[0].phase == ("first",)
    assert calls[0].args == {"prompt": "one"}
    assert calls[0].site == "workflow.py:6"
    assert calls[2].site == "workflows/dep/workflow.py:3"
    assert result(cell).encoded == ["/ 1", "/ 2", "/dep[1] 2", "/dep[2] 2", "/ 3"]


def test_a_large_value_crosses_in_parts_both_ways():
    body = "from cloche import llm\ndef demo(task):\n    return llm(task * 300000)[::-1]\n"
    cell = run(package(body), 'a"日', answer=lambda call: call.args["prompt"])
    assert result(cell).encoded == ('a"日' * 300000)[::-1]


def test_a_large_task_crosses_as_a_file():
    cell = run(package("def demo(task):\n    return len(task)\n"), "x" * 1_000_000)
    assert result(cell).encoded == 1_000_000


FAILED = """
from cloche import llm, CallError
def helper():
    try:
        llm("x")
    except CallError as error:
        raise ValueError("no prose") {cause}
def demo(task):
    helper()
"""


@pytest.mark.parametrize(("cause", "calls"), [("from error", (1,)), ("", ())])
def test_a_failed_call_is_named_when_it_left_the_entry_by_cause_only(cause, calls):
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(job(), package(FAILED.format(cause=cause)))
        cell.until(Call)
        cell.link.send_error(1, type_name="ModelError", message="down", traceback="", at=AT)
        end = cell.to_end()
    assert (end.cause, end.detail, end.exit, end.calls) == ("exit", "raised", 1, calls)
    error = result(cell).error
    assert (error.type, error.message) == ("ValueError", "no prose")
    assert "CallError: ModelError: down" in error.traceback
    assert 'File "workflows/demo/workflow.py", line 7, in helper' in error.traceback
    assert "cloche_guest" not in error.traceback


def test_a_stop_ends_the_worker_without_an_answer():
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(job(), package("from cloche import llm\ndef demo(task):\n    llm('x')\n"))
        cell.until(Call)
        cell.link.send_stop(1, "capped")
        end = cell.to_end()
    assert (end.cause, end.detail) == ("exit", "stopped")
    assert not cell.of(Result)


def test_a_cancellation_ends_everything():
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(job(), package("def demo(task):\n    while True: pass\n"))
        cell.until(Ready)
        cell.link.send_cancel("asked")
        end = cell.to_end()
        assert cell.leave() == 0
    assert end.cause == "cancelled"


def test_the_deadline_holds_against_a_worker_that_ignores_signals_and_forks():
    body = """
import os, signal
def demo(task):
    for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
    for _ in range(20):
        if os.fork() == 0: break
    while True:
        os.kill(1, signal.SIGINT); os.kill(1, signal.SIGTERM)
"""
    cell = run(package(body), deadline_s=3.0)
    assert cell.end.cause == "deadline"
    assert cell.end.stragglers >= 20


def test_a_child_that_holds_stdout_delays_nothing_and_is_counted():
    body = """
import os, time
def demo(task):
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
    print("done")
    return 1
"""
    started = time.monotonic()
    cell = run(package(body))
    assert time.monotonic() - started < 20
    assert (cell.end.detail, cell.end.stragglers) == ("returned", 1)
    assert cell.output() == b"done\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("os._exit(137)", ("exit", "exited", 137)),
        ("os._exit(0)", ("exit", "exited", 0)),
        ("os.kill(os.getpid(), 9)", ("signal", "SIGKILL", 137)),
        ("os.kill(os.getpid(), 11)", ("signal", "SIGSEGV", 139)),
    ],
)
def test_an_end_without_a_result_says_how(code, expected):
    cell = run(package(f"import os\ndef demo(task):\n    {code}\n"))
    assert (cell.end.cause, cell.end.detail, cell.end.exit) == expected
    assert not cell.of(Result)


BAD_TEXT = """
class Bad(Exception):
    def __str__(self): 1/0
def demo(task):
    raise Bad
"""


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("def demo(task):\n    return object()\n", "UnrecordableValue", "object"),
        ("def demo(task):\n    return {'a': [1, print]}\n", "UnrecordableValue", "$.a[1]"),
        ("def demo(task:\n", "SyntaxError", "never closed"),
        ("import nothing_here\ndef demo(task): pass\n", "ModuleNotFoundError", "nothing_here"),
        ("def demo(task):\n    raise SystemExit(3)\n", "SystemExit", "3"),
        (BAD_TEXT, "workflows.demo.workflow.Bad", "could not"),
        ("def demo(task):\n    raise ValueError('\\ud800' + 'x' * 100000)\n", "ValueError", "\\ud800x"),
        ("def demo(task):\n    return demo(task)\n", "RecursionError", "recursion"),
    ],
    ids=range(8),
)  # fmt: skip
def test_what_left_the_entry_is_told_as_text(body, kind, message):
    cell = run(package(body))
    error = result(cell).error
    assert error.type == kind
    assert message in error.message
    assert len(error.message) <= 16 * 1024
    assert (cell.end.cause, cell.end.detail, cell.end.exit) == ("exit", "raised", 1)


def test_an_argument_that_cannot_be_recorded_is_refused_before_anything_is_sent():
    body = """
from cloche import emit
def demo(task):
    try:
        emit(object())
    except ValueError as error:
        return str(error)
"""
    cell = run(package(body))
    assert "cannot be recorded" in result(cell).encoded
    assert not cell.of(Call)


def test_a_value_that_is_too_large_is_refused_before_anything_is_sent():
    body = """
from cloche import emit, llm
def demo(task):
    told = []
    for call in (emit, llm):
        try:
            call("x" * (8 * 1024 * 1024))
        except ValueError as error:
            told.append(str(error))
    emit(told)
    return "x" * (8 * 1024 * 1024)
"""
    cell = run(package(body))
    (call,) = cell.of(Call)
    assert call.args["event"] == [
        f"$: takes {8 * 1024 * 1024 + len(name) + 7:,} bytes; a value has at most 8,388,608"
        for name in ("event", "prompt")
    ]
    error = cell.of(Result)[0].error
    told = "the result cannot be recorded: $: takes 8,388,610 bytes; a value has at most 8,388,608"
    assert (error.type, error.message) == ("UnrecordableValue", told)


def test_values_of_the_packages_own_classes_come_back_as_themselves():
    body = """
import dataclasses, enum
from cloche import emit, llm
class Level(enum.Enum):
    high = 1
@dataclasses.dataclass(frozen=True)
class Row:
    level: Level
def demo(task):
    back = llm("x")
    return [type(back) is Row, back == Row(Level.high)]
"""
    row = {"$data": ["workflows.demo.workflow:Row", {"level": {"$enum": ["workflows.demo.workflow:Level", "high"]}}]}
    assert result(run(package(body), answer=lambda call: row)).encoded == [True, True]


@pytest.mark.parametrize(
    "name", ["os:system", "workflows.demo.workflow:demo", "workflows.none:Row", "json:JSONDecoder"]
)
def test_a_reply_cannot_name_anything_but_a_packages_value_class(name):
    body = "from cloche import llm\ndef demo(task):\n    llm('x')\n"
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(job(), package(body))
        cell.until(Call)
        cell.link._send("reply", call=1, at=AT, ok={"$data": [name, {}]})
        cell.to_end()
    assert result(cell).error.type == "CodecError"


def test_output_keeps_head_and_tail_counts_the_rest_and_the_run_goes_on():
    body = """
import os
def demo(task):
    os.write(1, b"HEAD\\xff\\n")
    for _ in range(2000):
        os.write(1, b"x" * 65536)
    os.write(1, b"TAIL")
    os.write(2, b"error")
    return "on"
"""
    cell = run(package(body))
    total = 6 + 2000 * 65536 + 4
    assert result(cell).encoded == "on"
    assert cell.end.usage["stdout_bytes"] == total
    assert cell.end.usage["stdout_cut"] == total - LIMITS.output_bytes
    assert cell.output().startswith(b"HEAD\xff\n")
    assert cell.output().endswith(b"xTAIL")
    assert len(cell.output()) == LIMITS.output_bytes
    assert cell.output("stderr") == b"error"


def test_standard_input_is_at_its_end_at_once_and_asyncio_works():
    body = """
import asyncio, sys, os
def demo(task):
    async def two():
        return await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))
    return [sys.stdin.read(), asyncio.run(two()), sorted(os.listdir("/proc/self/fd"))[:4], sys.argv]
"""
    assert result(run(package(body))).encoded == ["", [1, 2], ["0", "1", "2", "3"], [""]]


def test_output_files_are_passed_on_and_what_is_none_is_skipped():
    body = """
import os
def demo(task):
    os.makedirs("output/a/b")
    open("output/a/b/x.txt", "w").write("hi")
    open("output/empty", "w").close()
    open("output/big", "wb").write(b"z" * 1000000)
    os.symlink("/etc/passwd", "output/link")
    os.mkfifo("output/fifo")
    open("output/b\\x01ad", "w").close()
"""
    cell = run(package(body))
    assert [(a.path, len(a.data)) for a in cell.of(Artifact)] == [("a/b/x.txt", 2), ("big", 1000000), ("empty", 0)]
    assert cell.end.usage["skipped_files"] == 3
    assert cell.end.usage["output_files"] == 3


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(21): open(f'output/{i}', 'w').close()",
        "f = open('output/sparse', 'w'); f.truncate(5_000_000)",
    ],
)
def test_too_many_or_too_large_output_files_are_a_cause_of_their_own(body):
    cell = run(package(f"import os\ndef demo(task):\n    os.mkdir('output')\n    {body}\n"))
    assert cell.end.cause == "limit:output_files"
    assert not cell.of(Artifact)


def test_an_output_folder_that_is_a_link_is_not_followed():
    cell = run(package("import os\ndef demo(task):\n    os.symlink('/etc', 'output')\n"))
    assert (cell.end.cause, cell.of(Artifact)) == ("exit", [])


RAW = """
import os, json
def say(**frame): os.write(3, json.dumps(frame).encode() + b"\\n")
def call(c, **more): say(**{"t": "call", "c": c, "scope": "/", "fn": "now", "n": 1, "args": {}, "site": "", **more})
def demo(task):
    %s
    os.read(3, 1)
    import time; time.sleep(100)
"""


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("call(1); call(1)", "call.repeated"),
        ("say(t='part', id=1, i=1, of=1, data='[1'); say(t='result', value_part=1)", "value.not_canonical"),
        ("say(t='result', value=1); call(1)", "frame.out_of_order"),
        ("say(t='drop', call=1)", "call.unknown"),
        ("call(1); say(t='drop', call=1); say(t='drop', call=1)", "call.unknown"),
        ("call(1); say(t='quiet', upto=2)", "frame.bad_field"),
        ("call(1); say(t='quiet', upto=1, ahead=1)", "frame.bad_field"),
        ("call(1); say(t='result', error={'calls': [2]})", "frame.bad_field"),
        ("os.write(3, b'{\"t\":'); os._exit(0)", "frame.unfinished"),
    ],
)
def test_a_worker_that_breaks_the_protocol_is_ended_by_name(code, name):
    cell = run(package(RAW % code))
    assert (cell.end.cause, cell.end.detail) == ("message", name)


def test_one_message_too_many_is_a_cause_of_its_own():
    body = "from cloche import now, emit\ndef demo(task):\n    while True: emit(1)\n"
    cell = run(package(body))
    assert (cell.end.cause, len(cell.of(Call))) == ("limit:messages", LIMITS.messages)


def test_a_worker_that_leaves_more_calls_open_than_a_program_may_is_ended_by_name():
    body = RAW % "[call(c, n=c) for c in range(1, 1002)]"
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(job(), package(body))
        end = cell.until(End)
    assert (end.cause, end.detail) == ("message", "call.too_many")
    assert len(cell.of(Call)) == 1000


def test_a_worker_that_leaves_arguments_open_without_end_is_ended_by_name():
    body = RAW % "[call(c, n=c, args={'x': 'y' * 500_000}) for c in range(1, 60)]"
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(job(), package(body))
        end = cell.until(End)
    assert (end.cause, end.detail) == ("message", "call.too_many")
    assert len(cell.of(Call)) == 2 * LIMITS.value_bytes // 500_100


def test_arguments_that_are_short_as_text_and_large_in_memory_are_counted_by_their_memory():
    body = RAW % "[call(c, n=c, args={'x': [[]] * 20_000}) for c in range(1, 60)]"
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(job(), package(body))
        end = cell.until(End)
    assert (end.cause, end.detail) == ("message", "call.too_many")
    assert len(cell.of(Call)) == 2 * LIMITS.value_bytes // (20_000 * (60 + 12))


def test_a_result_stands_even_if_the_process_does_not_leave():
    body = RAW % "say(t='result', value=5)"
    started = time.monotonic()
    cell = run(package(body))
    assert time.monotonic() - started < 20
    assert (result(cell).encoded, cell.end.cause, cell.end.detail) == (5, "exit", "returned")


def test_segments_are_left_and_made_without_end():
    body = "from cloche import llm\ndef demo(task):\n    return sum(len(llm('y' * 200_000 + str(i))) for i in range(100))\n"
    cell = run(package(body), answer=lambda call: "z" * 200_000)
    assert result(cell).encoded == 100 * 200_000


def test_bytecode_in_the_snapshot_is_not_executed(tmp_path):
    import importlib.util
    import py_compile

    evil = tmp_path / "evil.py"
    evil.write_text("VALUE = 'bytecode'\n")
    tag = importlib.util.cache_from_source("steps.py").rpartition("/")[2]
    files = package("from . import steps\ndef demo(task):\n    return steps.VALUE\n")
    files["workflows/demo/steps.py"] = "VALUE = 'source'\n"
    with guest_cell() as cell:
        cell.greet()
        cache = cell.directory / "in/snapshot/workflows/demo/__pycache__"
        cache.mkdir(parents=True)
        py_compile.compile(
            str(evil), str(cache / tag), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH, doraise=True
        )
        py_compile.compile(str(evil), str(cache.parent / "only.pyc"), doraise=True)
        cell.deliver(job(), files)
        cell.to_end()
    assert result(cell).encoded == "source"


def test_without_a_hello_or_a_job_the_supervisor_goes_away():
    with guest_cell(hello_s=0.2) as cell:
        assert cell.process.wait(timeout=60) == 75
    with guest_cell() as cell:
        cell.link.send_hello(nonce=NONCE, kind="run", uid=1, wait_s=0.2)
        end = cell.to_end()
        assert (end.cause, end.detail) == ("deadline", "no_job")
        assert cell.leave() == 0


def test_a_worker_that_dies_before_its_job_is_no_failure_of_the_program():
    def child_of(pid):
        return int(subprocess.run(["pgrep", "-P", str(pid)], check=True, capture_output=True).stdout.split()[0])

    def has_child(pid):
        return subprocess.run(["pgrep", "-P", str(pid)], check=False, capture_output=True).returncode == 0

    with guest_cell() as cell:
        cell.greet()
        supervisor = child_of(cell.process.pid)
        wait_for(lambda: has_child(supervisor))
        os.kill(child_of(supervisor), signal.SIGKILL)
        cell.deliver(job(), package("def demo(task):\n    return 1\n"))
        assert cell.process.wait(timeout=60) == 70
        assert "ended before it had a job" in cell.stderr()


def test_a_broken_frame_of_the_host_ends_the_cell():
    with guest_cell() as cell:
        cell.greet()
        cell.link._writer.append(b'{"v":1,"g":3,"q":9,"t":"ack","upto":0}\n')
        assert cell.process.wait(timeout=60) == 71


def test_the_supervisor_survives_signals():
    with guest_cell() as cell:
        cell.greet()
        body = "import os\ndef demo(task):\n    for n in (1, 2, 3, 15, 17, 19, 9): os.kill(1, n)\n    return 1\n"
        cell.deliver(job(), package(body))
        assert cell.to_end().cause == "exit"


def test_the_other_spelling_names_the_same_things():
    body = """
from openprogram.agentic_programming import llm, CallError
from openprogram.programs.tools.read import read
import cloche, cloche.programs
def demo(task):
    return [llm is cloche.llm, CallError is cloche.CallError, read is cloche.programs.read]
"""
    assert result(run(package(body))).encoded == [True, True, True]
    missing = run(package("from openprogram.agentic_programming import nothing\ndef demo(task): pass\n"))
    assert result(missing).error.type == "ImportError"


def test_orphans_without_number_do_not_hide_how_the_worker_ended():
    body = """
import os
def demo(task):
    for _ in range(300):
        if os.fork() == 0:
            if os.fork() == 0: os._exit(9)
            os._exit(8)
    return 1
"""
    cell = run(package(body))
    assert (cell.end.cause, cell.end.detail, cell.end.exit) == ("exit", "returned", 0)
