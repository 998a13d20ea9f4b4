"""The exchange's files under an enemy that writes while the host reads, step by step (`tests/fuzz/segments.py`)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from cloche_guest.wire import FRAME_BYTES, SEGMENT_BYTES
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.sandbox.violations import VIOLATIONS
from tests.fuzz.segments import Enemy, Host

SIZES = st.sampled_from([0, 1, 9, 4096, FRAME_BYTES, SEGMENT_BYTES, SEGMENT_BYTES + 1, 1 << 40])
LINES = st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=30)
REFUSALS = {"frame.oversized", "segment.truncated", "segment.oversized", "frame.out_of_order"}


class HostileWriter(RuleBasedStateMachine):
    """The host reads until it refuses; then it must have a name for it, and before that it never misreads an honest writer."""

    def __init__(self) -> None:
        super().__init__()
        self._open()

    def _open(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="cloche-fuzz-")
        self.enemy = Enemy(Path(self._directory.name))
        self.host = Host(Path(self._directory.name), self.enemy)

    def teardown(self) -> None:
        self.host.reader.close()
        self._directory.cleanup()

    def _reads(self) -> bool:
        return not self.host.refused

    @precondition(_reads)
    @rule(lines=LINES)
    def write_lines(self, lines: list[bytes]) -> None:
        self.enemy.append(b"".join(line + b"\n" for line in lines))

    @precondition(_reads)
    @rule(data=st.binary(min_size=1, max_size=100))
    def write_a_piece(self, data: bytes) -> None:
        self.enemy.append(data)

    @precondition(_reads)
    @rule(size=SIZES)
    def truncate_or_extend(self, size: int) -> None:
        self.enemy.truncate(size)

    @precondition(_reads)
    @rule(at=st.integers(0, 500), data=st.binary(min_size=1, max_size=30))
    def rewrite(self, at: int, data: bytes) -> None:
        self.enemy.rewrite(at, data)

    @precondition(_reads)
    @rule(at=st.integers(0, 5000), size=SIZES)
    def punch_a_hole(self, at: int, size: int) -> None:
        self.enemy.punch(at, size)

    @precondition(_reads)
    @rule(size=SIZES)
    def reserve_space(self, size: int) -> None:
        self.enemy.reserve(size)

    @precondition(_reads)
    @rule()
    def go_on_in_the_next_segment(self) -> None:
        self.enemy.leave()

    @precondition(_reads)
    @rule(most=st.integers(1, 50))
    def read_some(self, most: int) -> None:
        self.host.read(most)

    @precondition(_reads)
    @rule()
    def read_all_and_leave_the_segment(self) -> None:
        self.host.read()
        if not self.host.refused:
            self.host.rotate()

    @precondition(lambda self: self.host.refused)
    @rule()
    def begin_with_another_cell(self) -> None:
        self.teardown()
        self._open()

    @invariant()
    def a_refusal_has_one_of_the_names(self) -> None:
        assert not self.host.refused or self.host.refused in REFUSALS & set(VIOLATIONS)

    @invariant()
    def memory_and_files_are_bounded(self) -> None:
        self.host.check()


HostileWriter.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


class TestHostileWriter(HostileWriter.TestCase):  # type: ignore[misc, valid-type]
    """Run by pytest."""
