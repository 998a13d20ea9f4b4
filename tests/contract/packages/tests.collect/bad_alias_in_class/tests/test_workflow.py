from ..workflow import word_count


def test_counts_the_words_of_a_text():
    assert word_count("one two") == 2


class TestMore:
    def test_a(self):
        assert True

    test_b = test_a
