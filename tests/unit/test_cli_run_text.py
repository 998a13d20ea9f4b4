"""How `cloche runs show` words the parts of a run that are not words yet."""

from __future__ import annotations

import pytest

from cli.call_text import as_code


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("{}", ""),
        ('{"path":"a.txt"}', 'path="a.txt"'),
        ('{"path":"a, \\"b\\":1","offset":0}', 'path="a, \\"b\\":1", offset=0'),
        ('{"event":{"done":1,"of":[2]},"x":null}', 'event={"done":1,"of":[2]}, x=null'),
        ('{"limit":5,"prompt":"a long te…', 'limit=5, prompt="a long te…'),
        ("(large, in blobs/0123…)", "(large, in blobs/0123…)"),
    ],
)
def test_arguments_are_shown_as_code_writes_them(recorded: str, shown: str) -> None:
    assert as_code(recorded) == shown
