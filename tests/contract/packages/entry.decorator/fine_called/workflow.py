from openprogram.agentic_programming import agentic_function
from .steps.split import words


@agentic_function()
def word_count(task):
    return len(words(task))
