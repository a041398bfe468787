"""What a taker's settlements do to a fragment of this node."""

from fedq.core.ids import NodeId
from fedq.fragments.fragment import Fragment
from fedq.node.state import Settlements


def settle_in(fragment: Fragment, taker: NodeId, settlements: Settlements) -> None:
    """A taker's settlements take effect in a fragment of this node."""
    fragment.settle(taker, settlements.acknowledged)
    fragment.requeue(taker, settlements.requeued)
    fragment.reject(taker, settlements.rejected)
    fragment.take_back(taker, settlements.unseen)
