import re

FLAGS = re.ASCII
KEY = str.lower


def total(numbers, key=None):
    doubled = [2 * number for number in numbers]
    return sum(sorted(doubled, key=lambda number: -number))


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
