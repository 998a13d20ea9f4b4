from ..workflow import word_count


def check():
    assert word_count("a") == 1
