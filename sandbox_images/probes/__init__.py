"""Attempts against the cell, one per file: `attempt()` returns how it got through, or raises what stopped it.

The docstring says what is tried, EXPECT what must stop it, WHY it matters. Read as text on the host, run only in containers.
"""
