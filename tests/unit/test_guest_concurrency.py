"""Branches, items and asyncio tasks in a cell without a container: what order they have, and who decides it."""

import hashlib
from dataclasses import replace

import pytest
from cloche_guest import codec, wire

from engine.sandbox.frames import Call, Drop, Quiet, Result
from engine.sandbox.jobs import RunJob
from tests.helpers.guest_cell import AT, LIMITS, GuestCell, guest_cell

MANY = replace(LIMITS, messages=20_000)
HEAD = """
import asyncio, cloche
from cloche import CallError, agent, agent_async, ask, emit, llm, parallel, phase, pipeline
"""


def package(body, name="demo", **more):
    return {
        f"workflows/{name}/__init__.py": f"from .workflow import {name}\n",
        f"workflows/{name}/workflow.py": HEAD + body,
        **more,
    }


def first(calls):
    return calls[0]


def last(calls):
    return calls[-1]


def prompts(calls):
    return [call.args.get("prompt", call.fn) for call in calls]


def run(body, *, answer=lambda call: call.args.get("prompt"), choose=first, task=None, **more) -> GuestCell:
    """The cell after its last word."""
    with guest_cell(limits=MANY) as cell:
        cell.greet()
        cell.deliver(RunJob("demo", task, "00ff", 30.0, AT), package(body, **more))
        cell.end = cell.to_end(answer, choose=choose)
        assert cell.leave() == 0, cell.stderr()
    return cell


def value(cell):
    (found,) = cell.of(Result)
    assert found.error is None, found.error.traceback
    return codec.decode(found.encoded)


def error(cell):
    (found,) = cell.of(Result)
    return found.error


# order


ORDER = """
def demo(task):
    seen = []
    def branch(name):
        seen.append(f"{name} begins")
        llm(name)
        seen.append(f"{name} goes on")
        llm(name + "2")
        return name
    return [parallel([lambda: branch("a"), lambda: branch("b")]), seen]
"""


@pytest.mark.parametrize(
    ("choose", "seen"),
    [
        (first, ["a begins", "b begins", "a goes on", "b goes on"]),
        (last, ["a begins", "b begins", "b goes on", "a goes on"]),
    ],
)
def test_the_order_of_the_replies_decides_and_nothing_else(choose, seen):
    cell = run(ORDER, choose=choose)
    assert value(cell) == [["a", "b"], seen]
    assert prompts(cell.of(Call))[:2] == ["a", "b"]


def test_a_plain_program_says_that_it_waits_in_the_call_itself():
    cell = run("def demo(task):\n    return [llm(str(i)) for i in range(3)]\n")
    assert [call.waits for call in cell.of(Call)] == [True] * 3
    assert not cell.of(Quiet)


def test_only_the_last_call_before_everything_waits_says_so():
    cell = run("def demo(task):\n    return parallel([lambda i=i: llm(str(i)) for i in range(3)])\n")
    assert [call.waits for call in cell.of(Call)] == [False, False, True]
    assert [quiet.upto for quiet in cell.of(Quiet)] == [3, 3]


WAIT = """
def demo(task):
    async def one(name):
        return await agent_async(name)
    async def main():
        tasks = {asyncio.create_task(one(str(i)), name=str(i)) for i in range(40)}
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        order = [[t.get_name() for t in done], [t.get_name() for t in pending], [t.get_name() for t in tasks]]
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
        order.append([await done_next for done_next in asyncio.as_completed([one(f"c{i}") for i in range(20)])])
        gathered = {asyncio.gather(asyncio.sleep(0)) for _ in range(20)}
        order.append([len([await one for one in gathered])])
        return order
    return asyncio.run(main())
"""


def test_sets_of_tasks_are_walked_through_in_the_same_order_in_every_process():
    cells = [run(WAIT, choose=last) for _ in range(6)]
    found = {str(value(cell)) for cell in cells}
    assert len(found) == 1
    calls = {str([(call.scope, call.n, call.args) for call in cell.of(Call)]) for cell in cells}
    assert len(calls) == 1
    done, pending, tasks, completed, gathered = value(cells[0])
    assert (done, len(pending), len(tasks)) == (["39"], 39, 40)
    assert completed == [f"c{i}" for i in reversed(range(20))]
    assert gathered == [20]
    assert len(cells[0].of(Drop)) == 39


