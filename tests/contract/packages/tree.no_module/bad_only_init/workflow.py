from .steps import words


def word_count(task):
    return len(words(task))
