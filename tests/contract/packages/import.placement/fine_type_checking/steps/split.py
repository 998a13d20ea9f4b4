from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
