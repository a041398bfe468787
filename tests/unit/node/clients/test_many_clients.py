"""What all clients are told, they are told some in each turn; blocked and unblocked are paired."""

from itertools import pairwise

from fedq.amqp.methods import (
    BasicAck,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    QueueDeclare,
)
from fedq.core.ids import NodeId
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import TICK_MS, Client, Cluster

COUNT = 120
MEMORY = 64 * 1024 * 1024
WORK = 100
#: Hearing that it is blocked costs ten units; so much may be overdrawn.
TOLD_MAX = WORK // 10 + 2


class Crowd:
    """Very many clients of one node, which have published, and hear when its memory is full."""

    def __init__(self) -> None:
        self.cluster = Cluster(1, memory_bytes_max=MEMORY, work_per_turn=WORK)
        self.clients = [self.cluster.client() for _ in range(COUNT)]
        for client in self.clients:
            client.write(publish(1, "", "nobody", b"x"))
        self.cluster.pass_ms(1_000)
        self.forget()

    def forget(self) -> None:
        for client in self.clients:
            client.said.clear()

    def report(self, waiting: int) -> None:
        """So much waits to be written; the node looks within half a second."""
        host = self.cluster.hosts[NodeId("n1")]
        host.inbox.append(lambda node: node.on_resources(waiting, 0, -1))
        self.cluster.now_ms += 500
        host.inbox.append(lambda node: node.on_tick())

    def turn(self) -> int:
        """One turn; how many hear something in it."""
        before = [len(client.said) for client in self.clients]
        self.cluster.turn()
        return sum(len(c.said) != n for c, n in zip(self.clients, before, strict=True))

    def turns(self) -> list[int]:
        """Turns until the node is at rest: how many clients hear something in each."""
        host = self.cluster.hosts[NodeId("n1")]
        heard = []
        while host.inbox:
            heard.append(self.turn())
        return heard


def words(client: Client) -> list[str]:
    return [type(said).__name__ for said in client.said]


def test_an_alarm_is_told_to_some_clients_in_each_turn() -> None:
    crowd = Crowd()
    for waiting, word in ((MEMORY, ConnectionBlocked), (0, ConnectionUnblocked)):
        crowd.forget()
        crowd.report(waiting)
        heard = crowd.turns()
        assert sum(heard) == COUNT
        assert max(heard) <= TOLD_MAX, heard
        assert all([type(s) for s in client.said] == [word] for client in crowd.clients)


def test_who_was_not_told_yet_hears_nothing_of_an_alarm_that_is_over() -> None:
    crowd = Crowd()
    crowd.report(waiting=MEMORY)
    assert 0 < crowd.turn() <= TOLD_MAX
    told = [client for client in crowd.clients if client.said]
    crowd.report(waiting=0)
    crowd.turns()
    assert 0 < len(told) < COUNT
    for client in crowd.clients:
        assert words(client) in ([], ["ConnectionBlocked", "ConnectionUnblocked"])
    assert any(not client.said for client in crowd.clients)


def test_who_publishes_waits_wherever_the_round_is() -> None:
    crowd = Crowd()
    last = crowd.clients[-1]
    last.send(QueueDeclare("q"), ConfirmSelect())
    crowd.forget()
    crowd.report(waiting=MEMORY)
    crowd.turn()
    assert not last.said
    last.publish("q", "x")
    host = crowd.cluster.hosts[NodeId("n1")]
    assert host.reading[last.connection] is False
    crowd.report(waiting=0)
    crowd.turns()
    assert host.reading[last.connection] is True
    assert last.has(BasicAck)


def test_a_node_that_stops_says_goodbye_to_some_clients_in_each_turn() -> None:
    crowd = Crowd()
    host = crowd.cluster.hosts[NodeId("n1")]
    host.inbox.append(lambda node: node.stop())
    # The end of a client costs 50 units.
    heard = []
    while not crowd.cluster.node("n1").stopped:
        heard.append(crowd.turn())
        if not host.inbox:
            host.inbox.append(lambda node: node.on_tick())
            crowd.cluster.now_ms += TICK_MS
    assert sum(heard) == COUNT
    assert max(heard) <= WORK // 50 + 1, heard
    assert all(words(client) == [ConnectionClose.__name__] for client in crowd.clients)


def test_private_queues_are_looked_at_as_turns_have_room() -> None:
    cluster = Cluster(1)
    client = cluster.client()
    for number in range(COUNT):
        client.send(QueueDeclare(f"q{number}", exclusive=True, arguments={"x-expires": 1_000}))
    state = cluster.node("n1").state
    assert len(state.private) == COUNT
    state.work.resize(40)
    host = cluster.hosts[NodeId("n1")]
    host.inbox.append(lambda node: node.on_tick())
    cluster.now_ms += 1_000
    left = [len(state.private)]
    while left[-1]:
        assert cluster.turn()
        left.append(sum(not each.ending for each in state.private.values()))
    assert max(before - after for before, after in pairwise(left)) <= 40 + 2, left
