from .steps.split import words


def word_count(task):
    def each():
        yield from words(task)

    return len(list(each()))
