class A:
    def wrap(f):
        return f

    @wrap
    def g(self):
        return 1


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
