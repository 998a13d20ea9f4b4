import cloche


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


def go_on():
    return cloche.ask("Go on?", {"type": "boolean"})
