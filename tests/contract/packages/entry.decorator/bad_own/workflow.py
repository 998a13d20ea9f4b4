from .steps.split import words as agentic_function
from .steps.split import words


@agentic_function
def word_count(task):
    return len(words(task))
