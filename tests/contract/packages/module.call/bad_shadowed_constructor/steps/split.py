def date(*parts):
    return parts


X = date(2026, 1, 1)


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
