from datetime import time

from cloche import new_id, now, random


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
