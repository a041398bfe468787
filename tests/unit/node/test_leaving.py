"""How long who leaves a queue, or asks one, waits while nobody serves it."""

from collections.abc import Callable

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from fedq.core.ids import NodeId
from tests.unit.node.harness import TICK_MS, Client, Cluster

#: In which a node that is gone is replaced, and the time after which nobody who leaves waits.
FAILOVER_MS, LEAVE_MS = 2_000, 3_600

Ask = tuple[Method, type[object], int]
CANCEL: Ask = (BasicCancel("c"), BasicCancelOk, 1)
CLOSE_CHANNEL: Ask = (ChannelClose(200, "bye", 0, 0), ChannelCloseOk, 1)
CLOSE: Ask = (ConnectionClose(200, "bye", 0, 0), ConnectionCloseOk, 0)
LEAVING = [CANCEL, CLOSE_CHANNEL, CLOSE]
GET: Ask = (BasicGet("brief"), BasicGetEmpty, 2)
DECLARE: Ask = (QueueDeclare("brief", passive=True), QueueDeclareOk, 2)
PURGE: Ask = (QueuePurge("brief"), QueuePurgeOk, 2)
DELETE: Ask = (QueueDelete("brief"), QueueDeleteOk, 2)
LOOKING = [GET, DECLARE, PURGE, DELETE]


def name_of(ask: object) -> str:
    return type(ask[0]).__name__ if isinstance(ask, tuple) else str(ask)


def waited_ms(client: Client, ask: Ask, limit_ms: int = 20_000) -> int:
    """How long it takes until the answer is there, and no refusal."""
    method, answer, channel = ask
    cluster, since_ms = client.cluster, client.cluster.now_ms
    client.said.clear()
    client.send(method, channel=channel)
    while not client.has(answer):
        assert cluster.now_ms - since_ms < limit_ms, "never"
        cluster.pass_ms(TICK_MS)
    refused = client.has(ChannelClose) or client.has(ConnectionClose)
    assert not refused, client.said
    client.take(answer)
    return cluster.now_ms - since_ms


def is_gone(cluster: Cluster, at: str) -> bool:
    """Whether nobody knows the queue any more; to be asked on a channel of its own."""
    other = cluster.client(at)
    other.send(QueueDeclare("brief", passive=True))
    cluster.wait_for(lambda: bool(other.said))
    return isinstance(other.said[0], ChannelClose)


def consuming(at: str, primary: str, *, replicas: int = 2) -> tuple[Cluster, Client]:
    """A queue that goes with its last consumer, which is the client of the node `at`."""
    cluster = Cluster(3)
    arguments = {"x-fedq-replicas": replicas}
    declare = QueueDeclare("brief", auto_delete=True, arguments=arguments)  # type: ignore[arg-type]
    cluster.client(primary).ask(declare, QueueDeclareOk)
    client = cluster.client(at, channels=2)
    client.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    cluster.pass_ms(3_000)
    assert cluster.primary_of("brief") == primary
    return cluster, client


def bereft(*, durable: bool) -> tuple[Cluster, Client]:
    """Both nodes that had the queue in memory went; its primary is back as a new process.

    The other one may have all of it in memory yet, behind a partition, or on its disk.
    """
    cluster = Cluster(3)
    owner = cluster.client("n2")
    owner.ask(QueueDeclare("brief", auto_delete=True, durable=durable), QueueDeclareOk)
    (info,) = cluster.node("n2").state.map.fragments.values()
    third = next(name for name in ("n1", "n3") if name not in info.in_sync)
    client = cluster.client(third, channels=2)
    client.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    cluster.pass_ms(1_000)
    for name in info.copies:
        cluster.kill(name, unseen=name != "n2")
    cluster.pass_ms(200)
    cluster.start("n2")
    cluster.wait_for(lambda: cluster.node("n2").state.joined)
    cluster.pass_ms(500)
    assert not cluster.node("n2").state.primaries, "nobody leads it"
    return cluster, client


# --- a failover ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", LEAVING, ids=name_of)
@pytest.mark.parametrize(("primary", "at"), [("n2", "n1"), ("n2", "n3"), ("n1", "n3")])
def test_who_leaves_waits_for_a_failover_and_the_queue_is_gone(
    primary: str, at: str, ask: Ask
) -> None:
    cluster, client = consuming(at, primary)
    cluster.kill(primary, unseen=True)
    assert waited_ms(client, ask) <= FAILOVER_MS
    assert is_gone(cluster, at)


@pytest.mark.parametrize("ask", LEAVING, ids=name_of)
def test_who_leaves_while_another_node_dies_waits_until_it_is_missed(ask: Ask) -> None:
    cluster, client = consuming("n3", "n3", replicas=1)
    cluster.kill("n2", unseen=True)
    assert waited_ms(client, ask) <= FAILOVER_MS
    assert is_gone(cluster, "n3")


