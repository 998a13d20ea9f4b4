def set(*parts):
    return parts


X = set()


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
