def _f(cls):
    print(cls)


class A:
    __init_subclass__ = _f


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
