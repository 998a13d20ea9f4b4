import pytest
from ..workflow import word_count


def test_counts_the_words_of_a_text():
    assert word_count("one two") == 2


@pytest.mark.parametrize("n", "abc")
def test_more(n):
    assert n
