import pytest

from .. import word_count

NUMBERS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("a", NUMBERS)
@pytest.mark.parametrize("b", NUMBERS)
@pytest.mark.parametrize("c", NUMBERS)
def test_one(a, b, c):
    assert word_count("a")


@pytest.mark.parametrize("a", NUMBERS)
@pytest.mark.parametrize("b", NUMBERS)
@pytest.mark.parametrize("c", NUMBERS)
def test_two(a, b, c):
    assert word_count("a")
