from .steps.split import words


def word_count(task, **more):
    return len(words("x"))