def test_wait_for_is_decided_by_the_reply_that_comes_first():
    body = """
def demo(task):
    async def main():
        try:
            return await asyncio.wait_for(agent_async("slow"), 2.5)
        except TimeoutError:
            return "late"
    return asyncio.run(main())
"""
    in_time = run(body, choose=lambda calls: next(c for c in calls if c.fn == "agent"))
    assert value(in_time) == "slow"
    late = run(body, choose=lambda calls: next(c for c in calls if c.fn == "timer"))
    assert value(late) == "late"
    for cell in (in_time, late):
        timer, agent = cell.of(Call)
        assert (timer.fn, timer.args, agent.fn) == ("timer", {"delay_s": 2.5}, "agent")
    assert [drop.call for drop in in_time.of(Drop)] == [1]
    assert [drop.call for drop in late.of(Drop)] == [2]


PRIMITIVES = """
def demo(task):
    async def main():
        queue, lock, event, gate = asyncio.Queue(2), asyncio.Lock(), asyncio.Event(), asyncio.Semaphore(2)
        seen = []
        async def produce():
            for i in range(4):
                await queue.put(await agent_async(f"p{i}"))
            await queue.put(None)
        async def consume():
            while (item := await queue.get()) is not None:
                async with lock, gate:
                    seen.append(item + await agent_async(item + "!"))
            event.set()
        async def wait():
            await event.wait()
            seen.append("set")
        async with asyncio.TaskGroup() as group:
            for work in (produce, consume, wait):
                group.create_task(work())
        async with asyncio.timeout(5):
            seen.append(await agent_async("in time"))
        try:
            async with asyncio.timeout(1):
                await asyncio.sleep(3)
        except TimeoutError:
            seen.append("too late")
        seen += await asyncio.gather(agent_async("x"), asyncio.sleep(1, "slept"))
        seen.append(llm("blocking"))
        seen += parallel([lambda: llm("inside"), lambda: agent_async("awaited inside")])
        return seen
    return asyncio.run(main())
"""


@pytest.mark.parametrize("choose", [first, last])
def test_everything_that_asyncio_gives_for_tasks_works(choose):
    def decide(calls):
        timers = [call for call in calls if call.fn == "timer"]
        return (
            min(timers, key=lambda call: call.args["delay_s"])
            if len(timers) == len(calls)
            else choose([call for call in calls if call.fn != "timer"])
        )

    seen = value(run(PRIMITIVES, choose=decide))
    assert seen[:5] == ["p0p0!", "p1p1!", "p2p2!", "p3p3!", "set"]
    assert seen[5:] == ["in time", "too late", "x", "slept", "blocking", "inside", "awaited inside"]


NESTED = """
def demo(task):
    def inner(i):
        async def both():
            return await asyncio.gather(agent_async(f"{i}a"), agent_async(f"{i}b"))
        return parallel([lambda: asyncio.run(both()), lambda: pipeline([f"{i}c", f"{i}d"], llm, str.upper)])
    return parallel([lambda i=i: inner(i) for i in range(3)])
"""


@pytest.mark.parametrize("choose", [first, last])
def test_branches_loops_and_pipelines_nest(choose):
    wanted = [[[f"{i}a", f"{i}b"], [f"{i}C", f"{i}D"]] for i in range(3)]
    assert value(run(NESTED, choose=choose)) == wanted


