"""What makes programs ask something else when they run again, in real cells that are killed and followed by others.

Either the replay is exact, or the run stops as diverged and says where and why. A completed call is never executed again. Programs
`emit` what they have seen, so that another order is another argument; `calm` makes enough calls for answers to be sent ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from engine.run import divergence
from engine.run.generation import Choices
from engine.run.status import Status
from engine.run.verdict import What
from engine.run.view import RunView
from engine.sandbox.docker import Engine
from tests.helpers.lives import Lived, Lives
from tests.helpers.sandbox import make_sandbox, nothing_left

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("200 s; what may differ when a program runs again is the guest's own code"),
]

HEAD = """
import asyncio
from cloche import *


def calm(task):
    for _ in range(task):
        new_id()

"""
ALONE, AHEAD = 0, 12
"""How many calls `calm` makes: too few, or enough for answers to be sent ahead of calls."""


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory, engine: Engine, image_id: str) -> Iterator[Lives]:
    root = tmp_path_factory.mktemp("traps")
    made = make_sandbox(root / "home", engine)
    with nothing_left(made):
        yield Lives(made, image_id, root / "home")


def turned(generation: int, prompt: str) -> float:
    """What is quick in one generation is slow in the next; prompts end in a letter or a digit."""
    place = "abcdefgh".find(prompt[-1]) if prompt[-1].isalpha() else int(prompt[-1])
    return 0.004 * (place if generation % 2 else 9 - place)


async def exact(lived: Lived) -> Any:
    """The result of a run that goes on as if nothing had happened, and is verified."""
    view = await lived.to_its_end()
    assert view.status is Status.COMPLETED, view.message
    verdict = await lived.verified()
    assert verdict.holds, verdict.differences
    assert verdict.asked == verdict.calls
    return lived.result


async def diverges(lives: Lives, *bodies: str, task: int = ALONE) -> tuple[RunView, str]:
    """The view and the report of a run that stops as diverged when it runs again."""
    for _ in range(3):  # an address may be the same by chance
        lived = lives.new(*bodies, task=task)
        view = await lived.to_its_end()
        if view.status is not Status.COMPLETED:
            break
    assert (view.status, view.reason) == (Status.FAILED, "diverged"), view.message
    assert view.error is not None
    return view, view.error.message


# what must replay

BRANCHES = (
    HEAD
    + """
def sample(task):
    calm(task)
    seen = []

    def branch(name):
        def run():
            for step in range(3):
                seen.append(llm(f"{step} {name}"))
                emit(list(seen))
            if name == "b":
                llm("die in b")
            return name
        return run

    found = parallel([branch(name) for name in "abcd"])
    llm("die a")
    emit(seen)
    return [found, seen]
"""
)


async def test_branches_that_finish_in_reverse_order_the_next_time_are_seen_as_before(lives: Lives) -> None:
    lived = lives.new(BRANCHES, task=AHEAD, speed=turned)
    found, seen = await exact(lived)
    assert (found, sorted(seen)) == (list("abcd"), sorted(f"<{i} {name}>" for i in range(3) for name in "abcd"))
    assert lived.died == ["die in b", "die a"]


FIRST_COMPLETED = (
    HEAD
    + """
async def _race():
    gate = asyncio.Event()

    async def opener():
        await agent_async("open 3")
        gate.set()
        return "opener"

    async def behind(i):
        await gate.wait()
        return f"behind {i}"

    async def racer(i):
        return await agent_async(f"race {i}")

    tasks = [behind(0), racer(1), opener(), racer(5), behind(1), racer(2), behind(2), racer(7)]
    pending = {asyncio.create_task(one) for one in tasks}
    rounds = []
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        rounds.append([task.result() for task in done])
        emit([rounds[-1], len(pending)])
        if len(rounds) == 2:
            await agent_async("die after 2")
    return rounds


async def _as_completed():
    found = []
    for one in asyncio.as_completed([agent_async(f"as {i}") for i in range(6)]):
        found.append(await one)
        emit(list(found))
        if len(found) == 3:
            await agent_async("die after 3")
    return found


