from cloche.programs import list as list_folder
from cloche.programs import read


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
