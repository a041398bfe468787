"""A queue from its parts, where a member says less than this release does."""

from fedq.admin.merge import LocalAnswer, QueueMerger
from fedq.core.ids import Epoch, FragmentId, NodeId, QueueKey
from fedq.node.views.overview_types import FragmentOverview, QueueOverview
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.policy_book import NO_STANDING
from tests.unit.admin.served import a_cluster

N1 = NodeId("n1")
KEY = QueueKey("/", "orders")


def test_a_member_that_counts_no_messages_is_not_taken_for_one_that_counted_none() -> None:
    fragment = FragmentOverview(FragmentId(1), N1, (), (N1,), Epoch(1), 1)
    said = pb.LocalFragment(fragment=1, reign=1, serving=True, ready=7)
    for is_told in (False, True):
        if is_told:
            said.traffic.published = 9
        merger = QueueMerger(
            a_cluster(["n1"])["n1"].members(), {N1: LocalAnswer({FragmentId(1): said})}
        )
        overview = QueueOverview(KEY, True, False, "{}", 1, (fragment,))
        queue = merger.merge(overview, NO_STANDING)
        assert queue.ready == 7
        assert queue.fragments[0].HasField("traffic") == is_told