def sample(task):
    calm(task)
    return [asyncio.run(_race()), asyncio.run(_as_completed())]
"""
)


@pytest.mark.parametrize("task", [ALONE, AHEAD])
async def test_who_is_completed_first_is_the_same_however_fast_others_are_now(task: int, lives: Lives) -> None:
    lived = lives.new(FIRST_COMPLETED, task=task, speed=turned)
    rounds, completed = await exact(lived)
    assert max(map(len, rounds)) >= 4, "several were done at once"
    assert sorted(completed) == [f"<as {i}>" for i in range(6)]
    assert lived.died == ["die after 2", "die after 3"]


GIVES_UP = (
    HEAD
    + """
async def _group():
    told = []
    try:
        async with asyncio.TaskGroup() as group:
            for name in ("long a", "fail 5", "long b"):
                group.create_task(agent_async(name))
    except* CallError as errors:
        told = [str(error) for error in errors.exceptions]
    return told


async def _timed_out():
    try:
        return await asyncio.wait_for(agent_async("long c"), 0.05)
    except TimeoutError:
        return "timed out"


async def _shielded():
    inner = asyncio.ensure_future(agent_async("calm 9"))
    try:
        await asyncio.wait_for(asyncio.shield(inner), 0.01)
    except TimeoutError:
        emit("not yet")
    return await inner


def _branches():
    try:
        return parallel([lambda: llm("long d"), lambda: llm("fail 3"), lambda: llm("long e")])
    except CallError as error:
        return str(error)


def sample(task):
    calm(task)
    found = []
    for step in (_group, _timed_out, _shielded):
        found.append(asyncio.run(step()))
        emit(found[-1])
        if step is _timed_out:
            llm("die half-way")
    found.append(_branches())
    emit(found[-1])
    llm("die at last")
    return found
"""
)


@pytest.mark.parametrize("task", [ALONE, AHEAD])
async def test_what_was_given_up_is_given_up_again_although_it_would_be_quick_now(task: int, lives: Lives) -> None:
    def speed(generation: int, prompt: str) -> float:
        return 60.0 if prompt.startswith("long") and generation == 1 + len(lived.died) else 0.03

    lived = lives.new(GIVES_UP, task=task, speed=speed)
    grouped, waited, shielded, branched = await exact(lived)
    assert (waited, shielded) == ("timed out", "<calm 9>")
    assert grouped == ["ModelError: no answer to fail 5"]
    assert branched == "ModelError: no answer to fail 3"
    assert lived.died == ["die half-way", "die at last"]
    assert not [prompt for prompt in lived.prompts() if prompt.startswith("long")]
    dropped = [record for record in lived.history.records.values() if record.dropped]
    assert len(dropped) == 5


STANDARD_LIBRARY = (
    HEAD
    + """
import datetime as dt
import functools
import io
import locale
import logging
import os
import random as rnd
import secrets
import statistics
import sys
import tempfile
import time
import traceback
import uuid


@functools.lru_cache(maxsize=None)
def _cached(name):
    return llm(f"cached {name}")


def _draws(prefix):
    while True:
        yield f"{prefix} {random()} {rnd.random()}"


def _logged():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(msecs)d %(relativeCreated)d %(process)d %(threadName)s %(lineno)d"))
    logger = logging.Logger("sample")
    logger.addHandler(handler)
    logger.warning("now")
    return stream.getvalue()


def _named():
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
        return [os.path.basename(file.name), os.path.basename(folder), tempfile.mktemp()]


