from ..helpers.deep import inner
from ..helpers.deep.inner import X
from .. import helpers


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
