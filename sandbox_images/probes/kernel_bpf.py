"""Make a BPF map."""

import os
import struct

from _kernel import call

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "The verifier's bugs are the kernel's."

BPF, BPF_MAP_CREATE = 321, 0
ARRAY_OF_ONE = struct.pack("IIII", 2, 4, 4, 1)


def attempt() -> str:
    os.close(call(BPF, BPF_MAP_CREATE, ARRAY_OF_ONE, len(ARRAY_OF_ONE)))
    return "made a map"
