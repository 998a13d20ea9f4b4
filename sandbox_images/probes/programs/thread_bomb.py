"""Start 200 threads."""

import threading

GROUP = "resources"
EXPECT = "RuntimeError"
WHY = "Threads are processes to the kernel, and to its table."
SETTINGS = {"processes": 24}


def attempt() -> str:
    over = threading.Event()
    started = 0
    try:
        for _ in range(200):
            threading.Thread(target=over.wait, daemon=True).start()
            started += 1
    finally:
        over.set()
    return f"{started} threads"
