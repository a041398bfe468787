"""Without a majority: operators hear who is missing, clients that they should go elsewhere."""

from fedq.amqp.methods import ConnectionClose, QueueDeclare, QueueDeclareOk
from tests.unit.node.harness import Cluster


def told(cluster: Cluster, name: str = "n1") -> list[str]:
    return [line for line in cluster.hosts[cluster.node(name).state.me].story if "missing" in line]


def test_a_node_that_starts_alone_says_who_is_missing_and_sends_clients_away() -> None:
    cluster = Cluster(3)
    for name in ("n1", "n2", "n3"):
        cluster.kill(name)
    cluster.start("n1")
    early = cluster.knock()
    early.shake_hands()
    cluster.pass_ms(6_000)
    (line,) = told(cluster)
    assert line.startswith("no majority: 1 of 3 nodes are here, 2 are needed; missing: n2, n3")
    late = cluster.knock()
    late.shake_hands()
    cluster.pass_ms(200)
    for client in (early, late):
        closed = client.take(ConnectionClose)
        assert closed.reply_code == 320
        assert "has not joined" in closed.reply_text
    cluster.pass_ms(60_000)
    assert len(told(cluster)) == 2, "once a minute"
    cluster.start("n2")
    cluster.pass_ms(5_000)
    cluster.client().ask(QueueDeclare("q"), QueueDeclareOk)
    cluster.pass_ms(70_000)
    assert len(told(cluster)) == 2


def test_a_start_that_takes_a_moment_is_no_news() -> None:
    cluster = Cluster(3)
    assert told(cluster) == []
    cluster.client()


def test_whoever_comes_to_a_node_that_is_cut_off_is_sent_away_too() -> None:
    cluster = Cluster(3)
    there = cluster.client()
    for name in ("n2", "n3"):
        cluster.kill(name)
    cluster.pass_ms(12_000)
    assert there.take(ConnectionClose).reply_code == 320
    assert "missing: n2, n3" in told(cluster)[0]
    late = cluster.knock()
    late.shake_hands()
    cluster.pass_ms(500)
    assert late.take(ConnectionClose).reply_code == 320
