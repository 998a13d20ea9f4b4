"""Large runs in real cells: many calls, large values, many calls at once, deep scopes, much output; live, replayed and verified.

What is too large is refused in one sentence, before anything of it is recorded, and the run can be shown and gone on with.
`make chaos` takes 1,000 values of 1 MiB (CLOCHE_SIZES=full) instead of 50.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cloche_guest import codec

from engine.run.calls import CallRequest
from engine.run.events import CallStarted
from engine.run.generation import Limits
from engine.run.lifecycle import TaskTooLarge
from engine.run.projection import view_of
from engine.run.status import Status
from engine.run.view import calls_of
from engine.sandbox.docker import Engine
from tests.helpers.commands import Commands
from tests.helpers.lives import Lived, Lives
from tests.helpers.sandbox import make_sandbox, nothing_left

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("minutes; sizes are bounded by the host and by the guest's own code"),
]

MIB = 1024 * 1024
GIB = 1024 * MIB
MANY = 10_000
LABEL_BOUND = 300
FULL = os.environ.get("CLOCHE_SIZES") == "full"
LARGE_VALUES = 1_000 if FULL else 50
VALUE_BYTES = 64 * MIB
TASK = ["a" * 5_000, 10**5_000, -(7**6_000), "nul \0 in it", {"\0": b"\0" * 1_000}]

HEAD = """
import asyncio
from cloche import *

"""


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory, engine: Engine, image_id: str) -> Iterator[Lives]:
    root = tmp_path_factory.mktemp("sizes")
    made = make_sandbox(root / "home", engine)
    with nothing_left(made):
        yield Lives(made, image_id, root / "home")


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def exact(lived: Lived) -> Any:
    """The result of a run that goes on as if nothing had happened, and is verified."""
    view = await lived.to_its_end()
    assert view.status is Status.COMPLETED, view.message
    verdict = await lived.verified()
    assert verdict.holds, verdict.differences
    assert verdict.asked == verdict.calls
    return lived.result


def shown(lived: Lived) -> str:
    """What `runs show` prints."""
    answer = Commands(lived.lives.home)("runs", "show", lived.run.run_id)
    assert answer.code == 0, answer.stderr
    return answer.stdout


@pytest.mark.timeout(3600 if FULL else 300)
async def test_many_values_of_a_mebibyte_are_kept_and_given_back(lives: Lives) -> None:
    body = f"""
def sample(task):
    found = [len(llm(f"large {{i}}" + "x" * (i % 2 * {MIB}))) for i in range({LARGE_VALUES})]
    llm("die")
    return [sum(found), len(found)]
"""

    class Large(dict[str, Any]):
        def get(self, prompt: str, default: Any = None) -> Any:
            return (lambda request: prompt[:12] + "y" * MIB) if prompt.startswith("large") else None

    lived = lives.new(HEAD + body)
    lived.answers, lived.limits = Large(), Limits(record_bytes=4 * GIB)
    seen, before = list[int](), resident()
    await lived.live(watch=lambda view: seen.append(resident()))
    view = await lived.live(watch=lambda view: seen.append(resident()))
    assert (view.status, view.generations[1].executed) == (Status.COMPLETED, 1)
    assert lived.result[0] > LARGE_VALUES * MIB
    lived.check()
    assert lived.run.blobs.size() > 1.4 * LARGE_VALUES * MIB
    assert max(seen) - before < 256 * MIB


async def test_sixty_mebibytes_go_in_and_come_out_and_seventy_are_refused_for_good(lives: Lives) -> None:
    body = f"""
def _refused(make):
    try:
        return make()
    except Exception as error:
        return f"{{type(error).__name__}}: {{str(error)[:300]}}"


def sample(task):
    large = "a" * (60 * {MIB})
    answer = llm(large)
    told = [len(answer), answer[:3], answer[-3:]]
    del answer
    told.append(_refused(lambda: llm("b" * (70 * {MIB}))))
    told.append(_refused(lambda: emit(["c" * (35 * {MIB}), b"d" * (30 * {MIB})])))
    told.append(_refused(lambda: llm("give 70 MiB")))
    emit(told)
    llm("die")
    return [told, large]
