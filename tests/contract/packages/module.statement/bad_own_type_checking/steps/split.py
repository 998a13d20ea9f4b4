TYPE_CHECKING = True

if TYPE_CHECKING:
    import re


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