def test_four_thousand_items_run_sixteen_at_once():
    body = "def demo(task):\n    return sum(pipeline(range(600), lambda i: llm(str(i)), int))\n"
    most = 0

    def choose(calls):
        nonlocal most
        most = max(most, len(calls))
        return calls[len(calls) // 2]

    assert value(run(body, choose=choose)) == sum(range(600))
    assert most == 16
    assert (
        value(run("def demo(task):\n    return sum(parallel([lambda i=i: i for i in range(4096)]))\n")) == 4095 * 2048
    )
    refused = run("def demo(task):\n    return pipeline(range(4097), str)\n")
    assert "pipeline() takes at most 4096 at a time" in error(refused).message


def test_branches_beyond_the_bound_of_a_program_run_one_after_the_other():
    body = """
def demo(task):
    def inner(i):
        return sum(parallel([lambda j=j: int(llm(str(i * 16 + j))) for j in range(16)]))
    return sum(parallel([lambda i=i: inner(i) for i in range(16)]))
"""
    assert value(run(body, choose=last)) == sum(range(256))
    deep = """
def demo(task):
    def inner(depth):
        if not depth:
            return [llm("leaf")]
        async def main():
            return parallel([lambda: inner(depth - 1) for _ in range(3)])
        return sum(asyncio.run(main()), [])
    return len(inner(5))
"""
    assert value(run(deep, choose=last)) == 243


# failing


def test_the_first_failure_stops_the_others_where_they_wait():
    body = """
def demo(task):
    seen = []
    def branch(name):
        try:
            try:
                return llm(name)
            except Exception:
                seen.append(f"{name} saw an exception")
                raise
            finally:
                seen.append(f"{name} cleans up")
                if name == "c":
                    llm("last word")
        except BaseException as error:
            seen.append(f"{name} {type(error).__name__}")
            raise
    try:
        parallel([lambda n=n: branch(n) for n in "abc"])
    except CallError as error:
        seen.append(error.type_name)
    seen.append(llm("after"))
    return seen
"""

    def answer(call):
        return KeyError("no") if call.args["prompt"] == "b" else call.args["prompt"]

    cell = run(body, answer=answer, choose=lambda calls: next((c for c in calls if c.args["prompt"] == "b"), calls[0]))
    assert value(cell) == [
        "b saw an exception", "b cleans up", "b CallError", "a cleans up", "a Stopped", "c cleans up", "c Stopped",
        "KeyError", "after",
    ]  # fmt: skip
    assert prompts(cell.of(Call)) == ["a", "b", "c", "last word", "after"]
    assert [drop.call for drop in cell.of(Drop)] == [1, 3]


def test_collecting_waits_for_all_and_gives_the_exceptions():
    body = """
def demo(task):
    found = parallel([lambda n=n: llm(n) for n in "abc"], fail_fast=False)
    return [one if isinstance(one, str) else [type(one).__name__, one.type_name] for one in found]
"""
    cell = run(body, answer=lambda call: KeyError("x") if call.args["prompt"] == "b" else call.args["prompt"])
    assert value(cell) == ["a", ["CallError", "KeyError"], "c"]
    assert not cell.of(Drop)


def test_a_stopped_branch_ends_its_own_branches_and_its_loop_even_if_a_task_hides_it():
    body = """
def demo(task):
    seen = []
    async def hides():
        try:
            llm("hidden")
        except BaseException as error:
            seen.append(type(error).__name__)
        await agent_async("never needed")
    async def main():
        await asyncio.gather(hides(), agent_async("other"), return_exceptions=True)
        seen.append("never reached")
    def inner():
        try:
            return parallel([lambda: llm("x"), lambda: llm("y"), lambda: asyncio.run(main())])
        finally:
            seen.append("inner ends")
    try:
        parallel([inner, lambda: llm("fails")])
    except CallError:
        seen.append("failed")
    return seen
"""
    fails = lambda calls: next(call for call in calls if call.args["prompt"] == "fails")  # noqa: E731
    cell = run(body, answer=lambda call: KeyError("x"), choose=fails)
    assert value(cell) == ["Stopped", "inner ends", "failed"]
    assert prompts(cell.of(Call)) == ["fails", "x", "y", "hidden", "never needed"]
    assert sorted(drop.call for drop in cell.of(Drop)) == [
        call.number for call in cell.of(Call) if call.args["prompt"] != "fails"
    ]


def test_the_calls_whose_errors_left_the_entry_are_named():
    body = """
def demo(task):
    found = parallel([lambda n=n: llm(n) for n in "abcd"], fail_fast=False)
    raise ExceptionGroup("some", [one for one in found if isinstance(one, Exception)])
"""
    cell = run(body, answer=lambda call: KeyError("x") if call.args["prompt"] in "bd" else "ok", choose=last)
    assert cell.end.calls == (2, 4)
    one = run(
        "def demo(task):\n    parallel([lambda n=n: llm(n) for n in 'ab'])\n",
        answer=lambda call: KeyError("x"),
        choose=last,
    )
    assert one.end.calls == (2,)


def test_a_cancelled_task_may_make_calls_while_it_ends():
    body = """
def demo(task):
    async def work():
        try:
            await agent_async("long")
        finally:
            await agent_async("clean up")
    async def main():
        task = asyncio.create_task(work())
        await agent_async("first")
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
    return asyncio.run(main())
"""
    cell = run(body, choose=lambda calls: next(c for c in calls if c.args["prompt"] != "long"))
    assert value(cell) == "cancelled"
    assert prompts(cell.of(Call)) == ["first", "long", "clean up"]
    assert [drop.call for drop in cell.of(Drop)] == [2]


@pytest.mark.parametrize(
    "body",
    [
        "def demo(task):\n    async def main(): await asyncio.Event().wait()\n    asyncio.run(main())\n",
        "def demo(task): parallel([lambda: llm('x'), lambda: asyncio.run(asyncio.wait_for(asyncio.Event().wait(), None))])",
    ],
)
def test_a_program_that_could_never_go_on_is_told_so(body):
    cell = run(body)
    assert error(cell).type in ("Deadlock", "RuntimeError")
    assert "no call is unanswered" in error(cell).message
    assert cell.end.detail == "raised"


def test_one_unanswered_call_too_many_is_refused_before_it_is_sent():
    body = """
def demo(task):
    async def main():
        return await asyncio.gather(*[agent_async(str(i)) for i in range(1001)], return_exceptions=True)
    found = asyncio.run(main())
    return [len(found), [str(one) for one in found if isinstance(one, Exception)], llm("on")]
"""
    cell = run(body)
    count, refused, on = value(cell)
    assert (count, on) == (1001, "on")
    assert len(refused) == 1
    assert "1000 calls are unanswered" in refused[0]
    assert len(cell.of(Call)) == 1001


def test_arguments_of_unanswered_calls_have_a_bound_together():
    body = """
def demo(task):
    found = parallel([lambda: llm("x" * 3_000_000) for _ in range(8)], fail_fast=False)
    return [len([one for one in found if isinstance(one, str)]), str([one for one in found if not isinstance(one, str)][0])]
"""
    answered, refused = value(run(body, answer=lambda call: "ok"))
    assert answered == 2 * LIMITS.value_bytes // 3_100_000
    assert "too large together" in refused


def test_arguments_of_many_small_parts_are_refused_to_the_program_as_large_ones_are():
    body = """
def demo(task):
    found = parallel([lambda: emit([[]] * 50_000) for _ in range(8)], fail_fast=False)
    return str([one for one in found if one is not None][0])
"""
    assert "too large together" in value(run(body, answer=lambda call: None))


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("await asyncio.to_thread(print)", "no threads"),
        ("await asyncio.get_running_loop().run_in_executor(None, print)", "no threads"),
        ("await asyncio.create_subprocess_exec('true')", "no processes"),
        ("await asyncio.create_subprocess_shell('true')", "no processes"),
        ("await asyncio.open_connection('localhost', 1)", "no sockets"),
        ("asyncio.get_running_loop().add_reader(0, print)", "no sockets"),
        ("asyncio.get_running_loop().add_signal_handler(2, print)", "no signals"),
    ],
)
def test_what_has_no_order_is_refused(use, told):
    cell = run(f"def demo(task):\n    async def main():\n        {use}\n    asyncio.run(main())\n")
    assert error(cell).type == "RuntimeError"
    assert told in error(cell).message


