from cloche import agentic_function as af
from .steps.split import words


@af
def word_count(task):
    return len(words(task))
