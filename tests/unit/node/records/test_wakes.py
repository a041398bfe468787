"""Connections by when they are due, against a list of all; and what a node does with them."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.connection import CLOSE_MS
from fedq.amqp.methods import BasicRecover, QueueDeclare, QueueDeclareOk, encode_method
from fedq.core.ids import ConnectionId
from fedq.node.records.wakes import STEP_MS, Wakes
from tests.unit.node.harness import Cluster

connections = st.integers(1, 6).map(ConnectionId)


@given(
    st.lists(
        st.tuples(st.just("put"), connections, st.integers(0, 40 * STEP_MS))
        | st.tuples(st.just("remove"), connections, st.just(0))
        | st.tuples(st.just("take"), st.just(ConnectionId(0)), st.integers(0, 3 * STEP_MS)),
        max_size=60,
    )
)
def test_everybody_is_called_once_in_the_step_that_it_is_due(
    words: list[tuple[str, ConnectionId, int]],
) -> None:
    wakes, due, now = Wakes(), dict[ConnectionId, int](), 0
    for what, connection, number in words:
        if what == "take":
            now += number
            found = wakes.take(now)
            steps = {each: at // STEP_MS for each, at in due.items()}
            assert sorted(found) == sorted(c for c, step in steps.items() if step * STEP_MS <= now)
            assert [steps[each] for each in found] == sorted(steps[each] for each in found)
            for each in found:
                del due[each]
            continue
        if connection in due:
            wakes.remove(connection, due.pop(connection))
        if what == "put":
            due[connection] = now + number
            wakes.put(connection, due[connection])


def test_a_violation_behind_a_request_of_a_client_that_is_gone_harms_nobody() -> None:
    cluster = Cluster()
    client = cluster.client()
    # The declaration waits for the map; what comes behind it is looked at when the socket is gone.
    behind = encode_method(1, BasicRecover(requeue=False))
    client.write(encode_method(1, QueueDeclare("work")) + behind)
    client.hang_up()
    cluster.pass_ms(2 * CLOSE_MS)
    cluster.client().ask(QueueDeclare("work", passive=True), QueueDeclareOk)


def test_who_does_not_answer_a_close_is_cut_off_even_without_heartbeats() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.write(bytes([9, 0, 0, 0, 0, 0, 0, 0]))
    cluster.settle()
    assert client.close_reason[0] == 501
    cluster.pass_ms(CLOSE_MS // 2)
    assert not client.lost
    cluster.pass_ms(CLOSE_MS)
    assert client.lost
