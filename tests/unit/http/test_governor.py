"""The pace of the HTTP thread."""

import asyncio
import itertools

from fedq.http.serving.governor import Governor, Pace


def test_what_is_within_the_share_costs_no_sleep() -> None:
    pace = Pace(now_s=0.0, used_s=0.0, share=0.25, burst_s=0.05)
    assert all(pace.look(step * 0.01, step * 0.0025) == 0.0 for step in range(1, 100))


def test_what_is_beyond_share_and_burst_is_slept_off() -> None:
    pace = Pace(now_s=0.0, used_s=0.0, share=0.25, burst_s=0.05)
    assert pace.look(0.01, 0.01) == 0.0, "a little at once is free"
    wanted = pace.look(0.2, 0.2)
    assert abs(wanted - 0.15 / 0.25) < 1e-9
    assert pace.look(0.2 + wanted, 0.2) == 0.0, "then it is even"


def test_in_the_long_run_it_has_its_share_however_busy_it_is() -> None:
    pace, now_s, used_s = Pace(0.0, 0.0, 0.25, 0.05), 0.0, 0.0
    while now_s < 60.0:
        now_s, used_s = now_s + 0.01, used_s + 0.01
        now_s += pace.look(now_s, used_s)
    assert used_s / now_s < 0.26


def test_a_sleep_is_bounded_and_the_rest_follows() -> None:
    pace = Pace(0.0, 0.0, 0.25, 0.05)
    assert pace.look(10.0, 10.0) == 1.0
    assert pace.look(11.0, 10.0) == 1.0


def test_it_looks_again_and_again_until_it_is_stopped() -> None:
    async def look() -> None:
        loop, slept = asyncio.get_running_loop(), asyncio.Event()
        used = itertools.count(0.0, 10.0)
        governor = Governor(loop, lambda _: slept.set(), lambda: next(used))
        for _ in range(3):
            async with asyncio.timeout(20):
                await slept.wait()
            slept.clear()
        governor.stop()
        assert governor.slept_s >= 3.0

    asyncio.run(look())
