"""The shape of a message: what changes from one occurrence to the next is replaced by what kind of thing it is."""

import re

PARTS = re.compile(
    r"""
    (?P<str>"[^"\n]*"|'[^'\n]*'(?!\w))
    |(?P<id>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)
    |(?P<time>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)?\b)
    |(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}\b)
    |(?P<hex>\b0x[0-9a-fA-F]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b)
    |(?P<n>(?<![A-Za-z0-9_])\d+(?:\.\d+)?)
    """,
    re.VERBOSE,
)


def shape_of(message):
    """The message with quoted text, ids, times, addresses, hex and numbers replaced; blanks run together."""
    return PARTS.sub(_kind, " ".join(message.split()))


def _kind(found):
    return f"<{found.lastgroup}>"
