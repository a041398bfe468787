"""A crash at every point of checkpoints and of segments on the move, on one node: no copy helps.

What was confirmed and is not acknowledged is there once, in order, and nothing returns whose
acknowledgement was on disk, after every step of the disk, whatever the crash takes of what was not
synced; and again after another crash, with a checkpoint and moves in between. Segments have many
places of several queues, bodies are on disk alone, and pieces are small.
"""

import pytest

from tests.unit.node.crash_histories import BUSY, KEPT, KINDS, ON_DISK, History, play, recorded
from tests.unit.node.crash_points import (
    LOSSES,
    Dropped,
    Step,
    Synced,
    Written,
    directory_at,
    name_of,
)
from tests.unit.node.harness import TICK_MS

#: What the disk does, by the records in it, that each history must have met.
STEPS = ("Standing", "Live", "Checkpoint", "Copy", "Settle", "Enqueue", "Synced", "Dropped")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_crash_at_every_point_of_checkpoints_and_moves(seed: int, kind: str) -> None:
    met = play(recorded(seed, **KINDS[kind]), seed, 5)
    assert not [wanted for wanted in STEPS if not met[wanted]]


@pytest.mark.parametrize("ticks", range(4))
def test_the_last_of_segments_is_acknowledged_while_they_are_moved(ticks: int) -> None:
    """Nothing of them is copied any more; that it is gone must be on disk before they are not."""
    history = History(**ON_DISK)
    cluster = history.cluster
    for number in range(9):
        history.publish(KEPT[number % len(KEPT)], 1)
        for _ in range(3):
            history.publish(BUSY, 6)
    history.record()

    def is_copied() -> bool:
        return any("Copy" in name_of(step) for step in cluster.steps[history.begun :])

    for _ in range(200):
        if is_copied():
            break
        history.client.publish(BUSY, "x" * 80)
        cluster.pass_ms(TICK_MS)
    assert is_copied()
    cluster.pass_ms(ticks * TICK_MS)
    history.acknowledge(3, every=True)
    cluster.pass_ms(1_000)
    assert play(history, ticks, 0)["Dropped"]


def test_what_a_crash_leaves() -> None:
    steps: list[Step] = [
        Written(1, 1, b"one"), Written(2, 2, b"two"), Synced(2), Dropped(1),
        Written(3, 3, b"three"), Synced(3), Written(4, 3, b"four"), Dropped(2),
        Written(5, 4, b"five"),
    ]  # fmt: skip
    left = {loss: directory_at(steps, loss) for loss in LOSSES}
    assert left == {
        "killed": {3: b"threefour", 4: b"five"},
        "cut": {3: b"three"},
        "torn": {3: b"threefour"},
        "undeleted": {2: b"two", 3: b"three"},
    }
