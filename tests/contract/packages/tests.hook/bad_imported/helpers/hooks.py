def pytest_runtest_call(item):
    return None
