"""Make shared memory, semaphores or message queues of System V or POSIX."""

from functools import partial

from _kernel import any_of, call

GROUP = "kernel"
EXPECT = {"runc": "EPERM"}
WHY = "They are outside every file system's bounds."

SHMGET, SEMGET, MSGGET, MQ_OPEN = 29, 64, 68, 240


def attempt() -> str:
    ways = (
        ("shmget", partial(call, SHMGET, 0, 4096, 0o600)),
        ("semget", partial(call, SEMGET, 0, 1, 0o600)),
        ("msgget", partial(call, MSGGET, 0, 0o600)),
        ("mq_open", partial(call, MQ_OPEN, b"planted", 0o102, 0o600, None)),
    )
    return f"{any_of(ways)} made one"
