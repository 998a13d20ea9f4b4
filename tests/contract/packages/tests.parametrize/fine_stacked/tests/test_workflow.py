import pytest
from pytest import mark

TEXTS: list = ["a", "a b"]
from ..workflow import word_count


def test_counts_the_words_of_a_text():
    assert word_count("one two") == 2


@pytest.mark.parametrize(("a", "b"), [(1, 2), pytest.param(3, 4, id="x")], ids=["p", "q"])
@mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("n", argvalues=(1,))
def test_more(a, b, text, n):
    assert word_count(text)
