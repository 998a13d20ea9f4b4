def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


class A:
    __slots__ = ("x",)

    def __init__(self):
        self.x = type(self).__name__

    def __reduce__(self):
        return A, ()

    def __eq__(self, other):
        return self.__class__ is other.__class__
