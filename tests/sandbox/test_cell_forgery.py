"""A program that speaks on the worker's channel itself: whatever it says, it ends its own cell by name and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.sandbox.frames import Call
from engine.sandbox.outcome import Cause
from engine.sandbox.service import Sandbox
from tests.helpers.sandbox import run_package, snapshot

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]

CALL = '{"t":"call","c":%d,"scope":"/","fn":"now","n":1,"args":{},"site":"workflow.py:1"}\\n'

FORGERIES = [
    ("frame.unknown_type", 'say(\'{"t":"end","cause":"exit","detail":"","exit":0,"stragglers":0,"usage":{}}\\n\')'),
    ("frame.oversized", "say('x' * (2 << 20))"),
    ("frame.too_deep", "say('{\"t\":\"result\",\"value\":' + '[' * 100_000 + ']' * 100_000 + '}\\n')"),
    ("call.repeated", f"say('{CALL}' % 1); say('{CALL}' % 1)"),
    ("value.not_canonical", 'say(\'{"t":"result","value":{"$data":["os:system",{}]}}\\n\')'),
]
"""One of each kind: another's message, too long, too deep, out of order, a value that is none."""

MORE_FORGERIES = [
    ("frame.not_json", "say('nonsense\\n')"),
    ("frame.not_utf8", "os.write(3, b'\\xff\\xfe\\n')"),
    ("frame.not_object", "say('[1]\\n')"),
    ("frame.unknown_type", 'say(\'{"t":"hello","nonce":"x","attestation":{}}\\n\')'),
    ("frame.unknown_type", 'say(\'{"t":"ack","upto":5}\\n\')'),
    ("frame.unknown_type", 'say(\'{"t":"artifact","path":"../../x","i":1,"of":1,"size":0,"data":""}\\n\')'),
    ("frame.unknown_field", 'say(\'{"t":"result","value":1,"v":1,"g":1,"q":9}\\n\')'),
    ("frame.bad_field", 'say(\'{"t":"call","c":"1","scope":"/","fn":"now","n":1,"args":{},"site":"x"}\\n\')'),
    ("call.out_of_order", f"say('{CALL}' % 2)"),
    ("part.unknown", 'say(\'{"t":"result","value_part":7}\\n\')'),
    ("part.out_of_order", 'say(\'{"t":"part","id":5,"i":1,"of":1,"data":"1"}\\n\')'),
    ("value.not_canonical", 'say(\'{"t":"result","value":{"$set":[2,1]}}\\n\')'),
]


def ids(forgeries: list[tuple[str, str]]) -> list[str]:
    return [f"{code}-{number}" for number, (code, _) in enumerate(forgeries)]


@pytest.mark.parametrize(("code", "attack"), FORGERIES, ids=ids(FORGERIES))
async def test_a_forged_message_ends_the_program_by_its_name(
    sandbox: Sandbox, image_id: str, tmp_path: Path, code: str, attack: str
) -> None:
    await check_forged(sandbox, image_id, tmp_path, code, attack)


@pytest.mark.runc_only("the same supervisor reads the same bytes; one message of each kind is sent under both")
@pytest.mark.parametrize(("code", "attack"), MORE_FORGERIES, ids=ids(MORE_FORGERIES))
async def test_every_other_forged_message_ends_the_program_by_its_name(
    sandbox: Sandbox, image_id: str, tmp_path: Path, code: str, attack: str
) -> None:
    await check_forged(sandbox, image_id, tmp_path, code, attack)


async def check_forged(sandbox: Sandbox, image_id: str, tmp_path: Path, code: str, attack: str) -> None:
    """A program that makes this attack and waits is ended as `code`."""
    body = f"""
import os, time


def say(text):
    data = text.encode()
    while data:
        data = data[os.write(3, data):]


def sample(task):
    {attack}
    time.sleep(30)
"""
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert (story.ended.cause, story.ended.detail) == (Cause.MESSAGE, code)
    assert not story.ended.sandbox_failed
    assert len(story.of(Call)) <= 1


async def test_a_second_result_is_not_taken(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    body = """
        import os

        def sample(task):
            os.write(3, b'{"t":"result","value":"forged"}\\n')
            return "real"
    """
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert story.value == "forged"
    assert (story.ended.cause, story.ended.detail) == (Cause.MESSAGE, "frame.out_of_order")


async def test_endless_messages_are_a_limit(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    body = """
        import os

        def sample(task):
            part = b"".join(
                b'{"t":"part","id":1,"i":%d,"of":999999,"data":""}\\n' % i for i in range(1, 999_999)
            )
            while part:
                part = part[os.write(3, part):]
    """
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body), deadline_s=60)
    assert story.ended.cause is Cause.LIMIT_MESSAGES
