"""All is heard, in order, whatever is read of whom and whenever a pass ends.

That is a pass's worth at a time, and who sends little at once.
"""

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.limits import KIB, SHORT_READ_BYTES_MAX, TURN_BYTES_MAX
from tests.unit.shell.clients.test_reading import Room

COUNT = 12
SIZES = st.sampled_from([1, SHORT_READ_BYTES_MAX, 3 * KIB, 60 * KIB, 250 * KIB])
#: A read of somebody, or the end of a pass.
STEPS = st.lists(st.none() | st.tuples(st.integers(0, COUNT - 1), SIZES), max_size=80)


@given(STEPS)
def test_all_is_heard_in_order_and_no_pass_hears_more_than_its_share(
    steps: list[tuple[int, int] | None],
) -> None:
    room, sent, before = Room(COUNT), [b""] * COUNT, 0
    for place, step in enumerate(steps):
        if step is None:
            room.reading.end_pass()
            before = room.bytes_heard
            continue
        number, size = step
        client = room.clients[number]
        if client.is_held:
            # The event loop does not read it.
            continue
        chunk = bytes([place % 256]) * size
        sent[number] += chunk
        room.reading.on_read(client, chunk)
        if size <= SHORT_READ_BYTES_MAX:
            assert client.heard == sent[number]
        else:
            assert room.bytes_heard - before <= TURN_BYTES_MAX + (250 + 160) * KIB
        assert sent[number].startswith(client.heard)
    for _ in range(COUNT):
        room.reading.end_pass()
    assert [client.heard for client in room.clients] == sent
    assert not room.reading.bytes_put_off
    assert not any(client.is_held for client in room.clients)
