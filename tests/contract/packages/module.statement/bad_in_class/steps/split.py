class A:
    for x in (1, 2):
        pass


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
