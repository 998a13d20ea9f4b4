import pytest
from ..workflow import word_count


def test_counts_the_words_of_a_text():
    assert word_count("one two") == 2


@pytest.mark.skip(reason="x")
class TestMore:
    def test_a(self):
        assert 1

    def test_b(self):
        assert 1