def test_a_call_from_a_thread_is_refused():
    body = """
import threading
def demo(task):
    said = []
    def use():
        try:
            llm("x")
        except RuntimeError as error:
            said.append(str(error))
    thread = threading.Thread(target=use)
    thread.start(); thread.join()
    return said
"""
    cell = run(body)
    assert "another thread" in value(cell)[0]
    assert not cell.of(Call)


# scopes


SCOPES = """
from workflows.dep import dep
from .steps import load
def demo(task):
    llm("m1")
    with phase("outer"):
        parallel([lambda: llm("p1"), lambda: dep("d1")])
    parallel([lambda: llm("q1"), lambda: llm("q2")])
    pipeline(["i1", "i2"], llm, lambda text: llm(text + "!"))
    load()
    async def main():
        llm("t1")
        await asyncio.gather(agent_async("g1"), agent_async("g2"))
        await asyncio.wait_for(agent_async("w1"), 5)
    asyncio.run(main())
    asyncio.run(main())
    parallel([lambda: agent_async("a1")])
    dep("d2")
"""
STEPS = HEAD + "def load():\n    return parallel([lambda: parallel([lambda: llm('n1')])])\n"
DEP = HEAD + "def dep(name):\n    return parallel([lambda: llm(name)])\n"


def test_scopes_are_named_by_place_and_order_of_creation():
    more = {
        "workflows/demo/steps.py": STEPS,
        "workflows/dep/__init__.py": "from .workflow import dep\n",
        "workflows/dep/workflow.py": DEP,
    }

    def but_timers(place):
        return lambda calls: [call for call in calls if call.fn != "timer"][place]

    cells = [run(SCOPES, choose=but_timers(place), **more) for place in (0, -1)]
    for cell in cells:
        found = {}
        for call in cell.of(Call):
            found.setdefault(call.args.get("prompt", call.fn), []).append((call.scope, call.n))
        task = "/task@workflow.demo"
        inner = "task@workflow.demo._locals_.main"
        assert found == {
            "m1": [("/", 1)],
            "p1": [("/parallel@workflow.demo[1.1]", 1)],
            "d1": [("/parallel@workflow.demo[1.2]/dep[1]/parallel@workflow.dep[1.1]", 1)],
            "q1": [("/parallel@workflow.demo[2.1]", 1)],
            "q2": [("/parallel@workflow.demo[2.2]", 1)],
            "i1": [("/pipeline@workflow.demo[1.1]", 1)],
            "i1!": [("/pipeline@workflow.demo[1.1]", 2)],
            "i2": [("/pipeline@workflow.demo[1.2]", 1)],
            "i2!": [("/pipeline@workflow.demo[1.2]", 2)],
            "n1": [("/parallel@steps.load[1.1]/parallel@steps.load._locals_._lambda_[1.1]", 1)],
            "t1": [(f"{task}[1]", 1), (f"{task}[2]", 1)],
            "g1": [(f"{task}[{k}]/{inner}[1]", 1) for k in (1, 2)],
            "g2": [(f"{task}[{k}]/{inner}[2]", 1) for k in (1, 2)],
            "timer": [(f"{task}[1]", 1), (f"{task}[2]", 1)],
            "w1": [(f"{task}[{k}]/{inner}[3]", 1) for k in (1, 2)],
            "a1": [("/parallel@workflow.demo[3.1]", 1)],
            "d2": [("/dep[1]/parallel@workflow.dep[1.1]", 1)],
        }
        sites = {call.args.get("prompt", call.fn): call.site for call in cell.of(Call)}
        assert sites["n1"] == "steps.py:5"
        assert sites["d1"] == "workflows/dep/workflow.py:5"
        assert {call.args["prompt"]: call.phase for call in cell.of(Call) if call.phase} == {
            "p1": ("outer",),
            "d1": ("outer",),
        }


