"""What a node keeps of another node of the cluster: plain records, changed by the flows."""

from fedq.channels.confirms import ConfirmGroup
from fedq.core.ids import NO_PROCESS, FragmentId, Incarnation, MapVersion
from fedq.core.peer_messages import PeerMessage
from fedq.node.records.alarms import Alarm
from fedq.node.records.client_state import Channel, Owner
from fedq.proxy.fanout import Relays
from fedq.proxy.links import Link


class Peer:
    """Another node of the cluster."""

    __slots__ = (
        "alarm", "answering", "applied", "down_ms", "forgetting", "interest_told", "introduced",
        "leaving", "link", "met_at", "process", "relayed", "relays", "sent_heard_ms", "stalls",
        "unsaid", "waiting",
    )  # fmt: skip

    def __init__(self, link: Link) -> None:
        self.link = link
        #: The process that answered last at its own address, if it said so: only one can listen
        #: there, so any before it is gone. A call *from* somebody proves nothing: anyone may use a
        #: name.
        self.answering = NO_PROCESS
        self.relays: Relays[RelayWaiter] = Relays()
        #: The newest map version it has said it applied.
        self.applied = MapVersion(0)
        #: The newest of this node's interest announcements that is in force there.
        self.interest_told = 0
        #: Whether it has said, in this session, what its private queues want.
        self.introduced = False
        #: When this node was let in, as of their last session.
        self.met_at = MapVersion(0)
        #: The last relay taken from each process of it.
        self.relayed: dict[Incarnation, int] = {}
        #: The process that its link and its interest are of; None: none yet, or given up.
        self.process: Incarnation | None = None
        #: Since when the map has it down.
        self.down_ms = 0
        #: The newest `sent_ms` of its heartbeats, to be echoed.
        self.sent_heard_ms = 0
        #: It is being stopped.
        self.leaving = False
        #: Its disk hangs, as it said itself.
        self.stalls = False
        #: What it is short of, if it takes in no more.
        self.alarm: Alarm | None = None
        #: Messages of it that wait for a turn with room for them.
        self.waiting: list[PeerMessage] = []
        #: See `peer_sessions`: what it had has not all returned; and what is to be said.
        self.forgetting = False
        self.unsaid: dict[FragmentId, None] = {}


class RelayWaiter:
    """A run of mandatory or confirmed publishes on its way to the private queues of other nodes."""

    __slots__ = ("channel", "group", "mandatory", "size", "waiting")

    def __init__(
        self,
        channel: Channel | None,
        group: ConfirmGroup[Owner] | None,
        mandatory: dict[int, bytes],
    ) -> None:
        self.channel = channel
        self.group = group
        #: Mandatory messages, by index in the run, that no node has matched yet.
        self.mandatory = mandatory
        #: Publishes in the run, and nodes that have not answered.
        self.size = 0
        self.waiting = 0
