"""See test_more."""
