from .steps.split import missing
from .steps.split import words


def word_count(task):
    return len(words(task))
