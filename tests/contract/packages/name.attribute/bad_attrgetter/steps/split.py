from operator import attrgetter


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


def f(x):
    return attrgetter("a.__class__.__base__")(x)
