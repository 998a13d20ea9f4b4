from functools import lru_cache


@lru_cache(maxsize=len("a"))
def f():
    return 1


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
