from workflows.requirements_parse import requirements_parse as parsed


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
