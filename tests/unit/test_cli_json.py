"""JSON on stdout, which a terminal may show: the same values, and nothing in it that a terminal obeys."""

from __future__ import annotations

import json

import pytest

from cli import output


def test_what_a_terminal_would_obey_is_escaped_and_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"text": "\x1b[31m\x9b31m\u202e\u2066\U000e0001\x7f\r\n\t é 日 😀", "\x9b": [1, None]}
    output.data(value)
    text = capsys.readouterr().out
    assert json.loads(text) == value
    assert all(c == "\n" or c.isprintable() for c in text)
    assert "é 日 😀" in text
