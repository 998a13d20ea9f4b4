from .workflow import word_count as wc
