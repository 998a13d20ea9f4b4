from .workflow import reaches_out
