"""What changed in a turn, and is looked at in its end.

In: whoever changes something marks what it touched. Out: the end of a turn (`fedq.node.node`) takes
the marks and works them off, in rounds, until none is set. Dicts keep the
order, and each thing once.

Invariant: a round takes every mark that `are_set` looks at, so only what is marked anew is left.
"""

from collections.abc import Callable

from fedq.core.ids import FragmentId, MapVersion, QueueKey
from fedq.node.records.client_state import Channel, Committer
from fedq.node.records.settling import Settlements


class Marks:
    """The marks of one turn."""

    __slots__ = (
        "after_applied", "after_interest", "aloud", "answered", "backups", "channels", "commits",
        "committed", "primaries", "publishers", "queues", "settlements", "suspect_copies",
        "unfinished", "unwanted",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Fragments that publishes of this node go to.
        self.publishers: dict[FragmentId, None] = {}
        #: Fragments that this node serves,
        self.primaries: dict[FragmentId, None] = {}
        #: those of which more is committed than before, and nothing else has changed,
        self.commits: dict[FragmentId, None] = {}
        #: and those that it keeps copies of.
        self.backups: dict[FragmentId, None] = {}
        #: Queues that have new messages, or consumers here that take more.
        self.queues: dict[QueueKey, None] = {}
        #: Settlements of deliveries from other nodes, by fragment.
        self.settlements: dict[FragmentId, Settlements] = {}
        #: Channels of which publishes are confirmed, which is said while the node serves;
        self.channels: dict[Channel, None] = {}
        #: others whose publishes are committed.
        self.committed: list[Committer] = []
        #: Channels whose request is answered: what waited behind it is worked off.
        self.answered: dict[Channel, None] = {}
        #: Fragments of queues of this node alone that are to end: nobody uses them, or their name
        #: is another's.
        self.unwanted: dict[FragmentId, None] = {}
        #: Fragments that this node leads and does not hand over any more: all may go on.
        self.aloud: dict[FragmentId, None] = {}

        #: Copies that did not follow, and have to be compared with their primaries' again.
        self.suspect_copies: dict[FragmentId, None] = {}
        #: Actions that wait until every live member has applied a map version, and until when at
        #: most (0: for as long as it takes).
        self.after_applied: list[tuple[MapVersion, int, Callable[[], None]]] = []
        #: Actions that wait until every live member has an interest announcement in force.
        self.after_interest: list[tuple[int, Callable[[], None]]] = []
        #: For the next turn: fragments whose dead, or what is over their limits, or what copies of
        #: them lack, were more than this one had room for.
        self.unfinished: dict[FragmentId, None] = {}

    def are_set(self, serving: bool) -> bool:
        """Whether a round has something to work off; what waits for others is none."""
        return bool(
            self.primaries or self.queues or self.publishers or self.commits or self.backups
            or self.settlements or self.committed or self.answered or self.unwanted or self.aloud
            or (self.channels and serving)
        )  # fmt: skip
