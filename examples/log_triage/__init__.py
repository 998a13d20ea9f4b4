from .workflow import log_triage
