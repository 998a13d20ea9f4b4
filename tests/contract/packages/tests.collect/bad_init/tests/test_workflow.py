from ..workflow import word_count


def test_counts_the_words_of_a_text():
    assert word_count("one two") == 2


class TestMore:
    def __init__(self):
        self.x = 1

    def test_b(self):
        assert True
