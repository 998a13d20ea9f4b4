def __getattr__(name):
    raise AttributeError(name)


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
