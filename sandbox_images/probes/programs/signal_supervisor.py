"""Send every signal to the supervisor, by every call there is, and go past the deadline."""

import ctypes
import os
import signal
import time

GROUP = "lifetime"
EXPECT = "deadline"
WHY = "A supervisor that is dead, stopped or interrupted keeps no deadline."
DEADLINE_S = 1.0

PAST_S = 4.0
SYS_TGKILL, SYS_RT_SIGQUEUEINFO, SYS_PIDFD_OPEN, SYS_PIDFD_SEND_SIGNAL = 234, 129, 434, 424


def attempt() -> str:
    supervisor = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    order = [
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGSEGV,
        signal.SIGSTOP,
        signal.SIGKILL,
    ]
    for number in order:
        try:
            os.kill(supervisor, number)
        except OSError:
            pass
        libc.syscall(SYS_TGKILL, supervisor, supervisor, int(number))
        libc.syscall(SYS_RT_SIGQUEUEINFO, supervisor, int(number), ctypes.create_string_buffer(128))
        descriptor = libc.syscall(SYS_PIDFD_OPEN, supervisor, 0)
        if descriptor >= 0:
            libc.syscall(SYS_PIDFD_SEND_SIGNAL, descriptor, int(number), None, 0)
    end = os.times().elapsed + PAST_S
    while os.times().elapsed < end:
        time.sleep(0.1)
    return "still there after the deadline"
