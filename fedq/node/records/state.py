"""What a node has in memory: plain records that the flows of `fedq.node` work on.

No decisions here. Who changes what is said in each flow's docstring.
"""

from collections import deque
from collections.abc import Mapping

from fedq.channels.confirms import ConfirmGroup
from fedq.core.ids import (
    NO_PROCESS,
    ConnectionId,
    FragmentId,
    Incarnation,
    MapVersion,
    NodeId,
    Origin,
    QueueKey,
)
from fedq.core.peer_messages import TO_PRIMARY, PeerMessage
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.core.ranges import Range
from fedq.core.seeds import Salts
from fedq.core.work import Work
from fedq.fragments.fragment import Fragment
from fedq.fragments.pace import Pace
from fedq.fragments.replica import Replica
from fedq.fragments.takers import Takers
from fedq.fragments.windows import Windows
from fedq.journal.records import encode_settle
from fedq.journal.recovered import Recovered
from fedq.journal.segments import SegmentPlan
from fedq.node.outbox import NodeOut
from fedq.node.records.accounts import Accounts
from fedq.node.records.chores import Chores
from fedq.node.records.client_state import Channel, Client, Consumer, Owner
from fedq.node.records.marks import Marks
from fedq.node.records.reads import Reads
from fedq.node.records.stream_readers import StreamReaders
from fedq.node.records.suspects import Suspects
from fedq.node.risk import Risk
from fedq.node.settings import NodeSettings
from fedq.proxy.fanout import InterestBook, Relays
from fedq.proxy.hub import Hub
from fedq.proxy.links import Link
from fedq.proxy.publisher import FragmentPublisher
from fedq.replication.backup import OFFERED, BackupReplication
from fedq.replication.durable import DurableMark
from fedq.replication.primary import PrimaryReplication
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import arguments_of
from fedq.wiring.cluster_map.queue_arguments import policy_of
from fedq.wiring.routing.routes import Router


class PrivateQueue:
    """A queue that lives on this node only: an exclusive one."""

    __slots__ = (
        "arguments", "auto_delete", "bindings", "claimed", "durable", "ending", "fragment",
        "had_consumers", "hub", "is_counted", "is_plain", "key", "owner", "policy", "sole_consumer",
        "used_ms",
    )  # fmt: skip

    def __init__(
        self, key: QueueKey, fragment: Fragment, owner: Client, policy: QueuePolicy,
        now_ms: int,
    ) -> None:  # fmt: skip
        #: The consumer that gets whatever comes, at once: the only one, of a queue that holds
        #: nothing (`fan_out`). Void as soon as anything of that may change.
        self.sole_consumer: Consumer | None = None
        self.key = key
        self.policy = policy
        #: Its policy has no say in what becomes of a message.
        self.is_plain = policy._replace(expires_ms=None) == PLAIN
        #: When it was last of use to somebody (x-expires).
        self.used_ms = now_ms
        self.fragment = fragment
        #: The only connection that may use it.
        self.owner = owner
        self.hub: Hub[Consumer] = Hub(policy.single_active)
        self.auto_delete = False
        self.durable = False
        #: The arguments of its declaration, as JSON.
        self.arguments = ""
        #: Its name was chosen by the client and is registered in the map.
        self.claimed = False
        #: Its bindings are being undone; then it is gone.
        self.ending = False
        self.had_consumers = False
        #: It is one of `NodeState.private_unnamed`.
        self.is_counted = False
        #: (exchange, routing key, arguments as JSON).
        self.bindings: dict[tuple[QueueKey, str, str], None] = {}


