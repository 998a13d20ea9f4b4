from .workflow import word_count

word_count = word_count
