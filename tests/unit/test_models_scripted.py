"""The scripted model: which entry answers, what is recorded of it, and files that cannot be used."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UsageError
from engine.models.provider import ModelError, ModelReply, ModelRequest, open_model
from engine.models.scripted import UnusableScript

SCRIPT = """
version = 1
[[reply]]
kind = "agent"
match = "weekly .* report"
text = "first"
usage = { input_tokens = 10 }
[[reply]]
json = { title = "t", n = 1 }
[[reply]]
match = "^broken"
error = { type = "RateLimited", message = "slow down", retryable = true }
[[reply]]
match = "again"
text = "always"
repeat = true
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "replies.toml"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def ask(path: Path, prompt: str, *, kind: Any = "agent", used: frozenset[int] = frozenset()) -> ModelReply:
    return asyncio.run(open_model(f"scripted:{path}").request(ModelRequest(kind=kind, prompt=prompt, used=used)))


def test_the_first_fitting_entry_answers_and_its_index_is_told(script: Path) -> None:
    reply = ask(script, "the weekly status report")
    assert (reply.text, reply.facts) == ("first", {"replies": [0], "usage": {"input_tokens": 10}})


def test_a_used_entry_is_passed_over(script: Path) -> None:
    reply = ask(script, "the weekly status report", used=frozenset({0}))
    assert (reply.value, reply.has_value, reply.facts) == ({"title": "t", "n": 1}, True, {"replies": [1]})


def test_an_entry_of_another_kind_is_passed_over(script: Path) -> None:
    assert ask(script, "the weekly status report", kind="llm").facts["replies"] == [1]


def test_a_repeating_entry_answers_again(script: Path) -> None:
    assert ask(script, "again", used=frozenset({1, 3})).text == "always"


def test_an_error_entry_fails_the_request_and_is_used_up(script: Path) -> None:
    with pytest.raises(ModelError) as caught:
        ask(script, "broken", used=frozenset({1}))
    assert (caught.value.type_name, caught.value.message, caught.value.retryable) == ("RateLimited", "slow down", True)
    assert caught.value.facts == {"replies": [2]}


def test_an_unmatched_prompt_is_shown_clipped_to_the_owner_and_not_in_the_error(script: Path) -> None:
    told: list[str] = []
    model = open_model(f"scripted:{script}", tell=told.append)
    request = ModelRequest(kind="agent", prompt="secret " * 1000, used=frozenset({1}))
    with pytest.raises(ModelError) as caught:
        asyncio.run(model.request(request))
    assert "secret" not in str(caught.value)
    assert "secret" in told[0]
    assert len(told[0]) < 1000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version = 2", "version"),
        ("", "version"),
        ("version = 1\n[[reply]]\n", "reply 1"),
        ("version = 1\n[[reply]]\ntext='a'\n[[reply]]\ntext='a'\njson=1\n", "reply 2"),
        ("version = 1\n[[reply]]\ntext='a'\nmach='b'\n", "mach"),
        ("version = 1\n[[reply]]\ntext='a'\nmatch='(?=x)'\n", "reply 1 match"),
        ("version = 1\n[[reply]]\ntext='a'\nkind='goal'\n", "reply 1 kind"),
        ("version = 1\n[[reply]]\ntext=3\n", "reply 1 text"),
        ("version = 1\n[[reply]]\nerror={message='no type'}\n", "reply 1 error type"),
        ("version = 1\n[[reply]]\njson=2026-01-01\n", "2026-01-01"),
        ("version = 1\n[[reply]]\ntext='a'\nusage={x=9223372036854775808}\n", "reply 1 usage"),
        ("version = 1\n[[reply]]\ntext='a'\nusage={x=nan}\n", "reply 1 usage"),
        ("version = 1\n[[reply]]\ntext='a'\nusage={x=-1}\n", "reply 1 usage"),
        ("version = 1\n[[reply]\n", "line 2"),
    ],
)
def test_a_bad_file_is_a_usage_error_that_says_where(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnusableScript, match=told) as caught:
        open_model(f"scripted:{path}")
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value)


def test_a_missing_file_and_another_provider_are_usage_errors(tmp_path: Path) -> None:
    for spec in (f"scripted:{tmp_path / 'none.toml'}", "openai:gpt", "scripted:", "", "none"):
        with pytest.raises(UsageError):
            open_model(spec)
