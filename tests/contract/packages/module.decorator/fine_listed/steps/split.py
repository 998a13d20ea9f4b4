import functools
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache as remember
from functools import singledispatch


@remember(maxsize=None)
def square(number):
    return number * number


@contextmanager
def noted(what):
    yield what


@singledispatch
def shown(value):
    return str(value)


@shown.register
def _(value: int):
    return hex(value)


@functools.total_ordering
@dataclass
class Size:
    value: int

    def __lt__(self, other):
        return self.value < other.value

    @property
    def double(self):
        return 2 * self.value

    @double.setter
    def double(self, value):
        self.value = value // 2


def wrapped(function):
    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments)

    return inner


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
