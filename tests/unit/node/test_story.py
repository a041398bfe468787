"""What a node says in its log: what is new, and nothing that it only reads again."""

from fedq.core.ids import NodeId
from tests.unit.node.harness import Cluster


def test_a_node_that_starts_again_does_not_tell_its_history_anew() -> None:
    cluster = Cluster(3)
    cluster.pass_ms(3_000)
    for name in ("n3", "n2"):
        cluster.kill(name)
        cluster.pass_ms(5_000)
        cluster.hosts[NodeId(name)].story.clear()
        cluster.start(name)
        cluster.pass_ms(8_000)
    told = cluster.hosts[NodeId("n2")].story
    assert not [line for line in told if "is down" in line], "nobody went since n2 is back"
    assert [line for line in told if line.startswith("joined at map version")]
    assert [line for line in told if line == "serving"]
