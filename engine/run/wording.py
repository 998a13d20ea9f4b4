"""Foreign text made fit for records and terminals: valid UTF-8 and bounded, with the cut said."""

from __future__ import annotations

MESSAGE_CHARACTERS = 8 * 1024
TRACEBACK_CHARACTERS = 32 * 1024
LABEL_CHARACTERS = 200


def clean(text: str, limit: int) -> str:
    """At most about `limit` characters of `text`; lone surrogates are written as `\\udNNN`."""
    valid = text.encode("utf-8", "backslashreplace").decode()
    if len(valid) <= limit:
        return valid
    return f"{valid[:limit]} … ({len(valid) - limit} more characters)"


def clean_end(text: str, limit: int) -> str:
    """As `clean`, but the end is kept: what matters in a traceback stands last."""
    valid = text.encode("utf-8", "backslashreplace").decode()
    if len(valid) <= limit:
        return valid
    return f"({len(valid) - limit} more characters) … {valid[-limit:]}"