class Primary:
    """A shared fragment that this node serves."""

    __slots__ = (
        "attaching", "calls", "damaged", "dying", "ending", "fragment", "gets", "handing_over",
        "is_plain", "mark", "marking", "noted", "pace", "promised", "queue", "replication",
        "seen_at", "seen_event", "takers", "unsure", "used_ms", "windows",
    )  # fmt: skip

    def __init__(
        self, queue: QueueKey, fragment: Fragment, replication: PrimaryReplication, now_ms: int
    ) -> None:
        self.queue = queue
        #: When it was last of use to somebody (x-expires).
        self.used_ms = now_ms
        #: Messages on their way to the dead-letter exchange.
        self.dying = 0
        #: The map is being told that the queue has consumers (auto-delete),
        self.marking = False
        #: or that it ends, since nobody uses it.
        self.ending = False
        self.fragment = fragment
        #: Its policy has no say in what becomes of a message.
        self.is_plain = fragment.policy._replace(expires_ms=None) == PLAIN
        self.replication = replication
        self.takers = Takers(fragment.policy.single_active, fragment.reign)
        #: How fast consumers here take its messages, and how much of what was handed out is noted.
        self.pace = Pace(now_ms)
        #: What each node keeps up with, once several have consumers.
        self.windows: Windows | None = None
        self.noted = 0
        #: basic.get of other nodes, as (node, request), that wait until this node may serve.
        self.gets: deque[tuple[NodeId, int]] = deque()
        #: Calls that wait until this node may serve, as (node, request, verb).
        self.calls: deque[tuple[NodeId, int, int]] = deque()
        #: Answers that wait until an event is committed: (event, node, request, number).
        self.promised: deque[tuple[int, NodeId, int, int]] = deque()
        #: This node's own disk.
        self.mark = DurableMark(fragment.last)
        #: Members that may hold deliveries of an earlier reign and have not said so yet, with
        #: the map version that they must have applied. Nothing is handed out meanwhile.
        self.attaching: dict[NodeId, MapVersion] = {}
        #: Who published what was here when the reign began, as far as that is known no more: one of
        #: them that is among those may send it again.
        self.unsure: Mapping[Origin, int] = {}
        #: Between which positions messages cannot be read from this node's disk, though others have
        #: them: it is to be led by one of these.
        self.damaged: list[Range] = []
        #: The map is asked for another primary: nothing is handed out before it has answered.
        self.handing_over = False
        #: The epoch at which it was said, as the last word of this reign, what was seen: nothing is
        #: handed out after that. 0: it was not.
        self.seen_at = 0
        #: And the number of the event that says so.
        self.seen_event = 0

    @property
    def holds_back(self) -> bool:
        """Whether nothing may be handed out now."""
        return (
            self.handing_over
            or self.seen_at > 0
            or len(self.attaching) > 0
            or len(self.damaged) > 0
        )


class Backup:
    """A shared fragment of which this node keeps a copy."""

    __slots__ = ("failed", "last", "queue", "replica", "replication", "unsure", "whole")

    def __init__(
        self, queue: QueueKey, replica: Replica, replication: BackupReplication, last: int,
        whole: bool, unsure: Mapping[Origin, int],
    ) -> None:  # fmt: skip
        self.queue = queue
        self.unsure = unsure  # See `Primary`.
        self.replica = replica
        self.replication = replication
        #: Its last event before it followed this primary; and whether that is all there was.
        self.last = last
        self.whole = whole
        #: It could not take in what its primary sent: it is no copy any more.
        self.failed = False

    @property
    def last_held(self) -> int:
        """The last event in the copy."""
        replication = self.replication
        return self.last if replication.state == OFFERED else replication.received


