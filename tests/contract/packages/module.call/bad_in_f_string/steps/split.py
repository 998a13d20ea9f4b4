X = f"{max(1, 2)}"


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
