def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


def f(x):
    match x:
        case object(__dict__=found):
            return found
    return None
