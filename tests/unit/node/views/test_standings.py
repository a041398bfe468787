"""The policies of what is listed: looked for in pieces, however long their patterns take."""

import orjson

from fedq.amqp.methods import ExchangeDeclare, ExchangeDeclareOk, QueueDeclare, QueueDeclareOk
from fedq.core.ids import QueueKey
from fedq.node.views.access_overview import AccessView
from fedq.node.views.overview import NodeView
from tests.unit.node.harness import Cluster
from tests.unit.node.map.test_policies import put


def test_policies_of_a_list_are_looked_for_in_pieces() -> None:
    cluster = Cluster()
    client = cluster.client()
    names = [f"{number:03}{'ab' * 120}" for number in range(20)]
    for name in names:
        client.ask(QueueDeclare(name), QueueDeclareOk)
        client.ask(ExchangeDeclare(name, "fanout"), ExchangeDeclareOk)
    for number in range(9):
        put(cluster, {"max-length": 4}, f"[ab]*a[ab]{{490}}Z{number}", f"p{number}")
    put(cluster, {"max-length": 5}, "^", "short")
    node, keys = cluster.node("n1"), [QueueKey("/", name) for name in names]
    some = NodeView(node).standings(keys)
    assert 0 < len(some) < 10
    assert {each.policy for each in some} == {"short"}
    assert orjson.dumps(dict(some[0].definition)) == b'{"max-length":5}'
    assert 0 < len(AccessView(node).policies_of_exchanges(keys)) < 10
