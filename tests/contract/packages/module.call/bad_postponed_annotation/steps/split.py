from __future__ import annotations


def f(x: print("a")) -> None:
    return x


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
