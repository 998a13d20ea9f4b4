from cloche.programs import glob, grep, list, read


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
