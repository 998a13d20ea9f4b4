from openprogram.agentic_programming import agent


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
