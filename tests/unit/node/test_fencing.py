"""What clients of a node hear that is cut off."""

from fedq.amqp.methods import ConnectionBlocked, ConnectionClose
from tests.unit.node.harness import Cluster


def test_who_is_cut_off_tells_its_clients_once_others_must_serve_in_its_place() -> None:
    cluster = Cluster(3)
    client = cluster.client("n1")
    cluster.cut("n1")
    cluster.pass_ms(2_000)
    assert client.has(ConnectionBlocked)
    assert not client.has(ConnectionClose), "an election takes a while"
    cluster.pass_ms(3_000)
    assert client.close_reason[0] == 320, "not only after ten seconds"
