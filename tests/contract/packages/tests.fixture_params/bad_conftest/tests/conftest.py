import pytest


@pytest.fixture(params=[1, 2])
def number(request):
    return request.param
