"""What a node keeps of a shared fragment in either of its roles: as its primary, or as a backup.

Plain records; who changes what is said in each flow's docstring.
"""

from collections import deque
from collections.abc import Container, Mapping
from typing import Final

from fedq.core.ids import MapVersion, NodeId, Origin, QueueKey
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.core.ranges import Range
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.taking.pace import Pace
from fedq.fragments.taking.takers import Takers
from fedq.fragments.taking.windows import Windows
from fedq.replication.backup import OFFERED, BackupReplication
from fedq.replication.durable import DurableMark
from fedq.replication.primary import PrimaryReplication

#: A disk that fails to read may be read again later, and its process ends once it fails to write:
#: so long nothing is lost by it.
UNREAD_MS_MAX: Final = 10_000
#: A disk that has not failed for so long is waited for anew; one with many bad sectors is not, for
#: each of them.
_UNREAD_FORGOTTEN_MS: Final = 300_000


class Primary:
    """A shared fragment that this node serves."""

    __slots__ = (
        "attaching", "begun_chunk", "calls", "damaged", "dying", "ending", "fragment", "gets",
        "handing_over", "is_plain", "lets_through", "mark", "marking", "noted", "pace", "promised",
        "queue", "replication", "reverted", "seen_at", "seen_event", "takers", "unread_at",
        "unread_last_ms", "unread_ms", "unreadable", "unsure", "used_ms", "windows",
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
        #: While this node is full: up to which event other nodes hear all the same what is
        #: committed.
        self.lets_through = 0
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
        #: What readers of a stream could not be given of that disk, and why: to be given up.
        self.unreadable: list[tuple[int, int, str]] = []
        #: What this copy had got as it was made equal to the last primary, and does not count.
        self.reverted: list[Range] = []
        #: The map is asked for another primary: nothing is handed out before it has answered.
        self.handing_over = False
        #: The epoch at which it was said, as the last word of this reign, what was seen: nothing is
        #: handed out after that. 0: it was not.
        self.seen_at = 0
        #: And the number of the event that says so.
        self.seen_event = 0
        #: The journal chunk with which the disk has what was here when the reign began.
        self.begun_chunk = 0

        #: Since when, and until when, the disk has failed to read what it has of it, and where
        #: lately; 0: it has not.
        self.unread_ms = self.unread_last_ms = self.unread_at = 0

    def change_policy(self, policy: QueuePolicy, now_ms: int) -> int:
        """Gives the fragment other limits; returns how much it counted for that."""
        if policy.expires_ms != self.fragment.policy.expires_ms:
            # As in RabbitMQ, whoever may be unused for so long may be from now on.
            self.used_ms = now_ms
        self.is_plain = policy._replace(expires_ms=None) == PLAIN
        return self.fragment.change_policy(policy)

    def note_unread(self, position: int, now_ms: int) -> None:
        """Takes note that the disk has failed to read the message at a position."""
        if not self.unread_ms or now_ms - self.unread_last_ms >= _UNREAD_FORGOTTEN_MS:
            self.unread_ms = max(now_ms, 1)
        self.unread_last_ms = now_ms
        self.unread_at = position

    def note_read(self, bodies: Container[int]) -> None:
        """Notes which messages were read: with one that could not be the disk fails no longer.

        That others can be says nothing: a bad sector is one among good ones.
        """
        if self.unread_at in bodies:
            self.unread_ms = self.unread_at = 0

    def may_be_read_yet(self, now_ms: int) -> bool:
        """Whether what cannot be read may be read later: the disk has failed, but not for long.

        What it did read and is damaged stays so.
        """
        return self.unread_ms > 0 and now_ms - self.unread_ms < UNREAD_MS_MAX

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
