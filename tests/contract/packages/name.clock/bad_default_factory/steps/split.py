from dataclasses import dataclass, field
from datetime import datetime


@dataclass
class A:
    at: datetime = field(default_factory=datetime.now)


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
