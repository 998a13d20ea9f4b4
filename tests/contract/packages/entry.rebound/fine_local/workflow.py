from .steps.split import words


def word_count(task):
    return len(words(task))


def _count(text):
    word_count = len(text)
    return word_count
