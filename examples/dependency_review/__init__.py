from .workflow import dependency_review
