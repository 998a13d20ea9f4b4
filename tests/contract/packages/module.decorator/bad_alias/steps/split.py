from functools import cache as property_
from functools import reduce as cache


@cache
def g():
    return 1


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
