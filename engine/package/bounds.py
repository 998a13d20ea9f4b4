"""Bounds of a package: what a reader of hostile trees may be made to do at most."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

FILE_BYTES = 1 * MIB
"""Largest file."""
PYPROJECT_BYTES = 64 * KIB
"""pyproject.toml; rewriting it takes time quadratic in its length."""
PYPROJECT_DOTS = 500
"""Dots outside strings and comments of pyproject.toml; keys of many parts, or many of them, take minutes to read or rewrite."""
TREE_BYTES = 5 * MIB
"""All files together."""
FILES = 200
"""Number of files."""
PATH_CHARACTERS = 200
"""Length of a path relative to the package."""
PATH_LEVELS = 12
"""Components of a path, the file's name included."""
NESTING = 100
"""Depth of brackets, and of the syntax tree of a module."""
SCANNED_ENTRIES = 5000
"""Directory entries looked at, ignored ones included, before a tree counts as having too many files."""
CASES = 2000
"""Test cases of a package; each runs in a process of its own."""
TOKENS = 200_000
"""Words, numbers, strings and signs of all Python files together: a syntax node each, of which judging takes up to 15 µs.
About 25,000 lines."""
LOCATED = 50
"""Keys of pyproject.toml that a diagnostic gives the line of; finding one means reading the whole file."""
UNKNOWN_KEYS = 20
"""Unknown keys that are reported."""
