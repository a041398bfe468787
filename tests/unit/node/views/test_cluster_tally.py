"""Totals over fragments, put together while the map changes."""

from fedq.amqp.methods import QueueDelete, QueueDeleteOk
from fedq.node.views.overview import overview
from tests.unit.node.harness import Cluster
from tests.unit.node.test_three_nodes import declared
from tests.unit.node.views.totals import cluster_of


def test_totals_are_the_same_in_whatever_parts() -> None:
    cluster = Cluster(3)
    declared(cluster, fragments=3)
    node = cluster.node("n1")
    whole = cluster_of(node)
    assert (whole.queues, whole.fragments, whole.fragments_unavailable) == (1, 3, 0)
    assert sum(whole.leads.values()) == 3
    assert sum(whole.copies.values()) >= 6
    assert cluster_of(node, at_once=1) == whole


def test_a_queue_that_is_deleted_meanwhile_is_left_out() -> None:
    cluster = Cluster(3)
    clients = declared(cluster, fragments=3)
    view = overview(cluster.node("n1"))
    tally, fragments = view.cluster_tally(), view.fragment_ids()
    tally.add(fragments[:1])
    clients[0].ask(QueueDelete("orders"), QueueDeleteOk)
    cluster.wait_for(lambda: not view.fragment_ids())
    tally.add(fragments[1:])
    found = tally.found()
    assert (found.queues, found.fragments) == (0, 0)
    assert sum(found.leads.values()) == 1
