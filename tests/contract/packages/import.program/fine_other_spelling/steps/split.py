from openprogram.programs.tools.read import read
from openprogram.programs.workflow.glob import glob as find


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
