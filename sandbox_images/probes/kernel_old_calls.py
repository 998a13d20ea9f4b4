"""Make a system call by the interface of 32-bit programs."""

import ctypes
import mmap

GROUP = "kernel"
EXPECT = {"runc": "crashed"}
WHY = "Its numbers are others, so that a filter by number must know them too."

GETPID = bytes.fromhex("b814000000cd80c3")  # mov eax, 20; int 0x80; ret


def attempt() -> str:
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(GETPID)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    return f"its number is {function()}"
