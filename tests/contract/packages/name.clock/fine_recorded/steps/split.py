from datetime import date, datetime

from cloche import now


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


def f(date):
    return now(), datetime.fromisoformat("2026-01-01"), date.today
