"""What a node has in memory: plain records that the flows of `fedq.node` work on.

No decisions here. Who changes what is said in each flow's docstring.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

from fedq.core.ids import (
    ConnectionId,
    FragmentId,
    NodeId,
    Origin,
    QueueKey,
)
from fedq.core.peer_messages import TO_PRIMARY, PeerMessage
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.core.seeds import Salts
from fedq.core.work import Work
from fedq.fragments.primary.losses import Losses
from fedq.journal.places import Place
from fedq.journal.records import encode_settle
from fedq.journal.recovered import Recovered
from fedq.journal.segments import SegmentPlan
from fedq.node.outbox import NodeOut
from fedq.node.records.accounts import Accounts
from fedq.node.records.ages import Ages
from fedq.node.records.alarms import Alarm
from fedq.node.records.chores import Chores
from fedq.node.records.client_state import Channel, Client, Consumer, Owner
from fedq.node.records.disk.reads import Reads
from fedq.node.records.disk.scratch import FILE_BYTES_MAX, Scratch
from fedq.node.records.disk.scrub import Scrub
from fedq.node.records.exclusive_waiting import ExclusiveWaiting
from fedq.node.records.marks import Marks
from fedq.node.records.message_counts import MessageCounts
from fedq.node.records.peer import Peer
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.quiet import Quiet
from fedq.node.records.roles import Backup, Primary
from fedq.node.records.streams.stream_pages import Pages
from fedq.node.records.streams.stream_readers import Parts, StreamReaders
from fedq.node.records.suspects import Suspects
from fedq.node.records.tracing.tracer import Tracer
from fedq.node.risk import Risk
from fedq.node.settings import NodeSettings
from fedq.proxy.fanout import InterestBook
from fedq.proxy.hub import Hub
from fedq.proxy.links import NO_SESSION, Link
from fedq.proxy.publisher import FragmentPublisher
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import arguments_of
from fedq.wiring.cluster_map.policy_book import NO_STANDING, PolicyBook, Standing
from fedq.wiring.cluster_map.queue_arguments import STREAM, policy_of
from fedq.wiring.routing.routes import Router


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
        self.exclusive_waiting = ExclusiveWaiting(settings)
        self.private_made = 0
        #: How many of them, by virtual host, no client has named: the map knows of the others.
        self.private_unnamed: dict[str, int] = {}
        #: Consumers of private queues so far.
        self.tickets_given = 0
        self.publishers: dict[FragmentId, FragmentPublisher[Owner]] = {}
        #: Hubs of shared queues that have, or had, consumers here.
        self.hubs: dict[QueueKey, Hub[Consumer]] = {}
        self.clients: dict[ConnectionId, Client] = {}
        self.peers: dict[NodeId, Peer] = {
            peer: self._peer(peer)
            for peer in (*settings.peers, *settings.neighbours)
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
        #: Which policies queues and exchanges have, by the map.
        self.policies = PolicyBook(self.map)
        #: Notes what happens to messages; None: nobody traces anything.
        self.tracer: Tracer | None = None
        #: What leaves queues otherwise than by acknowledgement, as far as it is traced.
        self.losses = Losses()
        #: What this node's clients have published, been delivered and acknowledged.
        self.counts = MessageCounts()
        self.accounts = Accounts(settings.share_bytes_max)
        #: Bytes that have come in since the process began, of clients and of other nodes.
        self.bytes_taken = 0
        #: As the driver says: what waits in its buffers, the process's memory beyond what it began
        #: with, and what is free on its disk (-1: unknown).
        self.bytes_waiting = self.resident = 0
        #: Messages that could not be read from the disk any more, since the process began; and the
        #: fragments of which others have them (`Primary.damaged`).
        self.messages_lost = 0
        #: Owners of private queues that are too long, with the name of one: they are to leave, at
        #: the end of the turn. And what these lengths, and that, have come to so far.
        self.overrun: dict[Client, str] = {}
        self.exclusive_dropped = self.slow_closed = 0
        self.scrub = Scrub()
        self.damaged: dict[FragmentId, None] = {}
        self.disk_free = -1
        #: Fragments that this node leads, or led, and that know publishers with names.
        self.named: dict[FragmentId, None] = {}
        #: Since when messages of primaries are here.
        self.ages = Ages()
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
        #: Why clients are not let in yet, if it is for `cluster_size`.
        self.closed = ""
        #: Fragments that are not handed over for messages that are here alone (`HandingOver`).
        self.holds_alone: dict[FragmentId, None] = {}
        #: With whom the log of this node would elect; (): as the map says.
        self.electing: tuple[NodeId, ...] = self.settings.electing
        #: How often the map has said another thing of who is of the cluster, or votes.
        self.roster_changes = 0
        self.scratch = Scratch(self.out, min(FILE_BYTES_MAX, self.settings.segment_bytes_max))
        self.dirty_clients: dict[Client, None] = {}
        self.streams: dict[QueueKey, Parts] = {}  # Those that have readers here.
        #: Streams in several fragments, in order; publishes go by their routing keys.
        self.parted: dict[QueueKey, tuple[FragmentId, ...]] = {}
        #: What was read back for them, of streams that this node serves.
        self.pages = Pages()
        #: What scans of them have gathered, until it is handed over.
        self.scanned_bytes = 0
        #: Those who got deliveries the short way, and several (`fan_out`).
        self.fanned_clients: dict[Client, None] = {}
        #: Memory holds more than it should, or the disk has little room: nothing is taken in.
        self.memory_full = self.disk_low = False
        #: Nodes of which that is so, this one among them, and what they are short of.
        self.full: dict[NodeId, Alarm] = {}
        #: Clients that are not read, since they publish to what such a node would have to take in,
        #: and for what: a fragment, or a node (`fedq.node.publishing.blocking`).
        self.held: dict[Client, FragmentId | NodeId] = {}
        #: Answers to relays that wait while memory is full.
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
        #: Fragments that are being handed over, to which nothing is sent until that is done.
        self.quiet: dict[FragmentId, Quiet] = {}
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

    def all_speak(self, version: int) -> bool:
        """Whether all members know this version; of a new cluster, whether none said otherwise."""
        known = self.map.cluster_version
        if not known:
            known = min([newest for _, newest in self.map.speaks.values()], default=version)
        return known >= version

    def places_of(self, fragment: FragmentId, position: int) -> list[Place]:
        """Where a message may be on this node's disk, what is likely first."""
        places = self.plan.locate_all(fragment, position)
        return [*self.scratch.places_of(fragment, position), *places]

    def policy_of(self, queue: QueueKey) -> QueuePolicy:
        """What a shared queue's arguments and policies ask; plain for one that is not there."""
        info = self.map.queues.get(queue)
        if info is None or (not info.arguments and self.policies.is_empty):
            return PLAIN
        return self.policy_by(queue, arguments_of(info.arguments))

    def policy_by(self, queue: QueueKey, arguments: Mapping[str, Any]) -> QueuePolicy:
        """What a queue of this name, declared with these arguments, is asked for."""
        before = self.policies.walked
        policy = policy_of(self.policies.queue_arguments(queue, arguments))
        self.work.spend(self.policies.walked - before)
        assert isinstance(policy, QueuePolicy), "the map holds nothing that means nothing"
        return policy

    def standing_of(self, queue: QueueKey, arguments: str) -> Standing:
        """The policies of a queue that was declared with these arguments, for whoever asks."""
        if self.policies.is_empty:
            return NO_STANDING
        before = self.policies.walked
        standing = self.policies.of_queue(queue, arguments_of(arguments))
        self.work.spend(self.policies.walked - before)
        return standing

    def is_stream(self, queue: QueueKey) -> bool:
        """Whether the queue is a stream; next to nothing for one of another type."""
        known = self.map.queues.get(queue)
        if known is None or '"stream"' not in known.arguments:
            return False
        return arguments_of(known.arguments).get("x-queue-type") == STREAM

    def note_parts(self, queue: QueueKey) -> None:
        """Notes the fragments of a stream that has several: they stay what they are."""
        info = self.map.queues.get(queue)
        if info is not None and len(info.fragments) > 1 and self.is_stream(queue):
            self.parted[queue] = tuple(info.fragments)
        else:
            self.parted.pop(queue, None)

    def readers_of(self, queue: QueueKey, fragment: FragmentId) -> StreamReaders | None:
        """The readers of a fragment of a stream; None if there are none."""
        parts = self.streams.get(queue)
        return parts.get(fragment) if parts is not None else None

    def forget_readers(self, queue: QueueKey, fragment: FragmentId) -> None:
        """Forgets a fragment of a stream that has no readers any more."""
        parts = self.streams[queue]
        del parts[fragment]
        if not parts:
            del self.streams[queue]

    def go_on_with_unfinished(self) -> None:
        """Begins a turn with what the last one had no room for."""
        marks = self.marks
        unfinished, marks.unfinished = marks.unfinished, {}
        queues, marks.queues = marks.queues, {}
        for fragment in unfinished:
            self.mark_fragment(fragment)
        marks.queues.update(queues)

    def _peer(self, node: NodeId) -> Peer:
        return Peer(Link(self.me, self.settings.incarnation, node))

    def know(self, node: NodeId) -> None:
        """Has to do with one more node from now on; nothing changes if it is known."""
        if node != self.me and node not in self.peers:
            self.peers[node] = self._peer(node)

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

    def release_all_reading(self, client: Client) -> None:
        """Takes away all reasons not to read: what comes from now on is read and dropped."""
        if client.read_blocks is not None:
            client.read_blocks = None
            client.machine.excuse_silence(self.now_ms)
            self.out.reading[client.connection] = True

    @property
    def voters(self) -> tuple[NodeId, ...]:
        """The nodes that elect: by the log, or by the configuration if that never named any.

        Who was let into a cluster whose log never did has the others' from its roster.
        """
        named = self.electing or self.map.voters or self.settings.voters
        if named:
            return named
        places = self.map.roster.items()
        return tuple([node for node, place in places if place.votes and not place.directory])

    def is_linked(self, node: NodeId) -> bool:
        """Whether the link to the node is up."""
        peer = self.peers.get(node)
        return peer is not None and peer.link.connected

    def session_with(self, node: NodeId) -> tuple[int, int]:
        """The session with a node: when this one and that one came up. This node alone is one, too.

        (0, 0): there is none.
        """
        if node == self.me:
            mine = self.map.members.get(node)
            return (mine.up_version if mine is not None else 0, 0)
        peer = self.peers.get(node)
        return peer.link.session if peer is not None else NO_SESSION

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
