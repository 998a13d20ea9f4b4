from .workflow import weekly_report
