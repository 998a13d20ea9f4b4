from .steps.split import words


def word_count(task: str = "") -> int:
    return len(words(task))
