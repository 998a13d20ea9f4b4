"""Every place that a cell can write: found from inside, compared with docs/reference/limits.md, and filled."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import indent

import pytest

from engine.run.generation import Limits
from engine.run.status import Status
from engine.sandbox import exchange
from engine.sandbox.docker import Engine
from engine.sandbox.policy import SEGMENT_FLOOR_BYTES, CellPolicy, Runtime
from engine.sandbox.runtimes import expected
from engine.sandbox.service import Sandbox
from engine.settings import Settings
from tests.helpers.first_process import first_process
from tests.helpers.lives import Lives
from tests.helpers.sandbox import make_sandbox, nothing_left, run_package, snapshot
from tests.helpers.small_disk import SmallDisk, small_disk

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]

MIB = 1024 * 1024
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "limits.md"

WALK = """
import os, re

def opens(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
        return True
    except OSError:
        return False

def makes(folder):
    try:
        os.mkdir(folder + "/.made")
        os.rmdir(folder + "/.made")
        return True
    except OSError:
        return False

def walk():
    found = set()
    for top, folders, files in os.walk("/"):
        if top == "/proc":
            folders[:] = [name for name in folders if name in ("self", "1") or not name.isdigit()]
        if re.fullmatch("/proc/[^/]+", top):
            folders[:] = [name for name in folders if name not in ("task", "fd", "fdinfo", "map_files")]
        if makes(top):
            found.add(top)
        found |= {shown(path) for path in (top.rstrip("/") + "/" + name for name in files) if opens(path)}
    return sorted(found)

def shown(path):
    # a masked file is /dev/null under another name
    return "/dev/null" if os.stat(path).st_rdev == os.stat("/dev/null").st_rdev else path
"""

TAKEN_WALK = (
    WALK
    + """
import json
with open("/cloche/out/000001.seg", "w") as file:
    json.dump(walk(), file)
"""
)


def rows() -> list[dict[str, str]]:
    """The table of places, one dict per line."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(head, cells, strict=True)) for cells in body]


def stated(who: str, runtime: Runtime) -> set[str]:
    """Paths that this one can write, as the page says, but for those that the table of differences takes out."""
    found = {row["place"].strip("`") for row in rows() if who in row["who writes"] and row["place"].startswith("`/")}
    if not expected(runtime, "bell_opens_for_writing"):
        found -= {"/cloche/out/bell"}
    if who == "program" and not expected(runtime, "proc_self_writable"):
        found -= {"/proc/self/*"}
    return found


def known(paths: list[str]) -> set[str]:
    """Each path as the page would call it."""
    short = (re.sub(r"^/proc/(self|1)/.*", "/proc/self/*", path) for path in paths)
    short = (re.sub(r"^/tmp/.*", "/tmp", path) for path in short)
    return {re.sub(r"^/dev/(null|zero|full|random|urandom|tty)$", "/dev/*", path) for path in short}


def without_its_own(paths: set[str], runtime: Runtime) -> set[str]:
    """Without what the runtime keeps in its memory by itself."""
    return {path for path in paths if not re.fullmatch(str(expected(runtime, "places_of_the_sandbox")), path)}


async def test_the_program_can_write_what_the_page_says_and_nothing_else(
    sandbox: Sandbox, image_id: str, tmp_path: Path, runtime: Runtime
) -> None:
    body = indent(WALK, "        ") + "\n        def sample(task):\n            return walk()\n"
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert without_its_own(known(story.value), runtime) == stated("program", runtime)


def test_a_supervisor_that_was_taken_over_can_write_what_the_page_says_and_nothing_else(
    sandbox: Sandbox, image_id: str, runtime: Runtime
) -> None:
    with first_process(sandbox, image_id, TAKEN_WALK) as ended:
        found = without_its_own(known(json.loads(ended.said)), runtime)
    assert found == stated("PID 1", runtime)


MORE: dict[str, tuple[str, Callable[[CellPolicy], CellPolicy]]] = {
    "another tmpfs": ("/var", lambda p: p.with_tmpfs("/var", "size=1048576,mode=1777")),
    "writable outbox": ("/cloche/out", lambda p: p.with_outbox(read_only=False)),
    "writable inbox": ("/cloche/in", lambda p: p.with_inbox(read_only=False)),
}


@pytest.mark.runc_only("4 s; a control of the walk, which is the same program")
@pytest.mark.parametrize("name", MORE)
def test_a_writable_place_more_is_found(sandbox: Sandbox, image_id: str, name: str) -> None:
    place, weaken = MORE[name]
    with first_process(sandbox, image_id, TAKEN_WALK, policy=weaken(sandbox.policy("run"))) as ended:
        assert place in known(json.loads(ended.said)) - stated("PID 1", "runc")


FILL = """
    import ctypes, fcntl, json, os, signal, struct

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    told = []

    def attempt(what):
        try:
            what()
            told.append("done")
        except OSError:
            told.append("refused")

    def fill(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        while True:
            os.write(descriptor, bytes(65536))

    def reserve(descriptor, mode):
        if libc.fallocate(descriptor, mode, 0, 1 << 30):
            raise OSError(ctypes.get_errno(), "")

    def make(path):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))

    first, second = (os.open(f"/cloche/out/00000{n}.seg", os.O_RDWR) for n in (1, 2))
    for uid in (None, 12345):
        if uid:
            attempt(lambda: os.setresuid(-1, uid, -1))
        for folder in ("/cloche/out", "/cloche/in", "/etc", "/var"):
            attempt(lambda: make(folder + "/made"))
            attempt(lambda: os.chmod(folder, 0o777))
    reached = len(told)
    attempt(lambda: reserve(second, 1))
    attempt(lambda: reserve(second, 0))
    attempt(lambda: fcntl.ioctl(second, 0x40305828, struct.pack("hhqqi4I", 0, 0, 0, 1 << 30, 0, 0, 0, 0, 0)))
    attempt(lambda: os.ftruncate(second, 1 << 40))
    attempt(lambda: fill("/cloche/out/000002.seg"))
    for number in range(20):
        attempt(lambda: make(f"/tmp/{number}"))
        attempt(lambda: fill(f"/tmp/{number}"))
    for descriptor in (1, 2):
        for _ in range(512):
            os.write(descriptor, bytes(65536))
    os.write(first, json.dumps([told[:reached], told[reached:reached + 5]]).encode())
    attempt(lambda: fill("/cloche/out/000001.seg"))
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", size="160m", inodes=20_000) as made:
        yield made


def used(disk: SmallDisk) -> int:
    found = os.statvfs(disk.root)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def engine_bytes(engine: Engine, container: str) -> int:
    """What the engine's own disk holds of a container: its layer and its folder of logs and files."""
    shown = engine.inspect(container)
    folders = [Path(shown["GraphDriver"]["Data"]["UpperDir"]), Path(shown["HostsPath"]).parent]
    return sum(path.lstat().st_blocks * 512 for folder in folders for path in folder.rglob("*"))


def test_what_a_taken_supervisor_fills_stays_below_its_sum_and_is_given_back(
    disk: SmallDisk, engine: Engine, image_id: str
) -> None:
    sandbox = make_sandbox(disk.home, engine, file_bytes=16 * MIB)
    before = used(disk)
    with first_process(sandbox, image_id, FILL) as ended:
        refused, reserved = json.loads(ended.said)
        assert {answer for answer in refused if answer != "done"} == {"refused"}
        assert refused.count("done") <= 1, "setresuid at most"
        assert set(reserved) == {"refused"}
        assert exchange_out(sandbox.settings) * 9 // 10 < used(disk) - before < exchange_out(sandbox.settings) + MIB
        assert engine_bytes(engine, ended.container) < MIB
    assert used(disk) - before < MIB // 10


def exchange_out(settings: Settings) -> int:
    """Both files of the cell's segments, each as large as a file may be."""
    return 2 * max(settings.file_bytes, SEGMENT_FLOOR_BYTES)


def of_a_run(settings: Settings) -> int:
    """The stated sum: what one run and its one cell can make of the disk of `home`, packages left out."""
    unread = exchange.UNREAD_VALUES * settings.value_bytes + exchange.UNREAD_BYTES
    kept = settings.record_bytes + 2 * 2 * settings.output_bytes + settings.output_files_bytes
    return exchange_out(settings) + unread + kept + MIB


FLOOD = """
    import os
    from cloche import emit, llm

    def sample(task):
        os.makedirs("/tmp/output", exist_ok=True)
        for descriptor in (1, 2):
            for _ in range(100):
                os.write(descriptor, b"x" * 65536)
        for number in range(7):
            with open(f"/tmp/output/{number}", "wb") as file:
                file.write(os.urandom(1 << 20))
        number = 0
        while True:
            number += 1
            llm(f"{number}" + "y" * 400_000)
"""


@pytest.mark.runc_only("what is bounded here is written by the host")
@pytest.mark.timeout(120)
async def test_a_run_that_records_and_writes_without_end_stays_below_the_stated_sum(
    disk: SmallDisk, engine: Engine, image_id: str
) -> None:
    small = {"output_bytes": MIB, "output_files_bytes": 8 * MIB, "value_bytes": MIB, "record_bytes": 8 * MIB}
    sandbox = make_sandbox(disk.home, engine, tmp_bytes=16 * MIB, file_bytes=8 * MIB, **small)
    before, most = used(disk), 0

    def look(_view: object) -> None:
        nonlocal most
        most = max(most, used(disk) - before)

    with nothing_left(sandbox):
        lives = Lives(sandbox, image_id, disk.home)
        lived = lives.new("from cloche import *\n" + re.sub("(?m)^    ", "", FLOOD))
        lived.limits = Limits(
            record_bytes=small["record_bytes"], output_bytes=small["output_bytes"], value_bytes=small["value_bytes"]
        )
        view = await lived.live(watch=look)
        look(view)
    assert (view.status, view.reason) == (Status.FAILED, "limit:record")
    assert 8 * MIB < most < of_a_run(sandbox.settings)
    assert (lived.run.folder / "state.json").stat().st_size < MIB


@cache
def sum_on_the_page() -> int:
    found = re.search(r"together ([0-9,]+) bytes", PAGE.read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1].replace(",", ""))


@pytest.mark.runc_only("about the page, without a cell")
def test_the_page_states_the_sum_of_the_default_settings(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert sum_on_the_page() == of_a_run(settings)
    assert dict(CellPolicy.from_settings(settings, "runc", "run").ulimits)["fsize"] * 2 == exchange_out(settings)


@pytest.mark.runc_only("about the page, without a cell")
def test_every_place_of_the_page_names_a_test_that_exists() -> None:
    for row in rows():
        for named in re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", row["test"]):
            text = (ROOT / named[0]).read_text(encoding="utf-8")
            assert not named[1] or f"def {named[1]}(" in text, named
        assert "`" in row["test"], row["place"]
