from .steps.split import words


def word_count(task):
    yield len(words(task))
