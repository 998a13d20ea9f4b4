class A:
    def __init__(self, x):
        pass


class B(A, x=sorted("a")):
    pass


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