# replies sent ahead


def word(scope, fn, n, **args):
    digest = codec.digest(codec.encode(args))
    return hashlib.sha256(f"{scope}\n{fn}\n{n}\n{digest}\n".encode()).hexdigest()


AHEAD = """
import time
import cloche._call
def there(count):
    inbox = cloche._call._backend._inbox
    while len(inbox._replies) < count:
        inbox._read()
def demo(task):
    there(task)
    return BODY
"""
PLAIN = AHEAD.replace("BODY", "[[llm(str(i)), round(time.time(), 3)] for i in range(6)]")


def ahead(number, value, *, at, scope="/", fn="llm", n=None, **args):
    """A reply sent ahead, as fields and as the supervisor passes it on."""
    key = word(scope, fn, n or number, **args)
    line = wire.dump({"t": "reply", "call": number, "ok": value, "at": at, "ahead": key})
    return {"call": number, "encoded": value, "at": at, "ahead": key}, len(line)


def begin(cell, body, replies):
    """Deliver the job, and replies ahead of every call; the program begins when it has them all."""
    cell.greet()
    cell.deliver(RunJob("demo", len(replies) + 1, "00ff", 30.0, AT), package(body))
    cell.send_ahead([fields for fields, _ in replies])


def test_replies_sent_ahead_are_taken_without_a_word():
    with guest_cell() as cell:
        begin(cell, PLAIN, [ahead(i + 1, f"r{i}", at=AT + i, prompt=str(i)) for i in range(6)])
        end = cell.to_end()
    assert value(cell) == [[f"r{i}", AT + i] for i in range(6)]
    assert not [call for call in cell.of(Call) if call.waits]
    assert not cell.of(Quiet)
    assert (end.detail, cell.answered) == ("returned", [])


