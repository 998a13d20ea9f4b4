from json import loads as frozenset

X = frozenset("1")


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
