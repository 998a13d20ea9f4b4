from .steps.split import words


async def word_count(task):
    return len(words(task))
