"""What reads untrusted or damaged bytes, under attack: one target per reader, each with seeds, a mutator and a property.

The same checks run in the suite, driven by Hypothesis (`tests/unit/test_fuzz_*.py`), and for hours, driven by coverage
(`make fuzz`, docs/reference/fuzzing.md).
"""
