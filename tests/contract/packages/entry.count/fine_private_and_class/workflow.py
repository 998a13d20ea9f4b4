from .steps.split import words


def word_count(task):
    return len(words(task))


def _more(task):
    return task


class Result:
    pass
