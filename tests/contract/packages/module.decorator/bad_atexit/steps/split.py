from functools import partial


@partial
def g():
    return 1


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
