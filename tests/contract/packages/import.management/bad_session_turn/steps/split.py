from openprogram.agentic_programming import run_agent_turn


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
