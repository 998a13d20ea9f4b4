from .steps.split import words as word_count
