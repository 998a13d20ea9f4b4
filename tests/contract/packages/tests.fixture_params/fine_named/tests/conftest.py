import pytest


@pytest.fixture(name="number")
def _number():
    return 1