def test_after_the_last_reply_sent_ahead_the_program_asks_again():
    with guest_cell() as cell:
        begin(cell, PLAIN, [ahead(i + 1, f"r{i}", at=AT + i, prompt=str(i)) for i in range(4)])
        cell.to_end(lambda call: f"live {call.number}")
    assert [text for text, _ in value(cell)] == ["r0", "r1", "r2", "r3", "live 5", "live 6"]
    assert [call.waits for call in cell.of(Call)] == [False] * 5 + [True]
    assert [(quiet.upto, quiet.ahead) for quiet in cell.of(Quiet)] == [(5, 4)]


def test_from_the_first_call_that_is_another_one_on_replies_sent_ahead_are_void():
    with guest_cell() as cell:
        replies = [ahead(i + 1, f"r{i}", at=AT + i, prompt="other" if i == 2 else str(i)) for i in range(6)]
        begin(cell, PLAIN, replies)
        cell.to_end(lambda call: f"live {call.number}")
    assert [text for text, _ in value(cell)] == ["r0", "r1", "live 3", "live 4", "live 5", "live 6"]
    assert [(quiet.upto, quiet.ahead) for quiet in cell.of(Quiet)] == [(3, 2)]
    assert cell.answered == [3, 4, 5, 6]


def test_replies_sent_ahead_decide_the_order_of_branches_as_others_do():
    body = (
        AHEAD.replace("BODY", "branches()")
        + """
def branches():
    seen = []
    def branch(name):
        seen.append(llm(name))
        seen.append(llm(name + "2"))
    parallel([lambda: branch("a"), lambda: branch("b"), lambda: branch("c")])
    return seen
"""
    )
    places = {"a": "/parallel@workflow.branches[1.1]", "b": "/parallel@workflow.branches[1.2]"}
    replies = [
        ahead(2, "B", at=AT, scope=places["b"], n=1, prompt="b"),
        ahead(4, "B2", at=AT, scope=places["b"], n=2, prompt="b2"),
        ahead(1, "A", at=AT, scope=places["a"], n=1, prompt="a"),
    ]
    with guest_cell() as cell:
        begin(cell, body, replies)
        cell.to_end(lambda call: call.args["prompt"].upper())
    assert value(cell) == ["B", "B2", "A", "C", "A2", "C2"]
    assert prompts(cell.of(Call)) == ["a", "b", "c", "b2", "a2", "c2"]
    assert cell.answered == [3, 5, 6]


