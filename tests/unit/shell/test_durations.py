"""What turns took, and how late ticks came: each is measured, and counted where it belongs."""

import asyncio

import pytest

from fedq.core.ids import ConnectionId
from fedq.shell.durations import BOUNDS_US, Durations, NodeDurations
from fedq.shell.turn import TICK_MS, Turn
from tests.integration.waiting import patient
from tests.unit.shell.fakes import FakeNode, Recorder, run

C1, C2 = ConnectionId(1), ConnectionId(2)


class Ticking(FakeNode):
    """Says when it has heard of a tick."""

    def __init__(self) -> None:
        super().__init__()
        self.ticked = asyncio.Event()

    def on_tick(self) -> None:
        super().on_tick()
        self.ticked.set()


def test_a_turn_is_measured_from_its_first_input_until_all_is_handed_on() -> None:
    async def scenario() -> None:
        clock = iter([100, 1_600, 5_000, 5_400])
        node, recorder = FakeNode(), Recorder()
        durations = NodeDurations()
        times = durations.turns
        turn = Turn(
            node, durations, now_ms=lambda: 0, on_fatal=pytest.fail, now_us=lambda: next(clock)
        )
        turn.connect(recorder.outlets())
        for _ in range(2):
            turn.input(node.on_bytes, C1, b"a")
            turn.input(node.on_bytes, C2, b"b")
            await asyncio.sleep(0)
        assert times.counts[:3] == [1, 1, 0]
        assert (times.longest_us, times.total_us) == (1_500, 1_900)

    run(scenario())


def test_a_tick_that_other_work_has_kept_waiting_is_late() -> None:
    async def scenario() -> None:
        now_us, node, recorder, durations = 0, Ticking(), Recorder(), NodeDurations()
        turn = Turn(node, durations, now_ms=lambda: 0, on_fatal=pytest.fail, now_us=lambda: now_us)
        turn.connect(recorder.outlets())
        turn.start()
        now_us = TICK_MS * 1_000 + 30_000
        node.ticked.clear()
        async with asyncio.timeout(patient(5)):
            await node.ticked.wait()
        turn.stop()
        assert (durations.late.longest_us, durations.late.total_us) == (30_000, 30_000)

    run(scenario())


@pytest.mark.parametrize(("took_us", "place"), [(0, 0), (1_000, 0), (1_001, 1), (10**9, -1)])
def test_a_turn_counts_where_the_first_bound_is_that_it_did_not_exceed(
    took_us: int, place: int
) -> None:
    times = Durations()
    times.note(took_us)
    assert len(times.counts) == len(BOUNDS_US) + 1
    assert times.counts[place] == sum(times.counts) == 1
