"""The bounds on what a node holds, in memory and on its disk (P8): the one place that compares.

Above `memory_bytes_max`, or with less than `DISK_FREE_BYTES_MIN` free, the node takes in no more:
connections that publish to it, here and, by the heartbeats, on all other nodes, are not read and
hear connection.blocked (`fedq.node.publishing.blocking`). Publishes of other nodes that are on
their way are stored, and acknowledged once a second alone: so their windows fill, and still nothing
that makes room, like dead letters, waits for ever. Consumers go on, so it ends by itself, below
nine tenths of the bound.

What is held is the sum of what messages take, of what clients are charged, and of what waits in
links and in the driver. It is looked at twice a second, and whenever so much has come in that it
may have become too much meanwhile: the closer to the bound, the sooner. The memory that the process
really has counts as well: beyond the bound it sets the alarm, if at least half of the bound is
accounted for. Otherwise it is what the allocator keeps of what was freed; were that to block
publishers, it might be for ever.

Bodies that are never finished do not go away by being blocked: when they are half of the bound, the
connection with the most of them ends.
"""

from typing import Final

from fedq.core.ids import FragmentId
from fedq.fragments.upkeep import footprint
from fedq.node.clients.client_flow import ClientFlow
from fedq.node.copies.stowing import Stowing
from fedq.node.publishing.blocking import Blocking
from fedq.node.records.accounts import of_transaction
from fedq.node.records.alarms import Alarm
from fedq.node.records.chores import Each
from fedq.node.records.client_state import Client
from fedq.node.records.state import NodeState

LOOK_EVERY_MS: Final = 500
#: How often other nodes hear what a full node has of them.
LET_THROUGH_MS: Final = 1_000
UNFINISHED: Final = "the node is low on memory: messages that were begun must be finished"
#: A byte that comes in makes the node hold so many at most (of what comes in in great numbers), and
#: so much of the bound may be held beyond it, both as shifts.
_HELD_SHIFT: Final = 4
_BEYOND_SHIFT: Final = 8
#: What part of the bound is kept, at most, for what other nodes have on its way, as a shift.
_COMING_SHIFT: Final = 3

#: What it costs when a fragment is looked at, in units of work.
_LOOK_WORK: Final = 5


