from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import requests


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
