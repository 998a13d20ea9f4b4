"""Names of distributions: one spelling for all that mean the same."""

import re

SEPARATORS = re.compile(r"[-_.]+")


def normalise(name):
    """Lower case, runs of `-`, `_` and `.` as one `-`."""
    return SEPARATORS.sub("-", name).lower()
