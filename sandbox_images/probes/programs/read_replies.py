"""Read what the host sends to the supervisor, answers to others among it."""

import os

GROUP = "exchange"
EXPECT = "EACCES"
WHY = "Jobs, answers and large values are for whoever asked; the file also tells what comes next."


def control() -> None:
    with open("/cloche/in/000001.seg", "w") as file:
        file.write("what the host says")


def attempt() -> str:
    refused = []
    for path in ("/cloche/in/000001.seg", "/cloche/in/parts"):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            refused.append(error)
            continue
        os.close(descriptor)
        return f"opened {path}"
    raise refused[0]
