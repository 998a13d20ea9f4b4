from cloche import agentic_function
from .steps.split import words


@agentic_function(**{"name": "x"})
def word_count(task):
    return len(words(task))
