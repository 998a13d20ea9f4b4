from .steps.split import words


def count_words(task):
    return len(words(task))
