from .steps.split import words


def word_count(task="a" + "b"):
    return len(words("x"))
