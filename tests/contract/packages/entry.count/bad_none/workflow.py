from .steps.split import words


def _word_count(task):
    return len(words(task))