def test_a_dropped_call_that_was_answered_ahead_makes_the_rest_void():
    body = (
        AHEAD.replace("BODY", "asyncio.run(main())")
        + """
async def main():
    task = asyncio.create_task(agent_async("never mind"))
    await agent_async("first")
    task.cancel()
    return [llm("second"), llm("third")]
"""
    )
    task = "/task@workflow.demo[1]"
    replies = [
        ahead(1, "F", at=AT, scope=task, fn="agent", n=1, prompt="first"),
        ahead(2, "N", at=AT, scope=f"{task}/task@workflow.main[1]", fn="agent", n=1, prompt="never mind"),
        ahead(3, "S", at=AT, scope=task, n=1, prompt="second"),
    ]
    with guest_cell() as cell:
        begin(cell, body, replies)
        cell.to_end(lambda call: call.args["prompt"])
    assert value(cell) == ["second", "third"]
    assert [drop.call for drop in cell.of(Drop)] == [2]
    assert [(quiet.upto, quiet.ahead) for quiet in cell.of(Quiet)] == [(3, 1)]


# the world


WORLD = """
import calendar, datetime, email.utils, logging, os, random, secrets, statistics, tempfile, time, uuid
from datetime import date, datetime as moment
from time import time as now
class Own(moment): pass
def clocks():
    return [
        time.time(), now(), time.time_ns() / 1e9, moment.now().timestamp(), moment.now(datetime.UTC).timestamp(),
        moment.utcnow().replace(tzinfo=datetime.UTC).timestamp(), moment.today().timestamp(), Own.now().timestamp(),
        time.mktime(time.localtime()), float(calendar.timegm(time.gmtime())),
        email.utils.parsedate_to_datetime(email.utils.formatdate()).timestamp(),
        logging.LogRecord("a", 1, "p", 1, "m", (), None).created,
        moment.combine(date.today(), moment.now().time()).timestamp(),
        time.clock_gettime(time.CLOCK_REALTIME), time.mktime(time.strptime(time.ctime())),
    ]
def draws():
    items = list(range(20))
    random.shuffle(items)
    return [
        random.random(), random.randrange(10**9), random.gauss(0, 1), items, random.Random().random(),
        random.SystemRandom().random(), os.urandom(5), secrets.token_hex(8), secrets.choice("abcdef"),
        str(uuid.uuid4()), str(uuid.uuid1()), next(tempfile._get_candidate_names()),
        statistics.NormalDist().samples(2), os.getrandom(3),
    ]
def demo(task):
    before = [clocks(), time.monotonic(), time.perf_counter()]
    llm("x")
    after = [clocks(), time.monotonic(), time.process_time()]
    main = draws()
    branches = parallel([draws, draws])
    same = [moment is datetime.datetime, type(moment.now()) is moment, type(Own.now()) is Own, draws() == main]
    random.seed(5)
    return [before, after, main, branches, same, random.random()]
"""


def test_clocks_show_the_time_of_the_last_reply_and_stand_still():
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(RunJob("demo", None, "00ff", 30.0, AT), package(WORLD))
        cell.answer(cell.until(Call), None, at=AT + 90061.5)
        cell.to_end()
    before, after, *_ = value(cell)
    whole = lambda times: [float(int(one)) for one in times]  # noqa: E731
    assert whole(before[0]) == [AT] * len(before[0])
    assert before[1:] == [0.0, 0.0]
    assert whole(after[0]) == [AT + 90061] * len(after[0])
    assert after[0][0] == AT + 90061.5
    assert after[1:] == [90061.5, 90061.5]


def test_a_clock_that_jumps_back_shows_it_and_others_do_not():
    body = """
import time
def demo(task):
    found = []
    for _ in range(2):
        llm("x")
        found.append([time.time(), time.monotonic()])
    return found
"""
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(RunJob("demo", None, "00ff", 30.0, AT), package(body))
        cell.answer(cell.until(Call), None, at=AT + 10)
        cell.answer(cell.until(Call), None, at=AT - 10)
        cell.to_end()
    assert value(cell) == [[AT + 10, 10.0], [AT - 10, 10.0]]


