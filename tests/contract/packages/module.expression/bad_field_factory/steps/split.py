from dataclasses import dataclass, field


@dataclass
class A:
    x: list = field(default_factory=lambda: [])


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