class Memory:
    """Compares what this node holds with its bounds."""

    __slots__ = (
        "_let_through_ms", "_look_bytes", "_looked_ms", "_stowing", "blocking", "clients", "state",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, clients: ClientFlow, blocking: Blocking, stowing: Stowing
    ) -> None:
        self.state = state
        self.clients = clients
        self.blocking = blocking
        self._stowing = stowing
        #: When other nodes heard last, by this node's alarm, what it has of them.
        self._let_through_ms = 0
        self._looked_ms = 0
        #: When so much has come in, it is time for a look.
        self._look_bytes = 0

    def tick(self) -> None:
        """Looks when it is time."""
        state = self.state
        if state.now_ms - self._looked_ms >= LOOK_EVERY_MS:
            self._look()
        self._note_full()
        for client in state.accounts.settle_heaps():
            state.release_reading(client, "heap")

    def end_turn(self) -> None:
        """Looks when what has come in since the last look may be too much."""
        if self.state.bytes_taken > self._look_bytes:
            self._look()

    def _look(self) -> None:
        state = self.state
        self._looked_ms = state.now_ms
        was_full, had_memory = state.takes_nothing, not state.memory_full
        self._compare_memory()
        self._compare_disk()
        self._note_full()
        if had_memory and state.memory_full:
            self.blocking.look_at_all()
        elif not self.blocking.is_looking:
            # What they publish to may have moved.
            self.blocking.look_at_held()
        if state.takes_nothing and not was_full:
            self._let_through_ms = state.now_ms
        elif was_full:
            withheld_ms = state.now_ms - self._let_through_ms
            if withheld_ms >= LET_THROUGH_MS or not state.takes_nothing:
                self._let_through()
        if state.memory_full:
            self._end_unfinished()

    def _compare_memory(self) -> None:
        state = self.state
        most, held, resident = state.settings.memory_bytes_max, held_bytes(state), state.resident
        # Other nodes hear of it a moment later: what they have on its way is taken in, too.
        coming = state.settings.publish_window_bytes * len(state.live_peers())
        bound = most - min(coming, most >> _COMING_SHIFT)
        self._stowing.look(held)
        left = max((bound - held) >> _HELD_SHIFT, bound >> _BEYOND_SHIFT)
        self._look_bytes = state.bytes_taken + left
        if not state.memory_full:
            if held > bound or (resident > most and held > most // 2):
                state.memory_full = True
                state.out.warnings.append(
                    f"{held} bytes held, {resident} resident, of {most}: publishers wait"
                )
        elif held < bound // 10 * 9 and (resident <= most or held < most // 20 * 9):
            state.memory_full = False
            state.out.story.append(f"{held} bytes held: publishers go on")

    def _compare_disk(self) -> None:
        state = self.state
        # Whatever the bound: without any room nothing can be taken in.
        free, bound = state.disk_free, max(1, state.settings.disk_free_bytes_min)
        if not state.disk_low:
            if 0 <= free < bound:
                state.disk_low = True
                state.out.warnings.append(
                    f"{free} bytes of disk free, less than {bound}: publishers wait"
                )
        elif free >= bound + bound // 10:
            state.disk_low = False
            state.out.story.append(f"{free} bytes free on disk: publishers go on")

    def _note_full(self) -> None:
        """Notes which nodes take in no more, this one among them."""
        state = self.state
        full = {node: peer.alarm for node, peer in state.peers.items() if peer.alarm is not None}
        if state.takes_nothing:
            full[state.me] = Alarm(state.memory_full, state.disk_low)
        if full == state.full:
            return
        before, state.full = state.full, full
        for node, alarm in full.items():
            if before.get(node) != alarm and node != state.me:
                state.out.story.append(f"{node} is {alarm.reason}: publishers to it wait")
        for node in before:
            if node not in full and node != state.me:
                state.out.story.append(f"publishers do not wait for {node} any more")
        self.blocking.look_at_held()

    def _let_through(self) -> None:
        """Lets other nodes hear what this one has of them by now, full or not."""
        state = self.state
        self._let_through_ms = state.now_ms
        state.chores.begin(self, Each(state.work, state.primaries, self._look_at, _LOOK_WORK))
        done, state.relays_done = state.relays_done, []
        for node, message in done:
            state.send(node, message)

    def _look_at(self, fragment: FragmentId) -> None:
        primary = self.state.primaries.get(fragment)
        if primary is not None and primary.fragment.out.owed:
            primary.lets_through = primary.fragment.out.owed[-1].event
            self.state.marks.primaries[fragment] = None

    def _end_unfinished(self) -> None:
        """Ends contents without an end, as long as their bodies are the most of what is held."""
        state, bound = self.state, self.state.settings.memory_bytes_max // 2
        while state.accounts.bytes_unfinished > bound:
            worst = max(state.clients.values(), key=_unfinished_of)
            if worst.gone:
                return
            self.clients.cut_off(worst, UNFINISHED)


def _unfinished_of(client: Client) -> int:
    return client.bytes_unfinished


def held_bytes(state: NodeState) -> int:
    """What this node holds in memory, with what it costs to hold it."""
    of_fragment, of_replica = footprint.of_fragment, footprint.of_replica
    messages = (
        sum([of_fragment(primary.fragment) for primary in state.primaries.values()])
        + sum([of_fragment(private.fragment) for private in state.nonempty_private.values()])
        + sum([of_replica(backup.replica) for backup in state.backups.values()])
        + footprint.EMPTY * (len(state.primaries) + len(state.backups))
    )
    for peer in state.peers.values():
        messages += peer.link.bytes_unacked + peer.link.bytes_held
    for fragment, publisher in state.publishers.items():
        if fragment not in state.primaries:
            messages += publisher.bytes_unconfirmed
    for hub in state.hubs.values():
        if hub.prefetched:
            messages += sum([len(prefetched.message) for prefetched in hub.prefetched])
    for channel in list(state.transacting):
        if channel.closed or channel.transaction is None:
            del state.transacting[channel]
        else:
            messages += of_transaction(channel.transaction)
    for parts in state.streams.values():
        messages += sum([readers.bytes_held for readers in parts.values()])
    messages += sum([primary.replication.bytes_read for primary in state.primaries.values()])
    messages += state.reads.bytes_asked + state.reads.bytes_kept + state.scanned_bytes
    messages += state.pages.bytes_held + state.plan.places_bytes
    if state.tracer is not None:
        messages += state.tracer.bytes_held
    messages += state.scratch.bytes_under_way + state.scratch.index_bytes
    return messages + state.accounts.bytes_held + state.bytes_waiting
