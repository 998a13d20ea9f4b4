from openprogram.programs.workflow.auto_workflow import auto_workflow as go


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
