"""Entry: count the words of a text."""

from .helpers.words import words


def failing_test(task):
    """How many words `task` has."""
    return len(words(task))