def test_randomness_is_the_same_for_the_same_seed_and_differs_between_scopes():
    first_run, second_run = value(run(WORLD)), value(run(WORLD))
    assert first_run[2:] == second_run[2:]
    main, (one, other), same, seeded = first_run[2:]
    assert same == [True, True, True, False]
    for index in (0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 13):
        assert main[index] != one[index] != other[index] != main[index], index
    assert seeded == 0.6229016948897019
    with guest_cell() as cell:
        cell.greet()
        cell.deliver(RunJob("demo", None, "00fe", 30.0, AT), package(WORLD))
        cell.to_end()
    assert value(cell)[2][:3] != main[:3]


def test_a_loop_that_is_closed_drops_what_its_timers_still_wait_for():
    body = """
def demo(task):
    async def main():
        asyncio.get_running_loop().call_later(60, print, "never")
        return await agent_async("x")
    return [asyncio.run(main()), llm("after")]
"""
    cell = run(body, choose=last)
    assert value(cell) == ["x", "after"]
    assert [(call.fn, call.number) for call in cell.of(Call)] == [("timer", 1), ("agent", 2), ("llm", 3)]
    assert [drop.call for drop in cell.of(Drop)] == [1]


def test_a_loop_that_is_made_by_name_is_one_of_the_run_too():
    body = """
def demo(task):
    async def main():
        await asyncio.sleep(5)
        return await agent_async("x")
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return [runner.run(main()), runner.run(main())]
"""
    cell = run(body, answer=lambda call: call.fn)
    assert value(cell) == ["agent", "agent"]
    assert [call.fn for call in cell.of(Call)] == ["timer", "agent"] * 2


def test_open_asynchronous_generators_are_closed_in_the_order_in_which_they_began():
    body = """
def demo(task):
    seen = []
    async def steps(name):
        try:
            while True:
                yield await agent_async(name)
        finally:
            seen.append(name)
    async def main():
        running = [steps(str(i)) for i in range(12)]
        for one in reversed(running):
            await anext(one)
        return running
    kept = asyncio.run(main())
    return seen
"""
    assert value(run(body)) == [str(i) for i in reversed(range(12))]


LEFT = """
def demo(task):
    seen = []
    async def work(name):
        try:
            await agent_async(name)
        finally:
            seen.append(name)
            if name.endswith("1"):
                raise ValueError(name)
    async def many():
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(300)))
    async def main(turn):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told: seen.append((str(told["exception"]), told["task"].get_name())))
        kept = [asyncio.create_task(work(f"{turn} {i}"), name=f"{turn}.{i}") for i in range(3)]
        await asyncio.sleep(0)
    asyncio.run(many())
    for turn in range(30):
        asyncio.run(main(turn))
    return [list(one) if isinstance(one, tuple) else one for one in seen]
"""


def test_tasks_that_are_left_at_the_end_are_cancelled_in_the_order_in_which_they_were_made():
    """asyncio's WeakSet, with room for three hundred, begins again at its front somewhere between them."""
    cell = run(LEFT)
    turns = [[f"{turn} 0", f"{turn} 1", f"{turn} 2", [f"{turn} 1", f"{turn}.1"]] for turn in range(30)]
    assert value(cell) == [one for turn in turns for one in turn]
    assert [drop.call for drop in cell.of(Drop)] == [call.number for call in cell.of(Call)]


def test_a_plain_program_never_imports_asyncio_and_starts_no_thread():
    body = """
import os, sys
from cloche import agent, llm, parallel, pipeline
def demo(task):
    agent(llm("x"))
    return ["asyncio" in sys.modules, "random" in sys.modules, len(os.listdir("/proc/self/task"))]
"""
    with guest_cell() as cell:
        cell.greet()
        files = {"workflows/demo/__init__.py": "from .workflow import demo\n", "workflows/demo/workflow.py": body}
        cell.deliver(RunJob("demo", None, "00ff", 30.0, AT), files)
        cell.to_end(lambda call: call.args["prompt"])
    assert value(cell) == [False, False, 1]
