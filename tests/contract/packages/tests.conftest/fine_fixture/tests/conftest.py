import pytest

TEXT = "one two"


def _text():
    return TEXT


@pytest.fixture(scope="module", autouse=True)
def text():
    return _text()
