"""Taking up an interrupted run: what each completed call costs again, and what the resume itself costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engine.app import App
from tests.benchmarks.figures import Figure, Target, alone, compare, difference_quotients, differences, fastest
from tests.benchmarks.house import REPLAYED
from tests.benchmarks.interrupted import make_interrupted
from tests.benchmarks.one_shot import drive_once
from tests.benchmarks.peers.subjects import Subject
from tests.benchmarks.rounds import Action, interleaved

FEW, MANY, HUGE = 10, 1_000, 10_000
PEER_TARGET = Target("ratio", 0.4)
GROWTH = Target("ratio", 1.2)
RESUME = Target("median", 0.200)
WORKFLOW = "bench"


def measure(app: App, *, rounds: int, peers: Sequence[Subject]) -> list[Figure]:
    """Resumes of runs with 10, 1,000 and 10,000 completed calls, less the one with 10; and a peer's with 1,000, of its steps alone."""
    # The two that peers are compared with come last, next to them.
    runs = [make_interrupted(app, calls) for calls in (HUGE, FEW, MANY)]
    replaying = [peer for peer in peers if peer.replays]
    for peer in replaying:
        peer.prepare(f"{WORKFLOW}-{peer.name}", MANY)
    actions: list[Action] = [run.resume for run in runs]
    actions += [partial(peer.replay, f"{WORKFLOW}-{peer.name}") for peer in replaying]

    def put_back() -> None:
        for run in runs:
            run.put_back()

    huge, few, many, *others = interleaved(*actions, rounds=rounds, before=put_back)
    ours = difference_quotients(few, many, steps=MANY - FEW)
    long = difference_quotients(few, huge, steps=HUGE - FEW)
    theirs = [(peer.name, [seconds / MANY for seconds in taken]) for peer, taken in zip(replaying, others, strict=True)]
    return [
        *_beside_peers(ours, theirs),
        compare(
            f"replayed call of {HUGE:,}",
            measured=long,
            baseline=f"of {MANY:,}",
            baselines=ours,
            unit="µs",
            target=GROWTH,
        ),
    ]


def _beside_peers(ours: list[float], theirs: list[tuple[str, list[float]]]) -> list[Figure]:
    """Every peer for comparison; the target is about the fastest of them."""
    name = f"replayed call of {MANY:,}"
    if not theirs:
        return [alone(name, measured=ours, unit="µs")]
    quickest, _ = fastest(theirs)
    return [
        compare(
            name,
            measured=ours,
            baseline=peer,
            baselines=taken,
            unit="µs",
            target=PEER_TARGET if peer == quickest else None,
        )
        for peer, taken in theirs
    ]


def measure_resume(app: App, *, rounds: int) -> list[Figure]:
    """A resume of ten completed calls after its owner died, less the least that has a cell: a new run of a known snapshot, no calls."""
    interrupted = make_interrupted(app, FEW)
    snapshot = app.snapshots.for_revision(*app.catalog.resolve(REPLAYED))
    resumed, new = interleaved(
        interrupted.resume,
        partial(drive_once, app, snapshot, "0"),
        rounds=rounds,
        before=interrupted.put_back,
    )
    return [
        alone("resume beyond a new run", measured=differences(resumed, new), unit="ms", target=RESUME),
        compare("resume", measured=resumed, baseline="new run of the package, no calls", baselines=new),
    ]
