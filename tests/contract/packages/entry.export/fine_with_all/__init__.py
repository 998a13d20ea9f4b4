"""Counts words."""

from .workflow import word_count

__all__ = ["word_count"]