"""
    lived = lives.new(HEAD + body)
    lived.limits = Limits(record_bytes=4 * GIB)
    lived.answers = {
        "a" * (60 * MIB): lambda request: "z" * (60 * MIB),
        "give 70 MiB": lambda request: "z" * (70 * MIB),
    }
    (told, large) = await exact(lived)
    assert told[:3] == [60 * MIB, "zzz", "zzz"]
    assert large == "a" * (60 * MIB)
    argument, event, answered = told[3:]
    for text in (argument, event, answered):
        assert f"{VALUE_BYTES:,}" in text, told
    asked = [(record.key.fn, record.key.n) for record in lived.history.records.values()]
    assert asked == [("llm", 1), ("llm", 2), ("emit", 1), ("llm", 3), ("llm", 3)]
    assert "give 70 MiB" in shown(lived)


@pytest.mark.parametrize("returns", ['"e" * (70 * 1024 * 1024)', "_deep(10_000)", '{"rows": [1, "\\ud800"]}'])
async def test_a_result_that_cannot_be_recorded_fails_the_run_in_one_sentence_live_and_on_resume(
    returns: str, lives: Lives
) -> None:
    body = f"""
def _deep(levels):
    made = []
    for _ in range(levels):
        made = [made]
    return made


def sample(task):
    llm("before")
    return {returns}
"""
    lived, told = lives.new(HEAD + body), []
    for _ in range(2):
        view = await lived.live()
        assert (view.status, view.reason) == (Status.FAILED, "program")
        assert view.error is not None
        told.append((view.error.type, view.error.message))
        assert len(view.error.message) < 1_000
    assert told[0] == told[1]
    assert any(part in told[0][1] for part in (f"{VALUE_BYTES:,}", "[0][0][0]", "$.rows[1]")), told
    assert lived.prompts() == ["before"]
    assert lived.run.blobs.size() == 0
    assert told[0][1][:60] in shown(lived)


STRANGE = """
class Odd:
    pass


def _deep(levels):
    made = []
    for _ in range(levels):
        made = [made]
    return made


def _keyed(levels):
    made = {}
    for _ in range(levels):
        made = {"in": made}
    return made


