from .workflow import word_count
