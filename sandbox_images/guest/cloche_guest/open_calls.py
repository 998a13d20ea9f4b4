"""Which calls of a program are unanswered, seen by a party in the middle: the supervisor, and the host's end of the exchange.

Knows numbers and sizes, nothing of what calls mean. Replies that were sent ahead of their call are kept in order until the
program says which of them it took; until then they count as answers, although the program may still drop such a call.
"""

from __future__ import annotations

from typing import Any

from cloche_guest.wire import FAILED_CALLS, OUTSTANDING, WireError


class OpenCalls:
    """`limit_bytes` bounds what the arguments of unanswered calls take together."""

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._sizes: dict[int, int] = {}
        self._size = 0
        self._ahead: dict[int, bool] = {}  # in order; True for one whose call was dropped since
        self._void = False
        self._last = 0

    def __contains__(self, number: int) -> bool:
        return number in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, number: int, size: int) -> None:
        """A call was made; `number` is one more than the one before.

        Raises:
            WireError: `call.too_many`: more are unanswered, or their arguments are larger, than allowed.
        """
        self._last = number
        if number in self._ahead:
            return
        self._sizes[number] = size
        self._size += size
        if len(self._sizes) > OUTSTANDING:
            raise WireError("call.too_many", f"more than {OUTSTANDING} calls are unanswered")
        # One call may always wait: its own arguments are bounded where they are read.
        if self._size > self._limit and len(self._sizes) > 1:
            raise WireError("call.too_many", f"the arguments of unanswered calls are larger than {self._limit} bytes")

    def answered(self, number: int, *, ahead: bool) -> bool:
        """A reply is on its way to the program; False when there can be none for this call."""
        if ahead:
            if self._void:
                return True  # crossed with the word that says so; the program discards it
            if number in self._ahead:
                return False
            # A call that was made and waits no more was dropped, and the word of that crossed with this reply.
            self._ahead[number] = not self._forget(number) and number <= self._last
            return True
        return self._forget(number)

    def drop(self, number: int) -> None:
        """The program no longer waits for this call.

        Raises:
            WireError: `call.unknown`: it was not made, or is answered or dropped already.
        """
        if number <= self._last and self._ahead.get(number) is False:
            self._ahead[number] = True
            return
        if not self._forget(number):
            raise WireError("call.unknown", f"call {number} is dropped, and is not unanswered")

    def void(self, taken: int) -> None:
        """The program took `taken` of the replies sent ahead and discards the others, those that still come included.

        Calls among the others are unanswered again; their arguments no longer count.

        Raises:
            WireError: `frame.bad_field`: it said so before, or took more than there were.
        """
        if self._void or not 0 <= taken <= len(self._ahead):
            raise WireError("frame.bad_field", f"quiet.ahead {taken} of {len(self._ahead)}")
        self._void = True
        for number, dropped in list(self._ahead.items())[taken:]:
            if number <= self._last and not dropped:
                self._sizes[number] = 0
        self._ahead = {}

    def clear(self) -> None:
        """Nothing is waited for any more."""
        self._sizes, self._size = {}, 0

    def _forget(self, number: int) -> bool:
        size = self._sizes.pop(number, None)
        if size is None:
            return False
        self._size -= size
        return True


def are_calls(numbers: Any, *, calls: int) -> bool:
    """True for a short list of different numbers of calls that were made."""
    return (
        isinstance(numbers, list)
        and len(numbers) <= FAILED_CALLS
        and all(type(number) is int and 1 <= number <= calls for number in numbers)
        and len(set(numbers)) == len(numbers)
    )
