from cloche import agentic_function as af


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


def f():
    @af()
    def inner(task):
        return task

    return inner
