def word_count(task):
    return len(task.split())
