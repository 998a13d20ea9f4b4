from ..helpers.hooks import pytest_runtest_call
