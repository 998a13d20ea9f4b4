"""Output files of real cells whose programs leave what is meant to hurt the collecting of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.sandbox.outcome import Cause
from engine.sandbox.policy import Runtime
from engine.sandbox.runtimes import expected
from engine.sandbox.service import Sandbox
from tests.helpers.sandbox import run_package, snapshot

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]

ODD = """
    import os, sys
    from pathlib import Path

    def sample(task):
        out = Path("/tmp/output")
        out.mkdir(exist_ok=True)
        (out / "kept").write_text("kept")
        os.link(out / "kept", out / "twice")
        (out / "to_supervisor").symlink_to("/proc/1/environ")
        (out / "to_snapshot").symlink_to("/cloche/in/snapshot/workflows/sample/workflow.py")
        (out / "loop").symlink_to("loop")
        (out / "up").symlink_to("../..")
        with open(out / "sparse", "wb") as file:
            file.truncate(1 << 20)
        os.close(os.open(out / "shut", os.O_CREAT, 0))
        os.mkdir(out / "closed", 0)
        (out / "new\\nline").touch()
        (out / os.fsdecode(b"\\xff")).touch()
        (out / "-rf").touch()
        os.chdir(out)
        for _ in range(300):
            os.mkdir("deep")
            os.chdir("deep")
"""

LEFT_OUT = {
    "to_supervisor": "a link",
    "to_snapshot": "a link",
    "loop": "a link",
    "up": "a link",
    "shut": "unreadable: Permission denied",
    "closed": "unreadable: Permission denied",
    "new\\nline": "a name that cannot be kept",
    "\\udcff": "a name that cannot be kept",
    "/".join(["deep"] * 12): "too deep",
}


async def test_only_plain_files_come_and_the_end_says_what_was_left_out(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", ODD))
    assert story.files == {"kept": b"kept", "twice": b"kept", "-rf": b"", "sparse": bytes(1 << 20)}
    named = dict(entry.split(": ", 1) for entry in story.word.usage["skipped"])
    assert named == LEFT_OUT
    (note,) = story.ended.notes
    assert note.startswith(f"{len(LEFT_OUT)} entries of /tmp/output were left out: ")
    assert story.ended.cause is Cause.EXIT


MANY = """
    import os

    def sample(task):
        os.makedirs("/tmp/output", exist_ok=True)
        made = 0
        try:
            for made in range(100_000):
                os.close(os.open(f"/tmp/output/{made}", os.O_CREAT))
        except OSError as error:
            return made
"""


@pytest.mark.runc_only("6 s; /tmp and the count of entries have tests under both")
async def test_a_hundred_thousand_files_are_refused_by_tmp_or_by_the_limit(
    sandbox: Sandbox, image_id: str, tmp_path: Path, runtime: Runtime
) -> None:
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", MANY))
    if expected(runtime, "tmp_inodes_bounded"):
        assert 10_000 < story.value < 20_000
    else:
        assert story.value is None
    assert (story.ended.cause, story.ended.detail) == (Cause.LIMIT_OUTPUT_FILES, "more than 11000 entries")
    assert story.files == {}


RESTLESS = """
    import os

    def sample(task):
        os.makedirs("/tmp/output/a/b", exist_ok=True)
        with open("/tmp/output/a/b/file", "wb") as file:
            file.write(b"x" * 300_000)
        for _ in range(4):
            if os.fork() == 0:
                os.setsid()
                while True:
                    try:
                        os.rename("/tmp/output/a", "/tmp/output/z")
                        os.symlink("/etc", "/tmp/output/a")
                        with open("/tmp/output/z/b/file", "wb") as file:
                            file.write(b"y" * 100_000)
                        os.unlink("/tmp/output/a")
                        os.rename("/tmp/output/z", "/tmp/output/a")
                    except OSError:
                        pass
"""


async def test_processes_that_change_the_files_are_dead_before_they_are_read(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", RESTLESS))
    assert story.ended.cause is Cause.EXIT
    assert story.ended.stragglers == 4
    assert set(story.files) <= {"a/b/file", "z/b/file"}
    assert {entry.split(": ")[1] for entry in story.word.usage["skipped"]} <= {"a link"}
    assert story.word.usage["output_files"] == len(story.files)


async def test_an_output_folder_that_became_a_link_gives_nothing(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        import os

        def sample(task):
            if os.path.isdir("/tmp/output"):
                os.rmdir("/tmp/output")
            os.symlink("/cloche/in/snapshot", "/tmp/output")
    """
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert story.files == {}
    assert story.ended.notes == ("1 entries of /tmp/output were left out: .: not a folder",)
