import pytest
from ..workflow import word_count


def test_counts_the_words_of_a_text():
    assert word_count("one two") == 2


@pytest.fixture(**{"params": [1]})
def number(request):
    return request.param