def _refused(make, *args, **kwargs):
    try:
        return make(*args, **kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def sample(task):
    emit(task)
    told = {
        "deep emit": _refused(emit, _deep(10_000)),
        "deep keys": _refused(emit, {"a": _keyed(10_000)}),
        "deep prompt": _refused(llm, _deep(10_000)),
        "deep schema": _refused(llm, "x", response_format=_keyed(10_000)),
        "surrogate": _refused(llm, "x\\ud800"),
        "surrogate key": _refused(emit, {"ok": [{"\\udfff": 1}]}),
        "surrogate label": _refused(agent, "labelled", description="a\\ud800b"),
        "object": _refused(emit, {"rows": [1, (Odd(),)]}),
        "itself": _refused(_itself),
        "delivered": _refused(deliver, result=[{"a": "\\ud800"}]),
        "digits": llm("digits") == 10**5_000,
        "nul": llm("nul\\0"),
        "bad answers": [_refused(llm, f"bad {i}") for i in range(4)],
    }
    llm("die")
    return [task, told]


def _itself():
    made = []
    made.append(made)
    emit(made)
"""


async def test_strange_values_are_kept_exactly_or_refused_by_their_place_before_anything_is_recorded(
    lives: Lives,
) -> None:
    def deep(request: CallRequest) -> Any:
        made: list[Any] = []
        for _ in range(10_000):
            made = [made]
        return made

    lived = lives.new(HEAD + STRANGE, task=codec.encode(TASK))
    lived.answers = {
        "digits": lambda request: 10**5_000,
        "nul\0": lambda request: "\0 and \0",
        "bad 0": deep,
        "bad 1": lambda request: "\ud800",
        "bad 2": lambda request: {"rows": [1, object()]},
        "bad 3": lambda request: "x" * (VALUE_BYTES - 1),
    }
    encoded = await exact(lived)
    task, told = codec.decode(encoded)
    assert task == TASK
    places = {
        "deep emit": "[0][0][0]",
        "deep keys": "$.event.a.in.in",
        "deep prompt": "$.prompt[0][0]",
        "deep schema": "$.response_format.in",
        "surrogate": "$.prompt: contains a lone surrogate",
        "surrogate key": "$.event.ok[0]",
        "object": "$.event.rows[1][0]",
        "itself": "nested deeper",
        "delivered": "$.result[0].a",
    }
    for name, place in places.items():
        assert place in told[name], (name, told[name])
        assert len(told[name]) < 2_000
    assert (told["digits"], told["nul"]) == (True, "\0 and \0")
    assert told["surrogate label"] == "<labelled>"
    bad = told["bad answers"]
    assert ["[0][0]" in bad[0], "surrogate" in bad[1], "$.rows[1]" in bad[2], f"{VALUE_BYTES:,}" in bad[3]] == [
        True
    ] * 4
    made = [(one.key.fn, one.key.n) for one in lived.history.records.values() if one.generation == 1]
    assert made == [("emit", 1), ("agent", 1), *(("llm", n) for n in range(1, 8))]
    shown(lived)


async def test_a_task_that_is_too_large_is_refused_before_anything_begins(lives: Lives) -> None:
    lived = lives.new(HEAD + "def sample(task):\n    return 1\n", task="t" * (VALUE_BYTES + 1))
    for _ in range(2):
        with pytest.raises(TaskTooLarge, match=f"{VALUE_BYTES:,}"):
            await lived.live()
    assert len(lived.run.read()[0].lines) == 1
    shown(lived)


WIDE = """
def _refused(make):
    try:
        return make()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _item(i):
    return [i, len(new_id())]


async def _at_once(count):
    return await asyncio.gather(*(agent_async(f"at once {i}") for i in range(count)))


def LONG(levels):
    if levels == 0:
        emit("at the bottom")
        return 0
    (below,) = parallel([lambda: LONG(levels - 1)])
    return below + 1


def _labelled():
    with phase("P" * 100_000):
        for _ in range(30):
            with phase("\\x1b[2Jinner \\ud800"):
                pass
        return agent("labelled", description="L" * 100_000)


def sample(task):
    items = pipeline(range(4_096), _item)
    told = [
        items == [[i, 32] for i in range(4_096)],
        _refused(lambda: pipeline(range(4_097), _item)),
        _refused(lambda: parallel([_item] * 4_097)),
        asyncio.run(_at_once(1_000)) == [f"<at once {i}>" for i in range(1_000)],
        _refused(lambda: asyncio.run(_at_once(1_001))),
        LONG(20),
        _refused(lambda: LONG(21)),
        _labelled(),
    ]
    for i in range(5_000):
        emit(i)
    emit(told)
    llm("die")
    return told
""".replace("LONG", "_" + "n" * 200)


async def test_ten_thousand_calls_one_after_the_other_and_many_at_once_are_replayed_verified_and_shown(
    lives: Lives,
) -> None:
    lived, seen = lives.new(HEAD + WIDE), list[int]()
    before = resident()
    await lived.live(watch=lambda view: seen.append(resident()))
    assert lived.died == ["die"]
    view = await lived.live(watch=lambda view: seen.append(resident()))
    assert view.status is Status.COMPLETED, view.message
    assert view.calls_made > MANY
    assert view.generations[1].executed == 1
    assert max(seen) - before < 256 * MIB
    assert lived.run.journal_path.stat().st_size / MANY < 500
    lived.check()
    check_bounds(lived.result)
    (labelled,) = [call for call in calls_of(view.calls) if call.label]
    assert len(labelled.label) < LABEL_BOUND
    for line in lived.run.read()[0].lines:
        if isinstance(line.event, CallStarted):
            assert max(map(len, [line.event.site, *line.event.phase, ""])) < LABEL_BOUND
    verdict = await lived.verified()
    assert verdict.holds, verdict.differences
    assert verdict.asked > MANY
    first, *others = shown(lived).splitlines()
    assert first == f"sample  {lived.run.run_id}  completed"
    assert any("labelled" in line for line in others)


def check_bounds(told: list[Any]) -> None:
    """What the wide program saw of its bounds."""
    assert [told[0], told[3], told[5], told[7]] == [True, True, 20, "<labelled>"]
    for name, text in zip(("pipeline", "parallel"), told[1:3], strict=True):
        assert text.startswith(f"ValueError: {name}() takes at most 4096 ")
    assert told[4].startswith("RuntimeError: 1000 calls are unanswered")
    assert told[6].startswith("RuntimeError: branches, tasks and dependencies stand at most 20 deep")


async def test_a_hundred_megabytes_printed_while_calls_overlap_disturb_none_of_them(lives: Lives) -> None:
    body = """
def _talks(name):
    for i in range(25):
        print(name * 1_000_000, flush=True)
        llm(f"{name} {i}")
    return name


def sample(task):
    found = parallel([lambda name=name: _talks(name) for name in "abcd"])
    llm("die")
    return found
"""
    lived = lives.new(HEAD + body)
    assert await exact(lived) == list("abcd")
    killed, whole = view_of(lived.run).generations
    assert killed.stdout_bytes <= whole.stdout_bytes == 100 * 1_000_001
    assert whole.cut_bytes > 80 * MIB
    logs = sum(path.stat().st_size for path in (lived.run.folder / "logs").rglob("*") if path.is_file())
    assert logs < 2 * 9 * MIB
