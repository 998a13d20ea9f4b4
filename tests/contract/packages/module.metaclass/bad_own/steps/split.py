class Meta(type):
    pass


class A(metaclass=Meta):
    pass


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
