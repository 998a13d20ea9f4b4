"""Breaks the contract on purpose."""

import os
import random

from cloche import agent, telepathy

STARTED = os.environ.get("HOME")

print("imported")


def invalid_package(task, verbose=False):
    """Two parameters, a clock of its own, and text as code."""
    import datetime

    return eval(task), datetime.datetime.now(), random.random(), agent("x"), telepathy


def second_entry(task):
    """One public function too many."""
    return task
