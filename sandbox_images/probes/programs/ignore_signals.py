"""Ignore every signal there is and go past the deadline."""

import os
import signal

GROUP = "lifetime"
EXPECT = "deadline"
WHY = "A deadline that asks politely is none."
DEADLINE_S = 1.0

PAST_S = 4.0


def attempt() -> str:
    for number in signal.valid_signals():
        try:
            signal.signal(number, signal.SIG_IGN)
        except OSError:
            pass
    end = os.times().elapsed + PAST_S
    while os.times().elapsed < end:
        pass
    return "still there after the deadline"
