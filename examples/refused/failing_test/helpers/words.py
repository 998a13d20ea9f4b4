"""A text as words."""


def words(text):
    """The words of a text. Wrong: two blanks in a row make an empty word."""
    return text.split(" ")
