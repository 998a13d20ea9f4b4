"""A verification as text. Pure: a verdict in, lines out."""

from __future__ import annotations

from collections.abc import Iterator

from engine.run.verdict import Difference, Verdict

ROW_CHARACTERS = 60


def told(verdict: Verdict) -> Iterator[str]:
    """The verdict in a line, then every difference with both sides, then what else is worth knowing."""
    how = "verified" if verdict.holds else f"differs in {len(verdict.differences)}"
    far = "to its end" if verdict.whole else "up to its last completed call"
    against = "" if verdict.revision == verdict.recorded_revision else f", with revision {verdict.revision[:12]}"
    yield f"{verdict.workflow_id} {verdict.run_id}: {how}; {verdict.asked} of {verdict.calls} calls, {far}{against}"
    for difference in verdict.differences:
        yield from _difference(difference)
    for note in verdict.notes:
        yield f"  note: {note}"


def _difference(difference: Difference) -> Iterator[str]:
    number = f"call {difference.seq}: " if difference.seq else ""
    yield f"  ✗ {difference.what.value}  {number}{difference.message}"
    for name, text in (("recorded", difference.recorded), ("now", difference.asked), ("cause", difference.cause)):
        if text:
            yield f"      {name:9} {text}"


def verdict_row(verdict: Verdict) -> list[str]:
    """Run, status, verdict, place of the first break, and both sides, for a table."""
    if verdict.holds:
        return [verdict.run_id, verdict.status.value, "replays", f"{verdict.asked} of {verdict.calls} calls", "", ""]
    first = verdict.differences[0]
    place = f"{first.fn}() {first.site.removeprefix('workflows/')}".strip() if first.fn else ""
    sides = [_clip(first.recorded), _clip(first.asked)]
    return [verdict.run_id, verdict.status.value, f"breaks: {first.what.value}", place, *sides]


def _clip(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= ROW_CHARACTERS else flat[: ROW_CHARACTERS - 1] + "…"
