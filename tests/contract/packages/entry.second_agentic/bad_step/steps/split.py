from cloche import agentic_function


@agentic_function
def more(task):
    return task


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
