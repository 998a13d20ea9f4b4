"""Append the last word to the supervisor's file, and make a file beside it."""

import os

GROUP = "exchange"
EXPECT = "EACCES"
WHY = "The files are believed because nobody but the supervisor can write them."

END = b'{"v":1,"g":1,"q":3,"t":"end","cause":"exit","detail":"returned","exit":0,"stragglers":0,"usage":{}}\n'


def attempt() -> str:
    refused = []
    for path, flags in (("000001.seg", os.O_WRONLY | os.O_APPEND), ("000002.seg", os.O_WRONLY | os.O_CREAT)):
        try:
            descriptor = os.open(f"/cloche/out/{path}", flags, 0o660)
        except OSError as error:
            refused.append(error)
            continue
        os.write(descriptor, END)
        return f"wrote to {path}"
    raise refused[0]
