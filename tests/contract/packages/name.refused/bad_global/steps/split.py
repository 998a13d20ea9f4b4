def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


def f():
    def inner(open):
        def deeper():
            global open
            return open("x")

        return deeper

    return inner
