"""Nodes whose cluster maps went different ways find it out; the one that is alone steps back."""

import orjson
import pytest

from fedq.core.errors import NodeFailure
from fedq.node.views.overview import overview
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import encode_command
from tests.unit.node.harness import Cluster
from tests.unit.wiring.maps import Wired, exchange, queue, up


def of_a_newer_release(change: dict[str, object]) -> bytes:
    form = orjson.loads(encode_command("newer", [queue("q")]))
    form.update(change)
    return orjson.dumps(form)


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"ops": [{"op": "queue_of_tomorrow", "name": "q"}]},
        {"ops": [{"op": "delete_queue", "vhost": "/", "name": "q", "softly": True}]},
    ],
)
def test_a_command_of_a_newer_release_stops_the_node_before_it_counts(
    change: dict[str, object],
) -> None:
    wired = Wired("a")
    before = wired.map.snapshot()
    with pytest.raises(NodeFailure, match=r"does not know .* start a newer release on this node"):
        wired.map.apply(of_a_newer_release(change))
    assert wired.map.snapshot() == before


def test_the_digest_tells_maps_apart_that_went_different_ways() -> None:
    one, other = Wired("a"), Wired("a")
    assert one.map.digest == other.map.digest != 0
    one.ok(queue("q"))
    other.ok(queue("p"))
    assert one.map.digest != other.map.digest
    # A refusal here and a success there is another way, too.
    one, other = Wired("a"), Wired("a")
    other.map.exchanges.pop(next(iter(other.map.exchanges)))
    one.send(exchange("e"))
    other.send(exchange("e"))
    same = one.map.digest == other.map.digest
    assert same
    restored = ClusterMap()
    restored.restore(one.map.snapshot())
    assert restored.digest == one.map.digest


def test_a_map_of_an_earlier_release_has_none_until_the_first_process_of_this_one() -> None:
    old = ClusterMap()
    old.apply(
        b'{"v":1,"id":"r","ops":[{"op":"member_up","node":"a","incarnation":3,"peer_address":"p",'
        b'"amqp_address":"q","zone":""}]}'
    )
    assert old.digest == 0
    old.apply(encode_command("s", [up("b")]))
    assert old.digest != 0


def test_the_node_whose_map_is_alone_serves_nobody_and_all_say_so() -> None:
    cluster = Cluster(3)
    nodes = [cluster.node(name) for name in ("n1", "n2", "n3")]
    assert all(node.state.serving for node in nodes)
    nodes[2].state.map.digest ^= 1
    nodes[0].begin_turn(cluster.now_ms)
    cluster.log.append(encode_command("anything", [queue("q", "n1")]))
    cluster.pass_ms(200)
    assert [node.state.serving for node in nodes] == [True, True, False]
    for node in nodes:
        said = overview(node).node().troubles
        assert any("cluster map of" in each and "differs from that of" in each for each in said)
