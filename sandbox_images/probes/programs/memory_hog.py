"""Take 256 MiB of memory."""

GROUP = "resources"
EXPECT = "limit:memory"
WHY = "Memory without end, or swap in its place, takes the machine down; what is over the bound must die alone and by name."
SETTINGS = {"memory_bytes": 100_663_296}

MIB = 1024 * 1024


def attempt() -> str:
    held = [b"x" * (8 * MIB) for _ in range(32)]
    return f"took {len(held) * 8} MiB"
