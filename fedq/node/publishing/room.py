"""Publishing: from what clients, nodes and dead letters publish to the fragments that take it."""

from collections.abc import Callable

from fedq.core.ids import QueueKey
from fedq.node.publishing.admission import Admission
from fedq.node.publishing.blocking import Blocking
from fedq.node.publishing.dead_letters import DeadLetters
from fedq.node.publishing.fan_out import FanOut
from fedq.node.publishing.outlets import Outlets
from fedq.node.publishing.publish_flow import PublishFlow
from fedq.node.publishing.relay_flow import RelayFlow
from fedq.node.records.client_state import Client
from fedq.node.records.state import NodeState


class Publishing:
    """The parts of this room, each made of those before it."""

    __slots__ = ("admission", "blocking", "flow", "letters", "outlets", "relays")

    def __init__(
        self, state: NodeState, propose_fragment: Callable[[QueueKey], None],
        may_publish: Callable[[Client, str], bool],
        may_publish_topic: Callable[[Client, str, str], bool | None],
    ) -> None:  # fmt: skip
        """`propose_fragment` is for `Outlets`, the others for `PublishFlow`: see there."""
        self.admission = Admission(state)
        self.blocking = Blocking(state)
        fan_out = FanOut(state)
        self.relays = RelayFlow(state, self.admission, fan_out, self.blocking)
        self.outlets = Outlets(
            state, self.admission, fan_out, self.relays, self.blocking, propose_fragment
        )
        self.letters = DeadLetters(state, self.outlets)
        self.flow = PublishFlow(state, self.outlets, self.blocking, may_publish, may_publish_topic)
