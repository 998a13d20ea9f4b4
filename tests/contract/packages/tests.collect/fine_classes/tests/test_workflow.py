import pytest
from cloche import testing
from ..workflow import word_count


def test_counts_the_words_of_a_text():
    assert word_count("one two") == 2


class TestMore:
    LIMIT = 3

    @pytest.fixture
    def text(self):
        return "a"

    @staticmethod
    def test_static():
        assert True

    def test_counts(self, text):
        assert word_count(text) < self.LIMIT

    def helper(self):
        return 1
