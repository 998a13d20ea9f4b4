from cloche.programs import run_task_list


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