class Peer:
    """Another node of the cluster."""

    __slots__ = (
        "answering", "applied", "down_ms", "forgetting", "full", "interest_told", "introduced",
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
        #: It takes in no more.
        self.full = False
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


class NodeState:
    """Everything, in one place; `fedq.node.node.Node` owns it."""

    def __init__(self, settings: NodeSettings, recovered: Recovered) -> None:
        self.settings = settings
        self.me: NodeId = settings.node
        self.origin = Origin(settings.node, settings.incarnation)
        self.salts = Salts(settings.seed, f"{settings.node}/{settings.incarnation}")
        self.now_ms = 0
        self.work = Work(settings.work_per_turn)
        self.chores = Chores(self.work)
        self.out = NodeOut()
        self.reads = Reads(self.out)
        self.risk = Risk()
        self.marks = Marks()
        self.map = ClusterMap()
        self.router = Router(settings.node)
        self.plan = _plan_of(settings, recovered)
        #: Cold copies from the disk that the map has not given a part yet.
        self.recovered = recovered.fragments
        self.primaries: dict[FragmentId, Primary] = {}
        self.backups: dict[FragmentId, Backup] = {}
        self.private: dict[QueueKey, PrivateQueue] = {}
        self.private_by_id: dict[int, PrivateQueue] = {}
        #: Those that held messages at the end of the turn that last touched them: few, of many.
        self.nonempty_private: dict[QueueKey, PrivateQueue] = {}
        self.private_made = 0
        #: How many of them, by virtual host, clients declared without a name of their own: the
        #: map knows of the others.
        self.private_unnamed: dict[str, int] = {}
        #: Consumers of private queues so far.
        self.tickets_given = 0
        self.publishers: dict[FragmentId, FragmentPublisher[Owner]] = {}
        #: Hubs of shared queues that have, or had, consumers here.
        self.hubs: dict[QueueKey, Hub[Consumer]] = {}
        self.clients: dict[ConnectionId, Client] = {}
        self.peers: dict[NodeId, Peer] = {
            peer: Peer(Link(self.me, settings.incarnation, peer))
            for peer in settings.peers
            if peer != self.me
        }
        #: Those who have not said all since this node was let in; whether they have begun to.
        self.unheard: dict[NodeId, bool] = {}
        self.interest = InterestBook()
        #: Whether this node may confirm and deliver (P7): up in the map, and its lease holds.
        self.serving = False
        #: Whether this process has been up in the map: before that its map may be an old one.
        self.joined = False
        self.joined_ms = 0
        self.leader: NodeId | None = None
        #: The last journal chunk that is on disk, and the last that somebody waits for.
        self.synced = self.sync_asked = 0
        #: The disk has owed a sync for too long; the node is to be stopped (`HandingOver`).
        self.disk_stalls = False
        #: The disk of the Raft log has owed a sync for too long: this node keeps silent.
        self.log_stalls = False
        self.stopping = False
        #: Private queues with `x-expires`, and when each fragment's policy has something to do.
        self.expiring: dict[QueueKey, None] = {}
        self.alarms: list[tuple[int, FragmentId]] = []
        self._begin_suspecting(settings)
        self._begin_counting(settings)
        self._begin_waiting()

    def _begin_suspecting(self, settings: NodeSettings) -> None:
        """Begins to suspect: what this node fails at, and what somebody failed at before."""
        #: What the node is at, for when it fails (`post_mortem`): for whom or where, and what came,
        #: or was taken in hand. Noted once for each command, batch, queue or message of a peer.
        self.at: object = None
        self.at_what: object = None
        #: What it, or another node, failed at before.
        self.suspects = Suspects()
        self.suspects.add(settings.suspects, -1)
        #: Copies that this node could not keep: when that was, and how long it waits after that.
        self.failed_copies: dict[FragmentId, tuple[int, int]] = {}
        #: Those set aside of which nobody was told yet who waits for dead letters.
        self.untold: dict[tuple[FragmentId, int], None] = {}

    def _begin_counting(self, settings: NodeSettings) -> None:
        """Begins to count what is held, beside messages, and what the driver says of it."""
        self.accounts = Accounts(settings.share_bytes_max)
        #: Bytes that have come in since the process began, of clients and of other nodes' records.
        self.bytes_taken = 0
        #: As the driver says: what waits in its buffers, the process's memory beyond what it began
        #: with, and what is free on its disk (-1: unknown).
        self.bytes_waiting = self.resident = 0
        #: Messages that could not be read from the disk any more, since the process began; and the
        #: fragments of which others have them (`Primary.damaged`).
        self.messages_lost = 0
        self.damaged: dict[FragmentId, None] = {}
        self.disk_free = -1
        #: Channels in tx mode, and some that are gone.
        self.transacting: dict[Channel, None] = {}

    @property
    def takes_nothing(self) -> bool:
        """Whether this node holds as much as it may: see `fedq.node.clients.memory`."""
        return self.memory_full or self.disk_low

    @property
    def unix_ms(self) -> int:
        """The wall clock, in milliseconds since 1970."""
        return self.now_ms + self.settings.unix_offset_ms

    def _begin_waiting(self) -> None:
        """Begins the lists of who waits for what, beyond a turn. Dicts keep the order."""
        self.dirty_clients: dict[Client, None] = {}
        self.streams: dict[QueueKey, StreamReaders] = {}  # Those that have readers here.
        #: Those who got deliveries the short way, and several (`fan_out`).
        self.fanned_clients: dict[Client, None] = {}
        #: Memory holds more than it should, or the disk has little room: nothing is taken in.
        self.memory_full = self.disk_low = False
        #: That is so here, or on another node that is up: nobody's publishers are read.
        self.publishers_wait = False
        #: Answers to relays that wait until it does not any more.
        self.relays_done: list[tuple[NodeId, PeerMessage]] = []
        #: Channels that are gone once their request is answered: until then they hold deliveries.
        self.leaving: dict[Channel, None] = {}
        #: Channels whose request waits for the cluster, and since when.
        self.waiting: dict[Channel, int] = {}
        #: Clients whose consumers took as much as one turn gives: they go on in the next one.
        self.at_turn_limit: dict[Client, None] = {}
        #: Clients to whom a turn wrote so much that they may not have read it, and how much.
        self.written_much: dict[Client, int] = {}
        #: Fragments whose copies, or consumers, may call for a change of the map.
        self.looked_after: dict[FragmentId, None] = {}
        #: Fragments that wait for peers to say what they hold of an earlier reign.
        self.attaching: dict[FragmentId, None] = {}
        #: How many times this process has asked a primary for a copy.
        self.copies_asked = 0
        #: Its map is another one than that of a majority: it serves nobody.
        self.outvoted = False
        #: What an operator should know, by subject, and when it was found last.
        self.found: dict[str, tuple[str, int]] = {}
        #: Peers that count as down and are not expected back any more.
        self.lost_peers: dict[NodeId, None] = {}
        #: Who waits for which journal chunk: a fragment this node serves, or one it copies.
        self.sync_waits: deque[tuple[int, Primary | FragmentId]] = deque()

    def policy_of(self, queue: QueueKey) -> QueuePolicy:
        """What a shared queue's arguments ask; plain for a queue that is not in the map."""
        info = self.map.queues.get(queue)
        if info is None or not info.arguments:
            return PLAIN
        policy = policy_of(arguments_of(info.arguments))
        assert isinstance(policy, QueuePolicy), "the map holds no arguments that mean nothing"
        return policy

    def is_stream(self, queue: QueueKey) -> bool:
        """Whether the queue is a stream; next to nothing for one of another type."""
        known = self.map.queues.get(queue)
        may_be = known is not None and '"stream"' in known.arguments
        return may_be and self.policy_of(queue).stream is not None

    def go_on_with_unfinished(self) -> None:
        """Begins a turn with what the last one had no room for."""
        marks = self.marks
        unfinished, marks.unfinished = marks.unfinished, {}
        queues, marks.queues = marks.queues, {}
        for fragment in unfinished:
            self.mark_fragment(fragment)
        marks.queues.update(queues)

    def send(self, peer: NodeId, message: PeerMessage, patient: bool = False) -> None:
        """Queues a message on the link to a peer; void when it is down.

        So is what concerns a fragment of it that it has not been told of in this session: it hears
        all of that then. `patient`: nobody waits for it; it may wait for others to travel with.
        """
        to = self.peers[peer]
        if to.unsaid and isinstance(message, TO_PRIMARY) and message.fragment in to.unsaid:
            return
        to.link.send(message, patient)

    def wake(self, consumer: Consumer) -> None:
        """Wakes a consumer, which may take more than before: its queue is looked at."""
        if consumer.hub is not None:
            consumer.hub.wake(consumer)
        self.marks.queues[consumer.queue] = None

    def mark_fragment(self, fragment: FragmentId) -> None:
        """Marks the fragment, if it is here, or read from here: there may be more to hand out."""
        private = self.private_by_id.get(fragment)
        primary = self.primaries.get(fragment)
        if private is not None:
            self.marks.queues[private.key] = None
        elif primary is not None:
            self.marks.primaries[fragment] = None
            self.marks.queues[primary.queue] = None
        elif self.streams and (info := self.map.fragments.get(fragment)) is not None:
            self.marks.queues[info.queue] = None

    def hold_reading(self, client: Client, reason: str) -> None:
        """Holds back reading: the client's socket is not read while there is a reason."""
        if client.read_blocks is None:
            self.out.reading[client.connection] = False
            client.read_blocks = {}
        client.read_blocks[reason] = None

    def release_reading(self, client: Client, reason: str) -> None:
        """Takes away one reason not to read."""
        if client.read_blocks is not None and reason in client.read_blocks:
            del client.read_blocks[reason]
            if not client.read_blocks:
                client.read_blocks = None
                client.machine.excuse_silence(self.now_ms)
                self.out.reading[client.connection] = True

    def live_peers(self) -> list[NodeId]:
        """The other members that the map says are up."""
        return [
            node
            for node, member in self.map.members.items()
            if member.up and node != self.me and node in self.peers
        ]

    def is_in_memory(self, fragment: FragmentId) -> bool:
        """Whether a process that is up has the fragment: by the map, one of them leads or will."""
        info = self.map.fragments.get(fragment)
        return info is not None and any(self.map.is_up(*copy) for copy in info.in_sync.items())

    def primary_of(self, fragment: FragmentId) -> NodeId | None:
        """The node that serves a fragment, or is about to, by the map.

        None if nobody can before its node returns, or nothing of it is left.
        """
        info = self.map.fragments.get(fragment)
        if info is None:
            return None
        if not self.is_in_memory(fragment):
            # What is durable begins anew from the disk of its primary, if that is back.
            durable = self.map.queues[info.queue].durable
            if not durable or not self.map.members[info.primary].up:
                return None
        return info.primary


def _plan_of(settings: NodeSettings, recovered: Recovered) -> SegmentPlan:
    marks = Salts(settings.seed, f"journal/{settings.node}/{settings.incarnation}")
    nonce = int.from_bytes(marks.octets(8))
    plan = SegmentPlan(recovered.segments, settings.segment_bytes_max, nonce, recovered.checkpoint)
    for fragment, lost in recovered.lost.items():
        # So that no start misses it again.
        known = recovered.fragments[fragment]
        plan.append(fragment, encode_settle(fragment, known.reign, known.last, lost), True)
    return plan
