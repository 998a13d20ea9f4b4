def meta(name, bases, body):
    return None


class A(metaclass=meta):
    pass


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
