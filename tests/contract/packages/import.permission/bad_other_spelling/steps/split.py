from openprogram.programs.tools.grep import grep


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
