import datetime
import io


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


def f(job):
    return job.os, job.random, io.StringIO("x"), datetime.time(1, 2)
