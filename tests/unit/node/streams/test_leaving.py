"""Named readers that leave at an odd moment: the name's place stays what it was."""

from functools import partial

from fedq.amqp.methods import BasicAck
from fedq.core.ids import NodeId
from fedq.core.reader_messages import LEAVES, ReadAs
from fedq.node.streams.naming import Naming
from tests.unit.node.harness import Cluster
from tests.unit.node.streams.test_naming import filled, places, reads_as
from tests.unit.node.streams.test_reading import numbers


def test_who_leaves_before_it_heard_of_its_turn_takes_no_place_with_it() -> None:
    cluster = Cluster(3)
    filled(cluster)
    first, second = cluster.client("n1"), cluster.client("n3")
    for reader in (first, second):
        reads_as(reader, prefetch=4)
    first.send(BasicAck(4, True))
    cluster.pass_ms(100)
    # Who waits does not say where it is, as its turn may be on its way, and counts by then.
    second.hang_up()
    leaves = [said for _, _, said in cluster.overheard if isinstance(said, ReadAs)][-1]
    assert (leaves.verb, leaves.value) == (LEAVES, 0)
    third = cluster.client("n3")
    reads_as(third)
    first.hang_up()
    last = [said for _, _, said in cluster.overheard if isinstance(said, ReadAs)][-1]
    assert third.deliveries() == numbers(4, 10)
    gone = leaves._replace(request=last.request)
    hear = partial(Naming.on_step, sender=NodeId("n3"), message=gone)
    cluster.hosts[NodeId("n1")].inbox.append(lambda node: hear(node.streams.naming))
    cluster.pass_ms(700)
    assert places(cluster) == {"app": 4}
