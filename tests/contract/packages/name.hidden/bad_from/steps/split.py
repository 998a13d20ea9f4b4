from io import open as reader


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


def f():
    return reader("x")
