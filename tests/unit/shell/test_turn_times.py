"""What turns took: each is measured, and counted where it belongs."""

import asyncio

import pytest

from fedq.core.ids import ConnectionId
from fedq.shell.turn import Turn
from fedq.shell.turn_times import BOUNDS_US, TurnTimes
from tests.unit.shell.fakes import FakeNode, Recorder, run

C1, C2 = ConnectionId(1), ConnectionId(2)


def test_a_turn_is_measured_from_its_first_input_until_all_is_handed_on() -> None:
    async def scenario() -> None:
        clock = iter([100, 1_600, 5_000, 5_400])
        node, recorder = FakeNode(), Recorder()
        times = TurnTimes()
        turn = Turn(node, times, now_ms=lambda: 0, on_fatal=pytest.fail, now_us=lambda: next(clock))
        turn.connect(recorder.outlets())
        for _ in range(2):
            turn.input(node.on_bytes, C1, b"a")
            turn.input(node.on_bytes, C2, b"b")
            await asyncio.sleep(0)
        assert times.counts[:3] == [1, 1, 0]
        assert (times.longest_us, times.total_us) == (1_500, 1_900)

    run(scenario())


@pytest.mark.parametrize(("took_us", "place"), [(0, 0), (1_000, 0), (1_001, 1), (10**9, -1)])
def test_a_turn_counts_where_the_first_bound_is_that_it_did_not_exceed(
    took_us: int, place: int
) -> None:
    times = TurnTimes()
    times.note(took_us)
    assert len(times.counts) == len(BOUNDS_US) + 1
    assert times.counts[place] == sum(times.counts) == 1
