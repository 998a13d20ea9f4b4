import pytest


@pytest.fixture
def text():
    return "one"
