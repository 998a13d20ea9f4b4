"""Packages that would be published although they fail: each file is the test module of one, with a test that must not pass.

ENTRY and CONFTEST, where a file has them, are the package's `workflow.py` and `tests/conftest.py`. What a case named
`test_aa_…` makes of itself is its own affair; what becomes of the others decides.
"""
