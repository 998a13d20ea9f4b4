import cloche
from cloche import agent as ask_agent


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


def f():
    return ask_agent("x") + cloche.llm("y")
