from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
else:
    import re


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
