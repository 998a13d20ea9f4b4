from functools import cache
from .steps.split import words


@cache
def word_count(task):
    return len(words(task))
