from .steps.split import words


def word_count(task):
    return len(words(task))


def _swap():
    global word_count
    word_count = None