@pytest.mark.parametrize("ask", LEAVING, ids=name_of)
def test_who_leaves_while_the_queue_moves_waits_for_that_alone(ask: Ask) -> None:
    cluster, client = consuming("n3", "n2")
    cluster.hosts[NodeId("n2")].inbox.append(lambda node: node.stop())
    assert waited_ms(client, ask) <= FAILOVER_MS
    assert is_gone(cluster, "n3")


# --- nobody can say more -------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [*LEAVING, *LOOKING], ids=name_of)
def test_a_fragment_that_no_process_has_counts_0_though_its_primary_is_back(ask: Ask) -> None:
    cluster, client = bereft(durable=False)
    assert waited_ms(client, ask) <= TICK_MS
    assert cluster.node("n2").state.map.members[NodeId("n2")].up


def test_it_counts_0_for_who_has_asked_before_its_last_process_went() -> None:
    cluster = Cluster(5)
    cluster.client("n4").ask(QueueDeclare("brief"), QueueDeclareOk)
    (info,) = cluster.node("n4").state.map.fragments.values()
    at = next(name for name in cluster.hosts if name not in info.copies)
    client = cluster.client(at, channels=2)
    cluster.pass_ms(1_000)
    cluster.kill(info.primary, unseen=True)
    client.send(DECLARE[0], channel=2)
    cluster.pass_ms(1_000)
    assert not client.said
    for backup in info.backups:
        cluster.kill(backup, unseen=True)
    cluster.wait_for(lambda: client.has(QueueDeclareOk), FAILOVER_MS)
    assert client.take(QueueDeclareOk).message_count == 0


@pytest.mark.parametrize("ask", LEAVING, ids=name_of)
def test_who_leaves_a_queue_that_is_yet_to_be_read_from_a_disk_does_not_wait(ask: Ask) -> None:
    cluster, client = bereft(durable=True)
    assert waited_ms(client, ask) <= TICK_MS
    cluster.pass_ms(8_000)
    assert is_gone(cluster, "n2"), "who serves it next ends it"


def test_publishes_go_where_somebody_serves() -> None:
    cluster, _ = bereft(durable=False)
    cluster.wait_for(lambda: len(cluster.node("n2").state.map.fragments) == 2, 20_000)
    publisher = cluster.client("n2")
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    publisher.publish("brief", "a")
    cluster.pass_ms(1_000)
    assert publisher.has(BasicAck)


# --- nobody says anything ------------------------------------------------------------------------


def lose_all_proposals(cluster: Cluster) -> None:
    cluster.proposals_lost = True


def lose_the_next_primary(cluster: Cluster) -> None:
    """The primary has said its last word, and whom it was for is gone."""
    (info,) = cluster.node("n3").state.map.fragments.values()
    cluster.hosts[NodeId("n3")].inbox.append(lambda node: node.stop())
    for backup in info.backups:
        cluster.kill(backup, unseen=True)
    cluster.pass_ms(100)


@pytest.mark.parametrize("ask", LEAVING, ids=name_of)
@pytest.mark.parametrize("trouble", [lose_all_proposals, lose_the_next_primary])
def test_who_leaves_waits_no_longer_than_for_a_failover(
    trouble: Callable[[Cluster], None], ask: Ask
) -> None:
    cluster, client = consuming("n3", "n3")
    trouble(cluster)
    assert waited_ms(client, ask) <= LEAVE_MS


@pytest.mark.parametrize("ask", LEAVING, ids=name_of)
def test_the_queue_goes_later_where_its_end_could_not_be_waited_for(ask: Ask) -> None:
    cluster, client = consuming("n3", "n2")
    cluster.proposals_lost = True
    assert waited_ms(client, ask) <= LEAVE_MS
    assert cluster.node("n3").state.map.queues
    cluster.proposals_lost = False
    cluster.pass_ms(1_000)
    assert is_gone(cluster, "n3")


def test_a_channel_goes_on_after_a_cancel_that_was_not_waited_for() -> None:
    cluster, client = consuming("n3", "n2")
    cluster.proposals_lost = True
    waited_ms(client, CANCEL)
    cluster.proposals_lost = False
    cluster.pass_ms(1_000)
    client.ask(ExchangeDeclare("later", "direct"), ExchangeDeclareOk)
    assert client.heard() == [], "one answer each"


def test_a_request_that_waits_for_two_things_is_refused_after_15_s_in_all() -> None:
    cluster, client = bereft(durable=True)
    cluster.unheard[client.host.name] = None
    since_ms = cluster.now_ms
    client.send(QueueDelete("brief"), channel=2)
    cluster.wait_for(lambda: client.has(ChannelClose), 20_000)
    assert client.take(ChannelClose).reply_code == 506
    assert cluster.now_ms - since_ms <= 15_000 + TICK_MS