def _errors():
    told = []
    for make in (lambda: llm("fail 1"), lambda: [][1], lambda: {}["x"], lambda: int("a")):
        try:
            make()
        except Exception as error:
            told += [traceback.format_exc(), repr(error), "".join(traceback.format_exception(error))]
    try:
        try:
            llm("fail 2")
        except CallError as error:
            raise ValueError("around it") from error
    except ValueError as error:
        told += [traceback.format_exc(), error.__cause__.traceback_text, str(error.__cause__)]

    async def awaited():
        await agent_async("fail 3")

    try:
        asyncio.run(awaited())
    except CallError:
        told.append(traceback.format_exc())
    told += [str(error) for error in parallel([lambda: llm("fail 4"), lambda: [][2]], fail_fast=False)]
    return told


def _keys():
    for value in (1, True, 1.0, "1", b"1"):
        emit(value)
        emit({value: "as a key"})
        llm({"type": "text", "text": str(value)} if value == "1" else f"value {value!r}")
    one, other = {"a": 1, "b": [2]}, {}
    for key in sorted(one, key=lambda key: id(one[key])):
        other[key] = list(one[key]) if key == "b" else one[key]
    emit(one)
    emit(other)
    shared = [1, 2]
    emit([shared, shared])
    emit([list(shared), [1, 2]])


def _world():
    return {
        "hash": [hash("abc"), hash(b"abc"), sys.flags.hash_randomization],
        "set": [list({f"name {i}" for i in range(50)}), list({b"a", b"b", b"c"}), list(frozenset("abcdef"))],
        "environ": sorted(os.environ.items()),
        "locale": [locale.getlocale(), locale.localeconv()["decimal_point"], sys.getfilesystemencoding()],
        "zone": [time.tzname, time.timezone, str(dt.datetime.now().astimezone())],
        "process": [os.getcwd(), sys.argv, sys.executable, sys.version, sys.path],
        "clock": [time.time(), time.time_ns(), time.monotonic(), time.perf_counter(), time.process_time(), time.ctime()],
        "dates": [dt.datetime.now(), dt.datetime.now(dt.UTC), dt.date.today(), str(time.localtime())],
        "ids": [str(uuid.uuid1()), str(uuid.uuid4()), secrets.token_hex(), os.urandom(8), secrets.randbelow(10**9)],
        "random": [rnd.random(), rnd.sample(range(1000), 5), rnd.SystemRandom().random(), rnd.Random().random()],
        "normal": statistics.NormalDist(0, 1).samples(3),
        "logged": _logged(),
        "named": _named(),
    }


def _look(round_):
    emit([round_, _world(), _errors()])
    emit([_cached(name) for name in ("a", "b", "a")])
    emit([next(_DRAWS) for _ in range(3)])


_DRAWS = _draws("drawn")


def sample(task):
    calm(task)
    _keys()
    for round_ in range(3):
        _look(round_)
        parallel([lambda i=i: emit([i, rnd.random(), time.time(), next(_draws(i)), _cached(i)]) for i in range(3)])
        llm(f"die {round_}")
    return _cached.cache_info().hits
"""
)


async def test_what_the_standard_library_takes_from_the_world_is_the_same_again(lives: Lives) -> None:
    lived = lives.new(STANDARD_LIBRARY, task=ALONE)
    assert await exact(lived) == 3 * 3 - 2 + 2 * 3
    assert lived.died == ["die 0", "die 1", "die 2"]
    assert len([prompt for prompt in lived.prompts() if str(prompt).startswith("cached")]) == 5
    told = [record for record in lived.history.records.values() if record.key.fn == "emit"]
    assert len({record.key.digest for record in told[:10]}) == 10, "1, True, 1.0, '1' and b'1' differ"
    (first, *others) = [text for text in _texts(lived) if "Traceback" in text]
    assert len(others) == 2
    assert "in _errors" in first
    assert not re.search(r" at 0x", first)


def _texts(lived: Lived) -> list[str]:
    values = (lived.run.value(one.started.args, one.started.args_blob) for one in lived.history.records.values())
    return [str(value) for value in values]


# what must be found

TRAPS = {
    "repr": ("emit([1, repr(object())])", "$.event[1]", divergence.ADDRESS),
    "exception": ("emit({'error': str(ValueError(object()))})", "$.event.error", divergence.ADDRESS),
    "long": ('llm("x" * 100_000 + str(object()) + "y" * 1000)', "$.prompt", divergence.ADDRESS),
    "id": ("emit(id(object()))", "$.event", divergence.NUMBER),
    "hash": ('llm(f"number {hash(object())}, please")', "$.prompt", divergence.NUMBER),
    "uptime": ('emit("up " + open("/proc/uptime").read())', "$.event", divergence.WORLD),
    "set in a text": ('llm(", ".join(thing.name for thing in _things()))', "$.prompt", divergence.SET_ORDER),
    "calls from a set": (
        "[llm(thing.name) for thing in _things()]",
        "$.prompt",
        "calls made in another order, as from a set",
    ),
}

THINGS = """
class Thing:
    def __init__(self, i):
        self.name = f"thing{i}"


