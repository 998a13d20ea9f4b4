import pytest
from ..workflow import word_count


def test_counts_the_words_of_a_text():
    assert word_count("one two") == 2


def test_more():
    with pytest.raises(ValueError, match="empty"):
        word_count("")
    assert word_count("a") == pytest.approx(1)
