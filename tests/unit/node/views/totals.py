"""The cluster as one node sees it, with totals over all fragments."""

from fedq.node.node import Node
from fedq.node.views.overview import overview
from fedq.node.views.overview_types import ClusterOverview


def cluster_of(node: Node, at_once: int = 1_000) -> ClusterOverview:
    """What a node tells of the cluster; so many fragments are added at a time."""
    view = overview(node)
    tally, fragments = view.cluster_tally(), view.fragment_ids()
    for start in range(0, len(fragments), at_once):
        tally.add(fragments[start : start + at_once])
    return tally.found()
