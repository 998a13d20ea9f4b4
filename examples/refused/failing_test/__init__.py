from .workflow import failing_test
