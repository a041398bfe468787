"""Who is handed a fragment's messages, where several nodes have consumers that keep up or do not.

A small model, millisecond by millisecond: node A is that of the fragment, B and C are a millisecond
away, and say what they acknowledged within five.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from fedq.core.ids import NodeId
from fedq.fragments.taking.windows import Windows

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
AWAY_MS, LINGER_MS = 0.5, 5


class Seen(NamedTuple):
    """What became of a run."""

    counts: dict[NodeId, int]
    #: The longest wait behind another message at a node, and the one that 99 of 100 keep to.
    longest_ms: float
    most_ms: float
    lasted_ms: int


@dataclass
class Model:
    """Consumers on three nodes, each of which does one message after the other."""

    work_ms: dict[NodeId, float]
    #: How many each has at work at one time.
    hands: int = 1
    #: What has not been acknowledged.
    held: dict[NodeId, int] = field(default_factory=lambda: dict.fromkeys((A, B, C), 0))
    counts: dict[NodeId, int] = field(default_factory=lambda: dict.fromkeys((A, B, C), 0))
    waits: list[float] = field(default_factory=list)
    now_ms: int = 0
    acks: list[tuple[float, NodeId]] = field(default_factory=list)
    windows: Windows = field(default_factory=lambda: Windows({}))

    def __post_init__(self) -> None:
        self.free_at = {node: [0.0] * self.hands for node in self.counts}

    def run(self, per_second: int, total: int, limit_ms: int = 60_000) -> Seen:
        """So many messages are published at that pace."""
        ready = published = 0
        begun_ms, handed, now_ms = self.now_ms, sum(self.counts.values()), self.now_ms
        while ready or published < total or sum(self.held.values()):
            if now_ms >= begun_ms + limit_ms:
                break
            now_ms += 1
            new = min(total, (now_ms - begun_ms) * per_second // 1_000) - published
            published, ready = published + new, ready + new
            self._hear(now_ms)
            given = self._hand(ready, now_ms, [A, B, C] if now_ms % 4 < 2 else [A, C, B])
            ready, handed = ready - given, handed + given
            if not ready:
                self.windows.nothing_waits()
            elif step := self.windows.grow_by(handed, now_ms):
                for node in self.counts:
                    self.windows.widen(node, step)
        self.now_ms = now_ms
        waits = sorted(self.waits)
        most_ms = waits[len(waits) * 99 // 100]
        return Seen(self.counts, waits[-1], most_ms, now_ms - begun_ms)

    def _hear(self, now_ms: int) -> None:
        due = [ack for ack in self.acks if ack[0] <= now_ms]
        self.acks = [ack for ack in self.acks if ack[0] > now_ms]
        for _, node in due:
            self.held[node] -= 1
            self.windows.came_back(node, 1, now_ms)

    def _hand(self, ready: int, now_ms: int, order: list[NodeId]) -> int:
        handed = 0
        for node in order:
            room = self.windows.room(node, 1, sum(self.held.values()))
            amount = min(ready - handed, max(0, room))
            if not amount:
                continue
            self.windows.took(node, amount, 1, now_ms)
            handed += amount
            self.held[node] += amount
            self.counts[node] += amount
            for _ in range(amount):
                self._work(node, now_ms + (0 if node == A else AWAY_MS))
        return handed

    def _work(self, node: NodeId, at_ms: float) -> None:
        if self.work_ms[node] < 0:
            return  # It acknowledges nothing.
        hands = self.free_at[node]
        hand = min(range(len(hands)), key=hands.__getitem__)
        start = max(at_ms, hands[hand])
        hands[hand] = start + self.work_ms[node]
        self.waits.append(start - at_ms)
        back = 0 if node == A else AWAY_MS + LINGER_MS
        self.acks.append((hands[hand] + back, node))


def model(a: float, b: float, c: float, hands: int = 1) -> Model:
    return Model({A: a, B: b, C: c}, hands)


def test_what_the_nearest_does_not_keep_up_with_goes_to_the_others() -> None:
    """Three consumers, 5 ms a message, 300 a second: one alone would do 200."""
    seen = model(5, 5, 5).run(300, 1_000)
    assert max(seen.counts.values()) < 700
    assert min(seen.counts.values()) > 50
    assert seen.longest_ms <= 10, "no longer behind a busy one than one message, or two"


def test_the_nearest_has_all_that_it_keeps_up_with() -> None:
    assert model(5, 5, 5).run(100, 500).counts == {A: 500, B: 0, C: 0}


def test_a_slow_one_gets_what_it_does_and_no_more() -> None:
    seen = model(50, 5, 5).run(1_000_000, 1_000)
    assert seen.counts[A] < 70
    assert seen.lasted_ms < 3_500, "the others are not waiting for it"


def test_fast_consumers_at_hand_are_not_slowed_down() -> None:
    seen = model(0.1, 0.1, 0.1).run(9_000, 9_000)
    assert seen.counts[A] > 8_500
    assert seen.lasted_ms < 1_050


def test_a_backlog_is_worked_off_by_all() -> None:
    seen = model(5, 5, 5).run(1_000_000, 1_000)
    assert min(seen.counts.values()) > 250
    assert seen.lasted_ms < 1_000 * 5 // 3 * 1.2


def test_long_work_waits_behind_nobody_while_another_is_idle() -> None:
    seen = model(1_000, 1_000, 1_000).run(2, 30)
    assert seen.counts[A] <= 16
    assert seen.most_ms <= 1_000


def test_windows_that_grew_while_messages_waited_do_not_stay_so() -> None:
    made = model(1_000, 1_000, 1_000)
    made.run(1_000_000, 60)
    before = made.counts[A]
    # Two thirds of what all three can do: the nearest, if it had all, would fall behind.
    assert made.run(2, 20).counts[A] - before <= 14


@pytest.mark.parametrize("gap_ms", [300, 1_000])
def test_the_time_between_bursts_is_not_work(gap_ms: int) -> None:
    """Twelve messages at once, 30 ms each, then silence: nobody has been slow in it."""
    made = model(30, 30, 30)
    for _ in range(20):
        seen = made.run(1_000_000, 12)
        made.now_ms += gap_ms
    assert seen.counts[A] < 20 * 7
    assert seen.longest_ms <= 150


def test_consumers_that_work_on_many_at_a_time_are_found_out() -> None:
    """Eight threads on each node, 100 ms a message: 240 a second together, not 30."""
    seen = model(100, 100, 100, hands=8).run(200, 1_000)
    assert seen.lasted_ms < 6_000


@pytest.mark.parametrize("total", [3, 100, 1_000, 20_000])
def test_who_acknowledges_nothing_gets_everything_soon(total: int) -> None:
    made = model(-1, -1, -1)
    made.waits = [0]
    made.run(1_000_000, total, limit_ms=400)
    assert sum(made.counts.values()) == total
    assert min(made.counts.values()) >= total // 6


def test_who_acknowledges_many_at_once_has_as_many() -> None:
    windows = Windows({})
    windows.took(A, 1, 1, 0)
    windows.widen(A, 100)
    windows.took(A, 100, 1, 50)
    windows.came_back(A, 101, 100)
    windows.took(A, 1, 1, 100)
    assert windows.room(A, 1, 1) >= 100


def test_a_round_measures_the_window_it_began_with() -> None:
    """While one message is worked on for long, others wait, and the window may grow for that.

    That one message came back in time says nothing of so many.
    """
    windows = Windows({})
    windows.took(A, 1, 1, 0)
    windows.came_back(A, 1, 60)
    windows.widen(A, 16)
    windows.took(A, 1, 1, 60)
    windows.came_back(A, 1, 120)
    assert windows.room(A, 1, 10) <= 2


def test_a_node_never_holds_more_than_all_do() -> None:
    """What a failover left behind in the count does not close a window for good."""
    windows = Windows({A: 500})
    assert windows.room(A, 2, 500) == 0
    assert windows.room(A, 2, 1) == 1
    assert windows.room(A, 2, 500) == 1


def test_a_node_that_begins_anew_begins_with_what_it_says() -> None:
    windows = Windows({})
    windows.took(B, 1, 1, 0)
    windows.widen(B, 50)
    windows.attach(B, 3)
    assert windows.room(B, 4, 10) == 1
