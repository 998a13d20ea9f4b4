"""Target: the file of a scripted model, and what it answers."""

from __future__ import annotations

import asyncio
from random import Random

from cloche_guest import codec

from engine.jsontext import compact
from engine.models.provider import ModelError, ModelRequest
from engine.models.scripted import ScriptedModel, UnusableScript
from tests.fuzz.mutation import mutated_bytes
from tests.fuzz.target import Target, scratch

PROMPTS = ("weekly report", "a" * 2000, "", "日本\n\0")


def check(data: bytes) -> None:
    """The file is refused with words, or answers with what can be recorded."""
    with scratch() as directory:
        path = directory / "model.toml"
        path.write_bytes(data)
        try:
            model = ScriptedModel.load(path)
        except UnusableScript as error:
            str(error).encode()
            return
    for prompt in PROMPTS:
        for used in (frozenset[int](), frozenset({0, 1})):
            _answer(model, prompt, used)


def _answer(model: ScriptedModel, prompt: str, used: frozenset[int]) -> None:
    asked = ModelRequest(
        kind="agent", prompt=prompt, model="", effort="", schema=None, schema_name="", timeout_s=1.0, used=used
    )
    try:
        reply = asyncio.run(model.request(asked))
    except ModelError as error:
        compact(error.facts)
        return
    compact(reply.facts)
    codec.text(codec.encode(reply.value if reply.has_value else reply.text))


def seeds() -> list[bytes]:
    """Every form of entry."""
    return [
        b'version = 1\n[[reply]]\nkind = "agent"\nmatch = "weekly .*"\njson = { title = "x", n = [1, 2.5] }\nrepeat = true\n',
        b'version = 1\n[[reply]]\nmatch = "a*"\njson = []\nusage = { input_tokens = 10, cost = 0.5 }\n',
        b'version = 1\n[[reply]]\ntext = "a"\n[[reply]]\nerror = { type = "E", message = "m", retryable = true }\n',
        b'version = 1\n[[reply]]\nkind = "llm"\nmatch = "^(a+)+$|\\\\d{2,5}[[:alpha:]]"\ntext = """\nlong\n"""\n',
        b"version = 1\n",
    ]


def mutate(data: bytes, rng: Random) -> bytes:
    """A value replaced, or bytes changed."""
    if rng.random() < 0.4:
        return mutated_bytes(data, rng)
    made = data.split(b"\n")
    at = rng.randrange(len(made))
    if rng.random() < 0.3:
        made.insert(at, rng.choice(made))
    else:
        made[at] = made[at].split(b"=")[0] + b"= " + rng.choice(ODD)
    return b"\n".join(made)


ODD = [
    b"1", b"9" * 5000, b"nan", b"-inf", b"1e999", b"9223372036854775808", b"[" * 2000, b"{a=" * 1000, b"1979-05-27",
    b"07:32:00", b"{}", b'"(?i)a{1000}{1000}"', b'"(a*)*b"', b'"\\\\C"', b"'(?=x)'", b'"\\u0000"', b'"("', b"[]",
    b"{x = nan}", b"{x = 9223372036854775808}", b"{x = 10000000000000000000000000000}", b"true",
    b"[[1979-05-27T07:32:00Z]]", b'{"" = ""}', b"{'$set' = [1]}", b"2",
]  # fmt: skip

TARGET = Target("script", seeds, check, mutate)