def _things():
    return {Thing(i) for i in range(HOW_MANY)}


def sample(task):
    calm(task)
    TRAP
    llm("die")
"""


@pytest.mark.parametrize("trap", TRAPS)
async def test_what_hangs_on_an_address_is_found_where_it_is_asked_and_told_with_its_cause(
    trap: str, lives: Lives
) -> None:
    code, where, cause = TRAPS[trap]
    body = HEAD + THINGS.replace("TRAP", code).replace("HOW_MANY", "400" if "calls" in trap else "20_000")
    line = next(i for i, text in enumerate(body.splitlines(), start=1) if code in text)
    view, report = await diverges(lives, body, task=AHEAD if len(trap) % 2 else ALONE)
    assert f" number 1 in / at workflow.py:{line} asked something else than before, at {where}" in report
    recorded, asked = re.findall(r"^  (?:recorded|now): +(.*)$", report, re.MULTILINE)
    assert recorded != asked
    assert f"likely cause: {cause}" in report
    assert view.message == report.partition("\n")[0]


async def test_one_as_a_key_is_not_true_as_a_key(lives: Lives) -> None:
    bodies = [HEAD + THINGS.replace("TRAP", f"emit({{{key}: 'a'}})") for key in ("1", "True")]
    _, report = await diverges(lives, *bodies)
    assert "at $.event.\n" in report
    assert '[1,"a"]' in report
    assert '[true,"a"]' in report


DRAWS = (
    HEAD
    + """
import random as rnd


def _branch(name):
    EXTRA
    emit([name, random(), rnd.random()])
    emit([name, new_id(), now(), rnd.random()])
    return name


def sample(task):
    calm(task)
    found = parallel([lambda name=name: _branch(name) for name in "abc"])
    llm("die")
    return found
"""
)
NO_DRAW, ONE_MORE = DRAWS.replace("EXTRA", "pass"), DRAWS.replace("EXTRA", 'name == "b" and [random(), rnd.random()]')


async def test_a_draw_that_is_added_to_one_branch_moves_nothing_in_the_others(lives: Lives) -> None:
    lived = lives.new(NO_DRAW, ONE_MORE, task=AHEAD)
    view = await lived.to_its_end()
    assert (view.status, view.reason) == (Status.FAILED, "diverged")
    assert "emit() number 1 in /parallel@workflow.sample[1.2]" in view.message
    accepted = await lived.live(choices=Choices(accept_divergence=True))
    assert accepted.status is Status.COMPLETED, accepted.message
    later = {(one.key.scope, one.key.fn) for one in lived.executions if one.generation > 1}
    branch = "/parallel@workflow.sample[1.2]"
    assert later == {(branch, "random"), (branch, "emit"), ("/", "llm")}
    lived.check()


async def test_a_revision_that_draws_once_more_is_told_by_the_branch_that_draws(lives: Lives) -> None:
    lived = lives.new(NO_DRAW, task=ALONE)
    await exact(lived)
    verdict = await lived.verified(lives.tree(ONE_MORE), revision="c" * 40)
    (found,) = verdict.differences
    assert (found.what, found.scope, found.fn) == (What.MISSING, "/parallel@workflow.sample[1.2]", "random")
