__all__ = ("words",)


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
